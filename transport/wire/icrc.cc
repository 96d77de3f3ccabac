#include "transport/wire/icrc.h"

#include <cstring>

#include "transport/wire/crc32.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/udp.h"

namespace uroce::transport {
namespace {

constexpr size_t kOnesBytes = 8;
static_assert(EthernetHeader::kBytes >= kOnesBytes);

void MaskIpv4(uint8_t* ip) {
  ip[1] = 0xff;   // type of service
  ip[8] = 0xff;   // time to live
  ip[10] = 0xff;  // header checksum
  ip[11] = 0xff;
}

void MaskIpv6(uint8_t* ip) {
  ip[0] |= 0x0f;  // traffic class and flow label; the version stays
  ip[1] = 0xff;
  ip[2] = 0xff;
  ip[3] = 0xff;
  ip[7] = 0xff;  // hop limit
}

uint32_t Word(const uint8_t* bytes) {
  return uint32_t{bytes[0]} | uint32_t{bytes[1]} << 8 | uint32_t{bytes[2]} << 16 |
         uint32_t{bytes[3]} << 24;
}

}  // namespace

uint32_t StartIcrc(IpVersion version, uint8_t* headers, size_t bytes) {
  uint8_t* ip = headers + EthernetHeader::kBytes;
  uint8_t* udp;
  if (version == IpVersion::kIpv4) {
    MaskIpv4(ip);
    udp = ip + Ipv4Header::kBytes;
  } else {
    MaskIpv6(ip);
    udp = ip + Ipv6Header::kBytes;
  }
  udp[6] = 0xff;  // checksum
  udp[7] = 0xff;
  udp[UdpHeader::kBytes + 4] = 0xff;  // BTH: FECN, BECN and the reserved bits beside them

  uint8_t* start = ip - kOnesBytes;
  std::memset(start, 0xff, kOnesBytes);
  return Crc32Update(kCrc32Initial, start, bytes - static_cast<size_t>(start - headers));
}

void EmitIcrc(uint32_t crc_state, uint8_t* bytes) {
  const uint32_t icrc = ~crc_state;
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<uint8_t>(icrc >> (8 * i));
}

bool IcrcMatches(uint32_t crc_state, const uint8_t* bytes) { return Word(bytes) == ~crc_state; }

}  // namespace uroce::transport
