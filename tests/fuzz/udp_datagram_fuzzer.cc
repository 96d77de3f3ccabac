// Any datagram can reach UDP port 4791. The first bytes of the input are what the kernel reports
// about a message: its flags, its control messages, the size of the datagrams that it joined, its
// source and destination. The rest are its bytes, unchanged or with their ICRCs made right. Checks:
// every byte is in a packet, in order, or in a part that is counted as dropped; a packet has its
// source and our address; the port reports a right ICRC exactly if it is right.
#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "dpdk_nic/port/udp/datagram.h"
#include "dpdk_nic/port/udp/udp_address.h"
#include "tests/dpdk_nic/port/udp/control_message.h"
#include "tests/fuzz/require.h"
#include "transport/ids.h"
#include "transport/wire/byte_order.h"
#include "transport/wire/encapsulation.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/frame_parser.h"
#include "transport/wire/icrc.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/udp.h"

namespace uroce::nic {
namespace {

using transport::DropReason;
using transport::EthernetHeader;
using transport::Gid;
using transport::IcrcUse;
using transport::Ipv4Header;
using transport::UdpHeader;

constexpr size_t kOptionBytes = 8;
constexpr uint16_t kSourcePort = 0xc123;
constexpr size_t kShortest = 16;  // a BTH and an ICRC

struct Options {
  bool is_ipv6, is_truncated, is_control_cut, has_class, is_class_long, has_segment, is_forged,
      is_of_other_version, is_sealed, is_wildcard, has_destination, is_to_group;
  uint8_t traffic_class;
  int segment_bytes;
  uint16_t identification;

  explicit Options(const uint8_t* bytes) {
    const auto bit = [&](unsigned number) { return (bytes[number / 8] >> number % 8 & 1) != 0; };
    is_ipv6 = bit(0);
    is_truncated = bit(1);
    is_control_cut = bit(2);
    has_class = bit(3);
    is_class_long = bit(4);
    has_segment = bit(5);
    is_forged = bit(6);
    is_of_other_version = bit(7);
    is_sealed = bit(8);
    is_wildcard = bit(9);
    has_destination = bit(10);
    is_to_group = bit(11);
    traffic_class = bytes[2];
    int16_t segment = 0;
    std::memcpy(&segment, bytes + 3, sizeof segment);
    segment_bytes = segment;
    std::memcpy(&identification, bytes + 5, sizeof identification);
  }
};

Gid Host(bool is_ipv6, uint8_t number) {
  Gid gid = Gid::FromIpv4({10, 0, 0, number});
  if (is_ipv6) gid.bytes[0] = 0xfd;
  return gid;
}

Gid Group(bool is_ipv6) {
  Gid gid = Gid::FromIpv4({239, 1, 2, 3});
  if (is_ipv6) gid.bytes[0] = 0xff;
  return gid;
}

Gid Wildcard(bool is_ipv6) { return is_ipv6 ? Gid{} : Gid::FromIpv4({}); }

class Message {
 public:
  Message(const Options& options, const Gid& own)
      : source_(SocketAddress::Make(SourceOf(options, own), kSourcePort, 0)) {
    header_.msg_name = &source_.storage;
    header_.msg_control = control_;
    if (options.is_truncated) header_.msg_flags |= MSG_TRUNC;
    if (options.is_control_cut) header_.msg_flags |= MSG_CTRUNC;
    const int level = options.is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IP;
    const int type = options.is_ipv6 ? IPV6_TCLASS : IP_TOS;
    if (options.has_class && options.is_class_long) Add(level, type, int{options.traffic_class});
    if (options.has_class && !options.is_class_long) Add(level, type, options.traffic_class);
    if (options.has_segment) Add(SOL_UDP, UDP_GRO, options.segment_bytes);
    if (options.has_destination) AddDestination(own);
  }
  const msghdr& header() const { return header_; }

  static Gid SourceOf(const Options& options, const Gid& own) {
    return options.is_forged ? own : Host(options.is_ipv6 != options.is_of_other_version, 2);
  }

 private:
  void AddDestination(const Gid& gid) {
    if (gid.IsIpv4Mapped()) {
      in_pktinfo info{};
      std::memcpy(&info.ipi_addr, &gid.bytes[12], sizeof info.ipi_addr);
      return Add(IPPROTO_IP, IP_PKTINFO, info);
    }
    in6_pktinfo info{};
    std::memcpy(&info.ipi6_addr, gid.bytes.data(), sizeof info.ipi6_addr);
    Add(IPPROTO_IPV6, IPV6_PKTINFO, info);
  }
  template <class Value>
  void Add(int level, int type, Value value) {
    AddControlMessage(header_, level, type, value);
  }

  SocketAddress source_;
  alignas(cmsghdr) char control_[128] = {};
  msghdr header_{};
};

// Makes the ICRC of the part right, as an IPv4 packet with that identification.
void Seal(std::span<uint8_t> part, const Gid& source, const Gid& own, uint16_t identification) {
  constexpr size_t kHeaders = EthernetHeader::kBytes + Ipv4Header::kBytes + UdpHeader::kBytes;
  std::vector<uint8_t> frame(kHeaders + part.size());
  const auto address = [](const Gid& gid) {
    return std::array<uint8_t, 4>{gid.bytes[12], gid.bytes[13], gid.bytes[14], gid.bytes[15]};
  };
  transport::EmitIpv4({.total_length = static_cast<uint16_t>(frame.size() - EthernetHeader::kBytes),
                       .identification = identification,
                       .protocol = UdpHeader::kIpProtocol,
                       .source = address(source),
                       .destination = address(own)},
                      &frame[EthernetHeader::kBytes]);
  transport::EmitUdp({.source_port = kSourcePort,
                      .destination_port = UdpHeader::kRocePort,
                      .length = static_cast<uint16_t>(UdpHeader::kBytes + part.size())},
                     &frame[EthernetHeader::kBytes + Ipv4Header::kBytes]);
  std::copy(part.begin(), part.end(), frame.begin() + kHeaders);
  const size_t icrc_at = frame.size() - transport::kIcrcBytes;
  transport::EmitIcrc(transport::StartIcrc(transport::IpVersion::kIpv4, frame.data(), icrc_at),
                      part.data() + part.size() - transport::kIcrcBytes);
}

bool IsFrameLong(size_t bytes) {
  return bytes >= kShortest &&
         bytes + transport::kMaxNetworkHeaderBytes <= transport::kMaxFrameBytes;
}

void CheckPacket(const transport::ReceivedPacket& received, std::span<const uint8_t> part,
                 const Options& options, const Gid& source, const Gid& own) {
  UROCE_REQUIRE(received.bytes.data() == part.data());
  UROCE_REQUIRE(received.bytes.size() + transport::kIcrcBytes == part.size());
  const transport::Flow& flow = *received.flow;
  UROCE_REQUIRE(flow.source == source && flow.destination == own);
  UROCE_REQUIRE(flow.traffic_class == options.traffic_class && flow.source_port == kSourcePort);
  std::vector<uint8_t> room(transport::kMaxFrameBytes);
  const auto frame = Encapsulate(flow, received.identification, part, room);
  UROCE_REQUIRE(frame.size() == received.frame_bytes);
  transport::Packet packet;
  const DropReason reason = ParseFrame(frame, packet, IcrcUse::kWaived);
  const bool is_right = ParseFrame(frame, packet) == DropReason::kNone;
  if (reason == DropReason::kNone) UROCE_REQUIRE(received.is_icrc_right == is_right);
}

// The reason to drop a message as a whole, if there is one.
std::optional<PortDrop> ReasonToDrop(const Options& options, size_t bytes) {
  if (options.is_truncated) return PortDrop::kTruncated;
  const bool has_no_destination = options.is_wildcard && !options.has_destination;
  if (options.is_control_cut || !options.has_class || has_no_destination) {
    return PortDrop::kUnmarked;
  }
  const bool is_bad = options.has_segment && options.segment_bytes <= 0 && bytes != 0;
  if (is_bad) return PortDrop::kBadSegment;
  if (options.is_forged || options.is_of_other_version) return PortDrop::kOwnAddress;
  return std::nullopt;
}

void Run(std::span<const uint8_t> input) {
  if (input.size() < kOptionBytes) return;
  const Options options(input.data());
  // The destination: our address, or a group.
  const Gid own = options.is_to_group ? Group(options.is_ipv6) : Host(options.is_ipv6, 1);
  const Gid source = Message::SourceOf(options, own);
  const size_t bytes = input.size() - kOptionBytes;
  std::vector<uint8_t> payload(input.begin() + kOptionBytes, input.end());

  const Message message(options, own);
  PortDrops drops;
  DatagramInfo info;
  const auto reason = ReasonToDrop(options, bytes);
  const Gid bound = options.is_wildcard ? Wildcard(options.is_ipv6) : own;
  UROCE_REQUIRE(ReadDatagramInfo(message.header(), bytes, bound, &info, &drops) == !reason);
  if (reason) {
    UROCE_REQUIRE(drops[*reason] == 1 && drops.total() == 1);
    return;
  }
  const size_t segment_bytes =
      options.has_segment ? static_cast<size_t>(std::max(options.segment_bytes, 1)) : bytes;
  uint16_t identification = options.identification;
  for (size_t at = 0; options.is_sealed && !options.is_ipv6 && at < bytes; at += segment_bytes) {
    const auto part = std::span(payload).subspan(at, std::min(segment_bytes, bytes - at));
    if (IsFrameLong(part.size())) Seal(part, source, own, identification++);
  }

  DatagramRun run(payload, info);
  PeerIdentifications peers;
  uint64_t dropped = 0;
  for (size_t at = 0; at < bytes; at += segment_bytes) {
    const auto part = std::span(payload).subspan(at, std::min(segment_bytes, bytes - at));
    if (!IsFrameLong(part.size())) {
      ++dropped;
      continue;
    }
    const auto* const packet = run.Next(&peers, &drops);
    UROCE_REQUIRE(packet != nullptr);
    CheckPacket(*packet, part, options, source, own);
    const bool must_be_right = options.is_sealed && !options.is_ipv6 && part.size() % 4 == 0;
    UROCE_REQUIRE(!must_be_right || packet->is_icrc_right);
  }
  UROCE_REQUIRE(run.Next(&peers, &drops) == nullptr && run.empty());
  UROCE_REQUIRE(drops.total() - drops[PortDrop::kBadIcrc] == dropped);
}

}  // namespace
}  // namespace uroce::nic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uroce::nic::Run({data, size});
  return 0;
}
