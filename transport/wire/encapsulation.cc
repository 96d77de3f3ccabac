#include "transport/wire/encapsulation.h"

#include <algorithm>
#include <cstring>

#include "transport/wire/bth.h"
#include "transport/wire/byte_order.h"
#include "transport/wire/ipv4.h"

namespace uroce::transport {
namespace {

constexpr size_t kIp = EthernetHeader::kBytes;
constexpr size_t kLeastUdpBytes = UdpHeader::kBytes + Bth::kBytes + kIcrcBytes;

template <IpVersion kVersion>
constexpr size_t kIpBytes = kVersion == IpVersion::kIpv4 ? Ipv4Header::kBytes : Ipv6Header::kBytes;

// The GID is written as words, not bytes, as it is read as words a moment later.
void SetMappedGid(const uint8_t* ipv4_address, Gid& gid) {
  Store64(0, gid.bytes.data());
  Store64(uint64_t{0xffff} << 32 | Load32(ipv4_address), gid.bytes.data() + 8);
}

std::array<uint8_t, 4> Ipv4Of(const Gid& gid) {
  return {gid.bytes[12], gid.bytes[13], gid.bytes[14], gid.bytes[15]};
}

// The fields of an IP header that NetworkHeaders lacks.
struct IpFields {
  bool is_known = false;  // the version is right, and IPv4 has no options
  uint8_t protocol = 0;
};

IpFields ReadIpv4(const uint8_t* ip, NetworkHeaders& headers) {
  Flow& flow = headers.flow;
  SetMappedGid(ip + Ipv4Header::kSourceOffset, flow.source);
  SetMappedGid(ip + Ipv4Header::kDestinationOffset, flow.destination);
  flow.traffic_class = ip[1];
  flow.hop_limit = ip[8];
  headers.is_valid =
      (Load16(ip + 6) & ipv4_internal::kFragment) == 0 && ipv4_internal::IsChecksumRight(ip);
  headers.identification = Load16(ip + 4);
  headers.ip_bytes = Load16(ip + Ipv4Header::kTotalLengthOffset);
  return {.is_known = ip[0] == ipv4_internal::kVersionAndLength, .protocol = ip[9]};
}

IpFields ReadIpv6(const uint8_t* ip, NetworkHeaders& headers) {
  Flow& flow = headers.flow;
  const uint32_t word = Load32(ip);
  std::memcpy(flow.source.bytes.data(), ip + 8, 16);
  std::memcpy(flow.destination.bytes.data(), ip + 24, 16);
  flow.flow_label = word & Ipv6Header::kFlowLabelMask;
  flow.traffic_class = static_cast<uint8_t>(word >> 20);
  flow.hop_limit = ip[7];
  headers.ip_bytes = size_t{Ipv6Header::kBytes} + Load16(ip + 4);
  KeepWhatWasRead();
  headers.is_valid = !flow.source.IsIpv4Mapped() && !flow.destination.IsIpv4Mapped();
  return {.is_known = word >> 28 == Ipv6Header::kVersion, .protocol = ip[6]};
}

// Reads Ethernet and IP headers, all bytes of which are there, into `headers`, which is empty.
IpFields ReadIp(bool is_ipv6, const uint8_t* frame, NetworkHeaders& headers) {
  std::memcpy(headers.flow.destination_mac.data(), frame, 6);
  std::memcpy(headers.flow.source_mac.data(), frame + EthernetHeader::kSourceOffset, 6);
  headers.version = is_ipv6 ? IpVersion::kIpv6 : IpVersion::kIpv4;
  headers.udp_at = kIp + (is_ipv6 ? Ipv6Header::kBytes : Ipv4Header::kBytes);
  const IpFields fields = is_ipv6 ? ReadIpv6(frame + kIp, headers) : ReadIpv4(frame + kIp, headers);
  KeepWhatWasRead();
  return fields;
}

inline void ReadUdp(const uint8_t* bytes, NetworkHeaders& headers) {
  const UdpHeader udp = ParseUdp(bytes + headers.udp_at);
  headers.flow.source_port = udp.source_port;
  headers.destination_port = udp.destination_port;
  headers.udp_bytes = udp.length;
  KeepWhatWasRead();
}

template <class Integer>
bool AreTheSame(const uint8_t* a, const uint8_t* b, size_t offset) {
  Integer words[2];
  std::memcpy(&words[0], a + offset, sizeof(Integer));
  std::memcpy(&words[1], b + offset, sizeof(Integer));
  return words[0] == words[1];
}

// Whether all fields but lengths, identification, fragment and checksums are the same, from the
// source MAC on.
template <IpVersion kVersion>
bool AreAlike(const uint8_t* frame, const uint8_t* other) {
  const auto same16 = [&](size_t at) { return AreTheSame<uint16_t>(frame, other, at); };
  const auto same32 = [&](size_t at) { return AreTheSame<uint32_t>(frame, other, at); };
  const auto same64 = [&](size_t at) { return AreTheSame<uint64_t>(frame, other, at); };
  constexpr size_t kPorts = kIp + kIpBytes<kVersion>;
  if (!same64(EthernetHeader::kSourceOffset) || !same32(kPorts)) return false;
  if constexpr (kVersion == IpVersion::kIpv4) {
    return same16(kIp) && same16(kIp + 8) && same64(kIp + Ipv4Header::kSourceOffset);
  } else {
    return same32(kIp) && same16(kIp + 6) && same64(kIp + 8) && same64(kIp + 16) &&
           same64(kIp + 24) && same64(kIp + 32);
  }
}

}  // namespace

std::optional<NetworkHeaders> ReadNetworkHeaders(std::span<const uint8_t> frame) {
  if (frame.size() < kIp + Ipv4Header::kBytes + UdpHeader::kBytes) return std::nullopt;
  const uint16_t ether_type = Load16(&frame[EthernetHeader::kEtherTypeOffset]);
  const bool is_ipv6 = ether_type == EthernetHeader::kIpv6;
  if (!is_ipv6 && ether_type != EthernetHeader::kIpv4) return std::nullopt;
  if (is_ipv6 && frame.size() < kMaxNetworkHeaderBytes) return std::nullopt;
  NetworkHeaders headers;
  const IpFields ip = ReadIp(is_ipv6, frame.data(), headers);
  if (!ip.is_known || ip.protocol != UdpHeader::kIpProtocol) return std::nullopt;
  ReadUdp(frame.data(), headers);
  return headers;
}

std::optional<NetworkHeaders> FindRocePacket(std::span<const uint8_t> frame) {
  const auto headers = ReadNetworkHeaders(frame);
  const bool has_packet = headers && headers->is_roce() && headers->udp_bytes >= kLeastUdpBytes &&
                          headers->end() <= frame.size();
  return has_packet ? headers : std::nullopt;
}

DropReason Decapsulator::Strip(std::span<const uint8_t> frame, IcrcUse icrc,
                               ReceivedPacket& packet) {
  const bool is_known =
      (version_ == IpVersion::kIpv4 && IsLikeLast<IpVersion::kIpv4>(frame, icrc, packet)) ||
      (version_ == IpVersion::kIpv6 && IsLikeLast<IpVersion::kIpv6>(frame, icrc, packet));
  return is_known ? DropReason::kNone : StripOther(frame, icrc, packet);
}

// The headers are compared with those of the last packet instead of being checked: they were right.
template <IpVersion kVersion>
inline bool Decapsulator::IsLikeLast(std::span<const uint8_t> frame, IcrcUse icrc,
                                     ReceivedPacket& packet) {
  constexpr size_t kUdpAt = kIp + kIpBytes<kVersion>;
  const uint8_t* const bytes = frame.data();
  if (frame.size() < kUdpAt + kLeastUdpBytes || !AreAlike<kVersion>(bytes, last_.data())) {
    return false;
  }
  const uint8_t* const ip = bytes + kIp;
  const size_t udp_bytes = Load16(bytes + kUdpAt + 4);
  packet.identification = 0;
  if constexpr (kVersion == IpVersion::kIpv4) {
    const uint32_t second_word = Load32(ip + 4);
    packet.identification = static_cast<uint16_t>(second_word >> 16);
    const bool is_right =
        (second_word & ipv4_internal::kFragment) == 0 &&
        Load16(ip + Ipv4Header::kTotalLengthOffset) == Ipv4Header::kBytes + udp_bytes &&
        ipv4_internal::IsChecksumRight(ip);
    if (!is_right) return false;
  } else if (Load16(ip + 4) != udp_bytes) {
    return false;
  }
  KeepWhatWasRead();
  if (udp_bytes < kLeastUdpBytes || kUdpAt + udp_bytes > frame.size()) return false;
  Take<kVersion>(frame, udp_bytes, icrc, packet);
  return true;
}

template <IpVersion kVersion>
inline void Decapsulator::Take(std::span<const uint8_t> frame, size_t udp_bytes, IcrcUse icrc,
                               ReceivedPacket& packet) {
  constexpr size_t kUdpAt = kIp + kIpBytes<kVersion>;
  constexpr size_t kBthAt = kUdpAt + UdpHeader::kBytes;
  const size_t icrc_at = kUdpAt + udp_bytes - kIcrcBytes;
  packet.flow = &flow_;
  packet.bytes = frame.subspan(kBthAt, icrc_at - kBthAt);
  packet.frame_bytes = frame.size();
  // The ICRC is computed over the headers in the frame. If another process has changed them since
  // they were read, the check fails or passes by chance; either way what was read is used.
  packet.is_icrc_right = icrc != IcrcUse::kCarried ||
                         IcrcMatches(StartIcrc(kVersion, frame.data(), icrc_at), &frame[icrc_at]);
}

DropReason Decapsulator::StripOther(std::span<const uint8_t> frame, IcrcUse icrc,
                                    ReceivedPacket& packet) {
  version_.reset();
  std::copy_n(frame.begin(), std::min(frame.size(), last_.size()), last_.begin());
  NetworkHeaders headers;
  const DropReason reason = Check(frame.size(), headers);
  if (reason != DropReason::kNone) return reason;
  version_ = headers.version;
  flow_ = headers.flow;
  flow_.destination_mac = {};  // IsLikeLast does not compare it
  packet.identification = headers.identification;
  if (version_ == IpVersion::kIpv4) {
    Take<IpVersion::kIpv4>(frame, headers.udp_bytes, icrc, packet);
  } else {
    Take<IpVersion::kIpv6>(frame, headers.udp_bytes, icrc, packet);
  }
  return DropReason::kNone;
}

// A frame may be longer than its IP packet: Ethernet pads short ones.
DropReason Decapsulator::Check(size_t frame_bytes, NetworkHeaders& headers) const {
  if (frame_bytes < EthernetHeader::kBytes) return DropReason::kTooShort;
  const uint16_t ether_type = Load16(&last_[EthernetHeader::kEtherTypeOffset]);
  const bool is_ipv6 = ether_type == EthernetHeader::kIpv6;
  if (!is_ipv6 && ether_type != EthernetHeader::kIpv4) return DropReason::kNotIp;
  const size_t ip_header_bytes = is_ipv6 ? Ipv6Header::kBytes : Ipv4Header::kBytes;
  if (frame_bytes < kIp + ip_header_bytes) return DropReason::kTooShort;
  const IpFields ip = ReadIp(is_ipv6, last_.data(), headers);
  const bool is_ip = ip.is_known && headers.is_valid && headers.ip_bytes >= ip_header_bytes &&
                     headers.ip_bytes <= frame_bytes - kIp;
  if (!is_ip) return DropReason::kBadIpHeader;
  if (ip.protocol != UdpHeader::kIpProtocol) return DropReason::kNotRoce;
  const size_t udp_bytes = headers.ip_bytes - ip_header_bytes;
  if (udp_bytes < UdpHeader::kBytes) return DropReason::kTooShort;
  ReadUdp(last_.data(), headers);
  if (!headers.is_roce()) return DropReason::kNotRoce;
  if (headers.udp_bytes != udp_bytes) return DropReason::kBadUdpLength;  // IBA CA17-21
  return udp_bytes < kLeastUdpBytes ? DropReason::kTooShort : DropReason::kNone;
}

uint8_t* EmitIpHeader(const Flow& flow, uint16_t identification, size_t packet_bytes,
                      uint8_t* out) {
  const size_t udp_bytes = UdpHeader::kBytes + packet_bytes;
  if (flow.is_ipv6()) {
    EmitIpv6({.traffic_class = flow.traffic_class,
              .flow_label = flow.flow_label,
              .payload_length = static_cast<uint16_t>(udp_bytes),
              .next_header = UdpHeader::kIpProtocol,
              .hop_limit = flow.hop_limit,
              .source = flow.source.bytes,
              .destination = flow.destination.bytes},
             out);
    return out + Ipv6Header::kBytes;
  }
  EmitIpv4({.traffic_class = flow.traffic_class,
            .total_length = static_cast<uint16_t>(Ipv4Header::kBytes + udp_bytes),
            .identification = identification,
            .time_to_live = flow.hop_limit,
            .protocol = UdpHeader::kIpProtocol,
            .source = Ipv4Of(flow.source),
            .destination = Ipv4Of(flow.destination)},
           out);
  return out + Ipv4Header::kBytes;
}

uint8_t* EmitNetworkHeaders(const Flow& flow, uint16_t identification, size_t packet_bytes,
                            uint8_t* out) {
  EmitEthernet({.destination = flow.destination_mac,
                .source = flow.source_mac,
                .ether_type = flow.is_ipv6() ? EthernetHeader::kIpv6 : EthernetHeader::kIpv4},
               out);
  uint8_t* const udp = EmitIpHeader(flow, identification, packet_bytes, out + kIp);
  EmitUdp({.source_port = flow.source_port,
           .destination_port = UdpHeader::kRocePort,
           .length = static_cast<uint16_t>(UdpHeader::kBytes + packet_bytes)},
          udp);
  return udp + UdpHeader::kBytes;
}

std::span<const uint8_t> Encapsulate(const Flow& flow, uint16_t identification,
                                     std::span<const uint8_t> packet, std::span<uint8_t> out) {
  uint8_t* const bth = EmitNetworkHeaders(flow, identification, packet.size(), out.data());
  return {out.data(), std::copy(packet.begin(), packet.end(), bth)};
}

std::span<const uint8_t> BuiltFrame(const FrameRoom& built, size_t frame_bytes,
                                    std::span<uint8_t> room) {
  if (built.flow == nullptr) return built.first(frame_bytes);
  const auto packet = built.first(frame_bytes - NetworkHeaderBytes(*built.flow));
  return Encapsulate(*built.flow, 0, packet, room);
}

void CopyFrame(std::span<const uint8_t> frame, const FrameRoom& room) {
  if (room.flow == nullptr) {
    std::copy(frame.begin(), frame.end(), room.begin());
    return;
  }
  room.flow->destination = {};
  const auto headers = FindRocePacket(frame);
  const bool is_packet = headers && headers->is_whole() && headers->end() == frame.size() &&
                         headers->udp_bytes % 4 == 0;
  if (!is_packet) return;
  *room.flow = headers->flow;
  const auto packet = frame.subspan(headers->bth_at());
  std::copy(packet.begin(), packet.end(), room.begin());
}

bool IsUdp(std::span<const uint8_t> frame) {
  constexpr size_t kIpv4ProtocolAt = kIp + 9;
  constexpr size_t kIpv6ProtocolAt = kIp + 6;
  if (frame.size() < kIp + Ipv4Header::kBytes) return false;
  const uint16_t ether_type = Load16(&frame[EthernetHeader::kEtherTypeOffset]);
  return (ether_type == EthernetHeader::kIpv4 &&
          frame[kIpv4ProtocolAt] == UdpHeader::kIpProtocol) ||
         (ether_type == EthernetHeader::kIpv6 && frame[kIpv6ProtocolAt] == UdpHeader::kIpProtocol);
}

void FillInIcrc(std::span<uint8_t> frame) {
  const auto headers = FindRocePacket(frame);
  if (!headers || !headers->is_valid) return;
  const size_t icrc_at = headers->end() - kIcrcBytes;
  EmitIcrc(StartIcrc(headers->version, frame.data(), icrc_at), &frame[icrc_at]);
}

}  // namespace uroce::transport
