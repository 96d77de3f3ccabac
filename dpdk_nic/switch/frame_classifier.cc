#include "dpdk_nic/switch/frame_classifier.h"

#include <algorithm>
#include <cstring>

#include "transport/wire/bth.h"
#include "transport/wire/copy_pieces.h"
#include "transport/wire/deth.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/extension_headers.h"
#include "transport/wire/icrc.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/udp.h"

namespace uroce::nic {
namespace {

using transport::Bth;
using transport::CopyPieces;
using transport::EthernetHeader;
using transport::Gid;
using transport::Ipv4Header;
using transport::Ipv6Header;
using transport::UdpHeader;

// The pieces begin here, behind the destination address, so that no field of IP, BTH and DETH lies
// in two of them: a load from two stores waits for both to leave the store buffer.
constexpr size_t kPieces = EthernetHeader::kSourceOffset;

void CopyHead(const uint8_t* from, size_t bytes, uint8_t* to) {
  CopyPieces<kPieces>(from, std::min(bytes, kPieces), to);
  if (bytes <= kPieces) return;
  CopyPieces<FrameHead::kBytes - kPieces>(from + kPieces, bytes - kPieces, to + kPieces);
}

static_assert(EthernetHeader::kBytes + Ipv6Header::kBytes + UdpHeader::kBytes + Bth::kBytes +
                  transport::Deth::kBytes + transport::cm::Steering::kParsedBytes <=
              FrameHead::kBytes);

// Reads the headers of one frame. `at_` is where the next header begins, `left_` the bytes from
// there to the end of the innermost packet so far.
class Classifier {
 public:
  Classifier(const FrameHead& head, size_t frame_bytes, RoceHeaders* headers)
      : head_(head), left_(frame_bytes), headers_(*headers) {}

  FrameKind Run() {
    if (!Ethernet() || !Ip() || !UdpToRoce()) return FrameKind::kOther;
    return Lengths() && Transport() ? FrameKind::kRoce : FrameKind::kMalformed;
  }

 private:
  bool Ethernet();
  bool Ip() { return headers_.is_ipv6 ? Ipv6() : Ipv4(); }
  bool Ipv4();
  bool Ipv6();
  bool UdpToRoce();
  bool Lengths();
  bool Transport();
  void Management();

  const uint8_t* header() const { return head_.at(at_); }
  void Skip(size_t bytes) {
    at_ += bytes;
    left_ -= bytes;
  }

  const FrameHead& head_;
  size_t at_ = 0;
  size_t left_;
  size_t ip_payload_bytes_ = 0;  // as the IP header says
  RoceHeaders& headers_;
};

bool Classifier::Ethernet() {
  if (left_ < EthernetHeader::kBytes) return false;
  const EthernetHeader ethernet = transport::ParseEthernet(header());
  headers_.destination_mac = ethernet.destination;
  headers_.source_mac = ethernet.source;
  headers_.is_ipv6 = ethernet.ether_type == EthernetHeader::kIpv6;
  Skip(EthernetHeader::kBytes);
  return headers_.is_ipv6 || ethernet.ether_type == EthernetHeader::kIpv4;
}

bool Classifier::Ipv4() {
  if (left_ < Ipv4Header::kBytes) return false;
  const std::optional<Ipv4Header> ip = transport::ParseIpv4(header());
  if (!ip || ip->protocol != UdpHeader::kIpProtocol) return false;
  headers_.source = Gid::FromIpv4(ip->source);
  headers_.destination = Gid::FromIpv4(ip->destination);
  ip_payload_bytes_ = std::max<size_t>(ip->total_length, Ipv4Header::kBytes) - Ipv4Header::kBytes;
  Skip(Ipv4Header::kBytes);
  return true;
}

bool Classifier::Ipv6() {
  if (left_ < Ipv6Header::kBytes) return false;
  const std::optional<Ipv6Header> ip = transport::ParseIpv6(header());
  if (!ip || ip->next_header != UdpHeader::kIpProtocol) return false;
  headers_.source = Gid{ip->source};
  headers_.destination = Gid{ip->destination};
  ip_payload_bytes_ = ip->payload_length;
  Skip(Ipv6Header::kBytes);
  return true;
}

bool Classifier::UdpToRoce() {
  return left_ >= UdpHeader::kBytes &&
         transport::ParseUdp(header()).destination_port == UdpHeader::kRocePort;
}

bool Classifier::Lengths() {
  const UdpHeader udp = transport::ParseUdp(header());
  if (ip_payload_bytes_ > left_ || udp.length != ip_payload_bytes_) return false;
  // IPv4-mapped addresses in an IPv6 packet would pass for IPv4 addresses, which it does not have.
  if (headers_.is_ipv6 && (headers_.source.IsIpv4Mapped() || headers_.destination.IsIpv4Mapped())) {
    return false;
  }
  headers_.packet_end = at_ + udp.length;
  left_ = udp.length;
  if (left_ < UdpHeader::kBytes) return false;
  Skip(UdpHeader::kBytes);
  return true;
}

bool Classifier::Transport() {
  if (left_ < Bth::kBytes + transport::kIcrcBytes) return false;
  const Bth bth = transport::ParseBth(header());
  if (bth.transport_version != 0) return false;
  headers_.opcode = transport::ParseOpcode(bth.opcode);
  headers_.destination_qpn = bth.destination_qpn;
  Skip(Bth::kBytes);
  if (!headers_.opcode) return true;
  if (left_ < transport::ExtensionBytes(*headers_.opcode) + transport::kIcrcBytes) return false;
  if (!headers_.IsDatagram()) return true;
  headers_.source_qpn = transport::ParseDeth(header()).source_qpn;
  Skip(transport::Deth::kBytes);
  if (headers_.destination_qpn == kManagementQpn) Management();
  return true;
}

// A MAD is the whole payload, and comes without immediate data.
void Classifier::Management() {
  if (headers_.opcode->HasImmediate()) return;
  if (left_ != transport::cm::kMadBytes + transport::kIcrcBytes) return;
  headers_.cm = transport::cm::Steering::Parse(header());
}

}  // namespace

FrameHead::FrameHead(std::span<const uint8_t> frame) {
  CopyHead(frame.data(), std::min(frame.size(), kBytes), bytes_.data());
}

void FrameHead::WriteFrame(std::span<const uint8_t> frame, uint8_t* out) const {
  CopyHead(bytes_.data(), std::min(frame.size(), kBytes), out);
  if (frame.size() > kBytes) {
    std::memcpy(out + kBytes, frame.data() + kBytes, frame.size() - kBytes);
  }
}

FrameKind Classify(const FrameHead& head, size_t frame_bytes, RoceHeaders* headers) {
  return Classifier(head, frame_bytes, headers).Run();
}

}  // namespace uroce::nic
