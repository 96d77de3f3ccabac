#include "transport/wire/frame_parser.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "transport/wire/bth.h"
#include "transport/wire/byte_order.h"
#include "transport/wire/copy_pieces.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/extension_headers.h"
#include "transport/wire/icrc.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/udp.h"

namespace uroce::transport {
namespace {

constexpr size_t kMaxHeaderBytes = EthernetHeader::kBytes + Ipv6Header::kBytes + UdpHeader::kBytes +
                                   Bth::kBytes + kMaxExtensionBytes;

// A private copy of the first bytes of a frame, without the destination Ethernet address, which is
// not checked.
//
// It is copied in pieces that begin at the source address, so that each field of IPv4, IPv6, BTH
// and RETH lies in one piece. A load from two stores would wait for both to leave the store buffer.
class HeaderCopy {
 public:
  explicit HeaderCopy(std::span<const uint8_t> frame) {
    const size_t end = std::min(frame.size(), kMaxHeaderBytes);
    if (end <= kBegin) return;
    CopyPieces<kMaxHeaderBytes - kBegin>(frame.data() + kBegin, end - kBegin,
                                         bytes_.data() + kBegin);
  }
  const uint8_t* at(size_t offset) const { return bytes_.data() + offset; }

 private:
  static constexpr size_t kBegin = EthernetHeader::kSourceOffset;

  std::array<uint8_t, kMaxHeaderBytes> bytes_;
};

Gid MappedGid(const uint8_t* ipv4_address) {
  Gid gid = Gid::FromIpv4({});
  std::memcpy(gid.bytes.data() + 12, ipv4_address, 4);
  return gid;
}

// Parses one frame. One function a layer returns kNone or the reason to drop the frame; `at_` and
// `end_` are the bounds of the part that the layers above have.
class Parser {
 public:
  Parser(std::span<const uint8_t> frame, Packet& packet)
      : frame_(frame), packet_(packet), headers_(frame) {}

  DropReason Run(IcrcCheck icrc_check) {
    DropReason reason = Ethernet();
    if (reason == DropReason::kNone) reason = Ip();
    if (reason == DropReason::kNone) reason = Udp();
    if (reason == DropReason::kNone) reason = Transport();
    if (reason == DropReason::kNone) reason = Payload();
    if (reason == DropReason::kNone && icrc_check == IcrcCheck::kNeeded) reason = Icrc();
    return reason;
  }

 private:
  DropReason Ethernet();
  DropReason Ip() { return version_ == IpVersion::kIpv4 ? Ipv4() : Ipv6(); }
  DropReason Ipv4();
  DropReason Ipv6();
  DropReason Udp();
  DropReason Transport();
  DropReason Payload();
  DropReason Icrc();

  size_t left() const { return end_ - at_; }
  const uint8_t* header() const { return headers_.at(at_); }
  DropReason EnterUdp(size_t ip_header_bytes, size_t ip_bytes, uint8_t protocol);

  std::span<const uint8_t> frame_;
  Packet& packet_;
  IpVersion version_ = IpVersion::kIpv4;
  uint8_t pad_count_ = 0;
  size_t at_ = 0;
  size_t end_ = 0;
  const HeaderCopy headers_;
};

DropReason Parser::Ethernet() {
  end_ = frame_.size();
  if (left() < EthernetHeader::kBytes) return DropReason::kTooShort;
  std::memcpy(packet_.source_mac.data(), header() + EthernetHeader::kSourceOffset,
              packet_.source_mac.size());
  const uint16_t ether_type = Load16(header() + EthernetHeader::kEtherTypeOffset);
  at_ += EthernetHeader::kBytes;
  if (ether_type == EthernetHeader::kIpv4) {
    version_ = IpVersion::kIpv4;
  } else if (ether_type == EthernetHeader::kIpv6) {
    version_ = IpVersion::kIpv6;
  } else {
    return DropReason::kNotIp;
  }
  return DropReason::kNone;
}

DropReason Parser::Ipv4() {
  if (left() < Ipv4Header::kBytes) return DropReason::kTooShort;
  const std::optional<Ipv4Header> ip = ParseIpv4(header());
  if (!ip) return DropReason::kBadIpHeader;
  packet_.source_gid = MappedGid(header() + Ipv4Header::kSourceOffset);
  packet_.destination_gid = MappedGid(header() + Ipv4Header::kDestinationOffset);
  packet_.traffic_class = ip->traffic_class;
  return EnterUdp(Ipv4Header::kBytes, ip->total_length, ip->protocol);
}

DropReason Parser::Ipv6() {
  if (left() < Ipv6Header::kBytes) return DropReason::kTooShort;
  const std::optional<Ipv6Header> ip = ParseIpv6(header());
  if (!ip) return DropReason::kBadIpHeader;
  packet_.source_gid = Gid{ip->source};
  packet_.destination_gid = Gid{ip->destination};
  // IPv4-mapped addresses do not belong on a wire: such a packet would pass for one of an IPv4 peer
  // (RFC 4291 2.5.5.2 defines them for use within a host).
  if (packet_.source_gid.IsIpv4Mapped() || packet_.destination_gid.IsIpv4Mapped()) {
    return DropReason::kBadIpHeader;
  }
  packet_.traffic_class = ip->traffic_class;
  return EnterUdp(Ipv6Header::kBytes, Ipv6Header::kBytes + ip->payload_length, ip->next_header);
}

// Steps over an IP header. A frame may be longer than its IP packet: Ethernet pads short ones.
DropReason Parser::EnterUdp(size_t ip_header_bytes, size_t ip_bytes, uint8_t protocol) {
  if (ip_bytes < ip_header_bytes || ip_bytes > left()) return DropReason::kBadIpHeader;
  end_ = at_ + ip_bytes;
  packet_.ip_header = frame_.subspan(at_, ip_header_bytes);
  at_ += ip_header_bytes;
  return protocol == UdpHeader::kIpProtocol ? DropReason::kNone : DropReason::kNotRoce;
}

// The UDP checksum is not checked: the ICRC is stronger and covers all its bytes.
DropReason Parser::Udp() {
  if (left() < UdpHeader::kBytes) return DropReason::kTooShort;
  const UdpHeader udp = ParseUdp(header());
  if (udp.destination_port != UdpHeader::kRocePort) return DropReason::kNotRoce;
  if (udp.length != left()) return DropReason::kBadUdpLength;  // IBA CA17-21
  packet_.udp_source_port = udp.source_port;
  at_ += UdpHeader::kBytes;
  return DropReason::kNone;
}

DropReason Parser::Transport() {
  if (left() < Bth::kBytes + kIcrcBytes) return DropReason::kTooShort;
  const Bth bth = ParseBth(header());
  if (bth.transport_version != 0) return DropReason::kBadBthVersion;
  const OpcodeRow& row = kOpcodeRows[bth.opcode];
  if (!row.is_known) return DropReason::kUnknownOpcode;
  TransportHeaders& headers = packet_;
  headers = TransportHeaders{};
  headers.opcode = row.opcode;
  at_ += Bth::kBytes;
  const size_t extension_bytes = row.extension_bytes;
  if (left() < extension_bytes + kIcrcBytes) return DropReason::kTooShort;

  headers.solicited = bth.solicited;
  headers.migration_request = bth.migration_request;
  headers.forward_congestion = bth.forward_congestion;
  headers.backward_congestion = bth.backward_congestion;
  headers.ack_request = bth.ack_request;
  headers.pkey = bth.pkey;
  headers.destination_qpn = bth.destination_qpn;
  headers.psn = bth.psn;
  ParseExtensions(row, header(), headers);
  pad_count_ = bth.pad_count;
  at_ += extension_bytes;
  return DropReason::kNone;
}

DropReason Parser::Payload() {
  const size_t padded_bytes = left() - kIcrcBytes;
  if (padded_bytes % 4 != 0 || pad_count_ > padded_bytes) return DropReason::kBadPadding;
  if (padded_bytes != 0 && !packet_.opcode.HasPayload())
    return DropReason::kBadPadding;  // IBA oA19-2
  packet_.payload = frame_.subspan(at_, padded_bytes - pad_count_);
  return DropReason::kNone;
}

// The ICRC is computed over the headers in the frame. If another process has changed them since
// they were copied, the check fails or passes by chance; either way only the private copy is used.
DropReason Parser::Icrc() {
  const size_t icrc_at = end_ - kIcrcBytes;
  const uint32_t crc = StartIcrc(version_, frame_.data(), icrc_at);
  return IcrcMatches(crc, frame_.data() + icrc_at) ? DropReason::kNone : DropReason::kBadIcrc;
}

}  // namespace

DropReason ParseFrame(std::span<const uint8_t> frame, Packet& packet, IcrcCheck icrc_check) {
  return Parser(frame, packet).Run(icrc_check);
}

}  // namespace uroce::transport
