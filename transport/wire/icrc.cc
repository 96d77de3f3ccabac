#include "transport/wire/icrc.h"

#include "transport/wire/crc32.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/udp.h"

namespace uroce::transport {
namespace {

// The eight bytes of ones lie where the end of the Ethernet header is in the frame.
constexpr size_t kStart = EthernetHeader::kBytes - 8;
// In the BTH: FECN, BECN and the reserved bits beside them.
constexpr size_t kBthCongestion = 4;

// The bits that count as ones, from kStart on.
constexpr Crc32Mask MaskFor(IpVersion version) {
  Crc32Mask mask{};
  for (size_t i = 0; i < 8; ++i) mask[i] = 0xff;
  constexpr size_t kIp = 8;
  size_t udp = kIp;
  if (version == IpVersion::kIpv4) {
    mask[kIp + 1] = 0xff;   // type of service
    mask[kIp + 8] = 0xff;   // time to live
    mask[kIp + 10] = 0xff;  // header checksum
    mask[kIp + 11] = 0xff;
    udp += Ipv4Header::kBytes;
  } else {
    mask[kIp] = 0x0f;  // traffic class and flow label; the version stays
    mask[kIp + 1] = 0xff;
    mask[kIp + 2] = 0xff;
    mask[kIp + 3] = 0xff;
    mask[kIp + 7] = 0xff;  // hop limit
    udp += Ipv6Header::kBytes;
  }
  mask[udp + 6] = 0xff;  // checksum
  mask[udp + 7] = 0xff;
  mask[udp + UdpHeader::kBytes + kBthCongestion] = 0xff;
  return mask;
}

// The same, from the BTH on.
constexpr Crc32Mask BthMask() {
  Crc32Mask mask{};
  mask[kBthCongestion] = 0xff;
  return mask;
}

alignas(64) constexpr Crc32Mask kIpv4Mask = MaskFor(IpVersion::kIpv4);
alignas(64) constexpr Crc32Mask kIpv6Mask = MaskFor(IpVersion::kIpv6);
alignas(64) constexpr Crc32Mask kBthMask = BthMask();

uint32_t Word(const uint8_t* bytes) {
  return uint32_t{bytes[0]} | uint32_t{bytes[1]} << 8 | uint32_t{bytes[2]} << 16 |
         uint32_t{bytes[3]} << 24;
}

}  // namespace

uint32_t StartIcrc(IpVersion version, const uint8_t* frame, size_t bytes) {
  return Crc32UpdateMasked(kCrc32Initial, frame + kStart, bytes - kStart,
                           version == IpVersion::kIpv4 ? kIpv4Mask : kIpv6Mask);
}

uint32_t ContinueIcrc(uint32_t crc_state, const uint8_t* bth, size_t bytes) {
  return Crc32UpdateMasked(crc_state, bth, bytes, kBthMask);
}

void EmitIcrc(uint32_t crc_state, uint8_t* bytes) {
  const uint32_t icrc = ~crc_state;
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<uint8_t>(icrc >> (8 * i));
}

bool IcrcMatches(uint32_t crc_state, const uint8_t* bytes) {
  return IcrcDifference(crc_state, bytes) == 0;
}

uint32_t IcrcDifference(uint32_t crc_state, const uint8_t* bytes) {
  return Word(bytes) ^ ~crc_state;
}

}  // namespace uroce::transport
