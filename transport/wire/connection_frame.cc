#include "transport/wire/connection_frame.h"

#include <array>
#include <bit>
#include <cstring>

#include "transport/wire/bth.h"
#include "transport/wire/byte_order.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/extension_headers.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/udp.h"

namespace uroce::transport {
namespace {

constexpr size_t kIpv4BthAt = EthernetHeader::kBytes + Ipv4Header::kBytes + UdpHeader::kBytes;
constexpr size_t kIpv6BthAt = EthernetHeader::kBytes + Ipv6Header::kBytes + UdpHeader::kBytes;

// Compared in the first word of the BTH: the version, of which there is only 0, and the P_Key
// without the membership bit (IBA 10.9.3): a connection that takes the short way is a full member.
constexpr uint32_t kVersionAndPartition = 0x000f'7fff;
constexpr uint32_t kOurVersionAndPartition = PartitionOf(kDefaultPkey);

uint32_t Load32AsIs(const uint8_t* bytes) {
  uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

uint64_t Load64AsIs(const uint8_t* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

bool IsEqual(const uint8_t* address, const Gid& gid) {
  return ((Load64AsIs(address) ^ Load64AsIs(&gid.bytes[0])) |
          (Load64AsIs(address + 8) ^ Load64AsIs(&gid.bytes[8]))) == 0;
}

// Compares EtherType, IP header and addresses with those of a packet of `udp_bytes` bytes of UDP.
// Bits that may have any value are masked out.
template <IpVersion version>
bool MatchesNetwork(const uint8_t* frame, const ConnectionFrames& expected, uint32_t udp_bytes) {
  const uint16_t ether_type = Load16(frame + EthernetHeader::kEtherTypeOffset);
  const uint8_t* const ip = frame + EthernetHeader::kBytes;
  if constexpr (version == IpVersion::kIpv4) {
    const uint32_t total_bytes = Ipv4Header::kBytes + udp_bytes;
    return ether_type == EthernetHeader::kIpv4 &&
           (Load32(ip) & 0xff00'ffff) == (0x4500'0000 | total_bytes) &&
           (Load32(ip + 4) & ipv4_internal::kFragment) == 0 &&
           (Load32(ip + 8) & 0x00ff'0000) == uint32_t{UdpHeader::kIpProtocol} << 16 &&
           Load32AsIs(ip + Ipv4Header::kSourceOffset) == Load32AsIs(&expected.source.bytes[12]) &&
           Load32AsIs(ip + Ipv4Header::kDestinationOffset) ==
               Load32AsIs(&expected.destination.bytes[12]) &&
           ipv4_internal::IsChecksumRight(ip);
  } else {
    return ether_type == EthernetHeader::kIpv6 && ip[0] >> 4 == Ipv6Header::kVersion &&
           (Load32(ip + 4) >> 8) == (udp_bytes << 8 | UdpHeader::kIpProtocol) &&
           IsEqual(ip + 8, expected.source) && IsEqual(ip + 24, expected.destination);
  }
}

template <IpVersion version>
bool Match(std::span<const uint8_t> frame, const ConnectionFrames& expected, IcrcCheck icrc_check,
           ConnectionPacket& packet) {
  constexpr size_t kBthAt = version == IpVersion::kIpv4 ? kIpv4BthAt : kIpv6BthAt;
  constexpr size_t kUdpAt = kBthAt - UdpHeader::kBytes;
  constexpr size_t kExtensionsAt = kBthAt + Bth::kBytes;
  if (frame.size() < kExtensionsAt + kIcrcBytes) return false;
  const uint8_t* const bytes = frame.data();
  const UdpHeader udp = ParseUdp(bytes + kUdpAt);
  const uint32_t first = Load32(bytes + kBthAt);
  const uint32_t second = Load32(bytes + kBthAt + 4);
  const uint32_t third = Load32(bytes + kBthAt + 8);
  KeepWhatWasRead();
  const size_t end = kUdpAt + udp.length;
  const bool is_expected = udp.destination_port == UdpHeader::kRocePort && end <= frame.size() &&
                           end >= kExtensionsAt + kIcrcBytes &&
                           MatchesNetwork<version>(bytes, expected, udp.length) &&
                           (first & kVersionAndPartition) == kOurVersionAndPartition &&
                           Low24(second) == expected.destination_qpn.value;
  if (!is_expected) return false;
  const size_t icrc_at = end - kIcrcBytes;
  packet = {first, third, bytes + kExtensionsAt, icrc_at - kExtensionsAt};
  if (icrc_check != IcrcCheck::kNeeded) return true;
  return IcrcMatches(StartIcrc(version, bytes, icrc_at), bytes + icrc_at);
}

}  // namespace

Qpn PeekDestinationQpn(std::span<const uint8_t> frame) {
  constexpr size_t kQpnOffset = 4;  // in the BTH, below eight other bits
  if (frame.size() < kIpv6BthAt + Bth::kBytes) {
    if (frame.size() < kIpv4BthAt + Bth::kBytes) return {};
    return {Low24(Load32(&frame[kIpv4BthAt + kQpnOffset]))};
  }
  const bool is_ipv6 = Load16(&frame[EthernetHeader::kEtherTypeOffset]) == EthernetHeader::kIpv6;
  return {Low24(Load32(&frame[(is_ipv6 ? kIpv6BthAt : kIpv4BthAt) + kQpnOffset]))};
}

bool MatchConnectionFrame(std::span<const uint8_t> frame, const ConnectionFrames& expected,
                          IcrcCheck icrc_check, ConnectionPacket& packet) {
  return expected.source.IsIpv4Mapped()
             ? Match<IpVersion::kIpv4>(frame, expected, icrc_check, packet)
             : Match<IpVersion::kIpv6>(frame, expected, icrc_check, packet);
}

DropReason ReadConnectionPacket(const ConnectionPacket& packet, Service service, Packet& headers) {
  const Bth bth = packet.bth();
  const OpcodeRow& row = kOpcodeRows[bth.opcode];
  if (!row.is_known) return DropReason::kUnknownOpcode;
  const size_t extension_bytes = row.extension_bytes;
  if (packet.bytes < extension_bytes) return DropReason::kTooShort;
  const size_t padded_bytes = packet.bytes - extension_bytes;
  const bool fits = padded_bytes % 4 == 0 && bth.pad_count <= padded_bytes &&
                    (padded_bytes == 0 || row.has_payload);
  if (!fits) return DropReason::kBadPadding;
  if (row.opcode.service != service) return DropReason::kWrongService;
  headers.opcode = row.opcode;
  headers.solicited = bth.solicited;
  headers.ack_request = bth.ack_request;
  headers.psn = bth.psn;
  ParseExtensions(row, packet.extensions, headers);
  headers.payload = {packet.extensions + extension_bytes, padded_bytes - bth.pad_count};
  KeepWhatWasRead();
  return DropReason::kNone;
}

}  // namespace uroce::transport
