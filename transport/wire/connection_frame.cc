#include "transport/wire/connection_frame.h"

#include <array>
#include <atomic>
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

// The compiler does not load again what was loaded before: the frame may have changed.
void KeepWhatWasRead() { std::atomic_signal_fence(std::memory_order_seq_cst); }

// EtherType and IP header of a packet with so many bytes of UDP, and its addresses. Words are
// compared with the bits masked out that may be anything.
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
           ipv4_internal::Sum(ip) == 0xffff;
  } else {
    return ether_type == EthernetHeader::kIpv6 && ip[0] >> 4 == Ipv6Header::kVersion &&
           (Load32(ip + 4) >> 8) == (udp_bytes << 8 | UdpHeader::kIpProtocol) &&
           IsEqual(ip + 8, expected.source) && IsEqual(ip + 24, expected.destination);
  }
}

template <IpVersion version>
bool Parse(std::span<const uint8_t> frame, const ConnectionFrames& expected, IcrcCheck icrc_check,
           Packet& packet) {
  constexpr size_t kBthAt = version == IpVersion::kIpv4 ? kIpv4BthAt : kIpv6BthAt;
  constexpr size_t kUdpAt = kBthAt - UdpHeader::kBytes;
  if (frame.size() < kBthAt + Bth::kBytes + kIcrcBytes) return false;
  const uint8_t* const bytes = frame.data();
  const UdpHeader udp = ParseUdp(bytes + kUdpAt);
  const Bth bth = ParseBth(bytes + kBthAt);
  KeepWhatWasRead();
  const size_t end = kUdpAt + udp.length;
  const bool is_expected = udp.destination_port == UdpHeader::kRocePort && end <= frame.size() &&
                           MatchesNetwork<version>(bytes, expected, udp.length);
  if (!is_expected) return false;

  const auto opcode = ParseOpcode(bth.opcode);
  if (bth.transport_version != 0 || !IsInOurPartition(bth.pkey) ||
      bth.destination_qpn != expected.destination_qpn || !opcode ||
      opcode->service != expected.service) {
    return false;
  }
  const size_t payload_at = kBthAt + Bth::kBytes + ExtensionBytes(*opcode);
  if (end < payload_at + kIcrcBytes) return false;
  const size_t padded_bytes = end - kIcrcBytes - payload_at;
  const bool fits = padded_bytes % 4 == 0 && bth.pad_count <= padded_bytes &&
                    (padded_bytes == 0 || opcode->HasPayload());
  if (!fits) return false;
  packet.opcode = *opcode;
  packet.solicited = bth.solicited;
  packet.ack_request = bth.ack_request;
  packet.psn = bth.psn;
  ParseExtensions(bytes + kBthAt + Bth::kBytes, packet);
  packet.payload = {bytes + payload_at, padded_bytes - bth.pad_count};
  KeepWhatWasRead();
  if (icrc_check != IcrcCheck::kNeeded) return true;
  const size_t icrc_at = end - kIcrcBytes;
  return IcrcMatches(StartIcrc(version, bytes, icrc_at), bytes + icrc_at);
}

}  // namespace

Qpn PeekDestinationQpn(std::span<const uint8_t> frame) {
  constexpr size_t kQpnOffset = 4;  // in the BTH, below eight bits of something else
  if (frame.size() < kIpv6BthAt + Bth::kBytes) {
    if (frame.size() < kIpv4BthAt + Bth::kBytes) return {};
    return {Low24(Load32(&frame[kIpv4BthAt + kQpnOffset]))};
  }
  const bool is_ipv6 = Load16(&frame[EthernetHeader::kEtherTypeOffset]) == EthernetHeader::kIpv6;
  return {Low24(Load32(&frame[(is_ipv6 ? kIpv6BthAt : kIpv4BthAt) + kQpnOffset]))};
}

bool ParseConnectionFrame(std::span<const uint8_t> frame, const ConnectionFrames& expected,
                          IcrcCheck icrc_check, Packet& packet) {
  return expected.source.IsIpv4Mapped()
             ? Parse<IpVersion::kIpv4>(frame, expected, icrc_check, packet)
             : Parse<IpVersion::kIpv6>(frame, expected, icrc_check, packet);
}

}  // namespace uroce::transport
