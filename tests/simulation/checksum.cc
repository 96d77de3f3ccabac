#include "tests/simulation/checksum.h"

#include <vector>

namespace uroce::transport::simulation {
namespace {

constexpr size_t kEthernetBytes = 14;
constexpr size_t kIcrcBytes = 4;

}  // namespace

size_t NetworkHeaderBytes(std::span<const uint8_t> frame) {
  if (frame.size() < kEthernetBytes + 20 + 8 + 12 + kIcrcBytes) return 0;
  if (frame[12] == 0x08 && frame[13] == 0x00) return kEthernetBytes + 20 + 8;
  if (frame[12] == 0x86 && frame[13] == 0xdd) return kEthernetBytes + 40 + 8;
  return 0;
}

uint32_t ReferenceIcrc(std::span<const uint8_t> frame) {
  const size_t bth = NetworkHeaderBytes(frame);
  std::vector<uint8_t> covered(8, 0xff);  // stands for the LRH that Ethernet does not have
  covered.insert(covered.end(), frame.begin() + kEthernetBytes, frame.end() - kIcrcBytes);
  uint8_t* ip = covered.data() + 8;
  if (frame[12] == 0x08) {
    ip[1] = ip[8] = ip[10] = ip[11] = 0xff;  // TOS, TTL, header checksum
  } else {
    ip[0] |= 0x0f;  // traffic class, flow label, hop limit
    ip[1] = ip[2] = ip[3] = ip[7] = 0xff;
  }
  uint8_t* bth_bytes = covered.data() + 8 + bth - kEthernetBytes;
  bth_bytes[-2] = bth_bytes[-1] = 0xff;  // UDP checksum
  bth_bytes[4] = 0xff;                   // FECN, BECN and reserved bits

  uint32_t crc = 0xffff'ffff;
  for (const uint8_t byte : covered) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb8'8320 : 0);
  }
  return ~crc;
}

void Reseal(std::span<uint8_t> frame) {
  const uint32_t icrc = ReferenceIcrc(frame);
  for (size_t i = 0; i < kIcrcBytes; ++i) {
    frame[frame.size() - kIcrcBytes + i] = static_cast<uint8_t>(icrc >> (8 * i));
  }
}

}  // namespace uroce::transport::simulation
