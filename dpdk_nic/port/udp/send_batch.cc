#include "dpdk_nic/port/udp/send_batch.h"

#include <netinet/in.h>
#include <netinet/udp.h>

#include <cstring>

#include "transport/wire/udp.h"

namespace uroce::nic {
namespace {

template <class Value>
size_t AddControl(int level, int type, Value value, char* at) {
  cmsghdr header{};
  header.cmsg_level = level;
  header.cmsg_type = type;
  header.cmsg_len = CMSG_LEN(sizeof value);
  std::memcpy(at, &header, sizeof header);
  std::memcpy(at + CMSG_LEN(0), &value, sizeof value);
  return CMSG_SPACE(sizeof value);
}

}  // namespace

void SendBatch::Add(const TransmitQueue& queue, size_t frames, const UdpSocket& socket,
                    int interface_index) {
  const OutgoingPacket& first = queue.packet(frames_);
  const bool to_group = first.flow.destination.IsMulticast();
  destinations_[count_] =
      SocketAddress::Make(first.flow.destination, transport::UdpHeader::kRocePort, interface_index);
  msghdr& message = headers_[count_].msg_hdr;
  message.msg_name = &destinations_[count_].storage;
  message.msg_namelen = destinations_[count_].bytes;
  message.msg_iov = &vectors_[count_];
  message.msg_iovlen = 1;
  message.msg_control = controls_[count_].bytes.data();
  message.msg_controllen = WriteControl(first,
                                        {.is_segmented = frames > 1,
                                         .names_source = IsWildcard(socket.gid()) || to_group,
                                         .interface_index = interface_index},
                                        &controls_[count_]);
  const auto bytes = queue.payloads(frames_, frames);
  vectors_[count_] = {const_cast<uint8_t*>(bytes.data()), bytes.size()};  // only read
  frames_of_[count_] = frames;
  frames_ += frames;
  ++count_;
}

size_t SendBatch::WriteControl(const OutgoingPacket& packet, const Marks& marks, Control* control) {
  char* const begin = control->bytes.data();
  char* at = begin;
  const bool is_ipv6 = packet.flow.is_ipv6();
  at += AddControl(is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, is_ipv6 ? IPV6_TCLASS : IP_TOS,
                   int{packet.flow.traffic_class}, at);
  if (packet.flow.hop_limit != 0) {  // the kernel cannot send 0: such packets take its default
    at += AddControl(is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, is_ipv6 ? IPV6_HOPLIMIT : IP_TTL,
                     int{packet.flow.hop_limit}, at);
  }
  if (marks.names_source && is_ipv6) {
    in6_pktinfo source{};
    std::memcpy(&source.ipi6_addr, packet.flow.source.bytes.data(), sizeof source.ipi6_addr);
    if (IsLinkLocal(packet.flow.source) || packet.flow.destination.IsMulticast()) {
      source.ipi6_ifindex = static_cast<unsigned>(marks.interface_index);
    }
    at += AddControl(IPPROTO_IPV6, IPV6_PKTINFO, source, at);
  } else if (marks.names_source) {
    in_pktinfo source{};
    if (packet.flow.destination.IsMulticast()) source.ipi_ifindex = marks.interface_index;
    std::memcpy(&source.ipi_spec_dst, packet.flow.source.bytes.data() + 12,
                sizeof source.ipi_spec_dst);
    at += AddControl(IPPROTO_IP, IP_PKTINFO, source, at);
  }
  if (marks.is_segmented) at += AddControl(SOL_UDP, UDP_SEGMENT, packet.payload_bytes, at);
  return static_cast<size_t>(at - begin);
}

int SendBatch::Send(const UdpSocket& socket) {
  if (count_ > 1) {
    return sendmmsg(socket.fd(), headers_.data(), static_cast<unsigned>(count_), MSG_DONTWAIT);
  }
  return sendmsg(socket.fd(), &headers_[0].msg_hdr, MSG_DONTWAIT) < 0 ? -1 : 1;
}

}  // namespace uroce::nic
