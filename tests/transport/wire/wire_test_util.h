#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "transport/wire/bth.h"
#include "transport/wire/packet.h"

namespace uroce::transport {

inline std::vector<uint8_t> FromHex(std::string_view hex) {
  const auto digit = [](char c) { return static_cast<uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10); };
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(digit(hex[i]) << 4 | digit(hex[i + 1])));
  }
  return bytes;
}

// Offsets of the layers of a frame; the EtherType gives the IP version.
inline bool IsIpv6(const std::vector<uint8_t>& frame) { return frame[12] == 0x86; }
inline constexpr size_t kIpAt = 14;
inline size_t UdpAt(const std::vector<uint8_t>& frame) {
  return kIpAt + (IsIpv6(frame) ? size_t{40} : size_t{20});
}
inline size_t BthAt(const std::vector<uint8_t>& frame) { return UdpAt(frame) + 8; }

}  // namespace uroce::transport
