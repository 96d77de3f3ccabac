#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/ids.h"
#include "transport/wire/byte_order.h"

// Management datagrams (MADs): the payload of the UD packets between the queue pairs 1.
namespace uroce::transport {

inline constexpr size_t kMadBytes = 256;
using MadBytes = std::array<uint8_t, kMadBytes>;

// Every queue pair 1 has this Q_Key.
inline constexpr uint32_t kGeneralServicesQkey = 0x8001'0000;
inline constexpr Qpn kGeneralServicesQpn{1};

inline constexpr uint8_t kMadBaseVersion = 1;

// The common MAD header, 24 bytes:
//
//   0  base version | management class | class version | method
//   4  status                          | class specific
//   8  transaction id, 64 bits
//  16  attribute id                    | reserved
//  20  attribute modifier
struct MadHeader {
  static constexpr size_t kBytes = 24;

  uint8_t base_version = kMadBaseVersion;
  uint8_t management_class = 0;
  uint8_t class_version = 0;
  uint8_t method = 0;
  uint16_t status = 0;
  uint16_t class_specific = 0;
  uint64_t transaction_id = 0;
  uint16_t attribute_id = 0;
  uint32_t attribute_modifier = 0;

  bool operator==(const MadHeader&) const = default;
};

// Both take exactly kBytes bytes; big-endian on the wire.
inline MadHeader ParseMadHeader(const uint8_t* bytes) {
  return {.base_version = bytes[0],
          .management_class = bytes[1],
          .class_version = bytes[2],
          .method = bytes[3],
          .status = Load16(bytes + 4),
          .class_specific = Load16(bytes + 6),
          .transaction_id = Load64(bytes + 8),
          .attribute_id = Load16(bytes + 16),
          .attribute_modifier = Load32(bytes + 20)};
}

inline void EmitMadHeader(const MadHeader& header, uint8_t* bytes) {
  bytes[0] = header.base_version;
  bytes[1] = header.management_class;
  bytes[2] = header.class_version;
  bytes[3] = header.method;
  Store16(header.status, bytes + 4);
  Store16(header.class_specific, bytes + 6);
  Store64(header.transaction_id, bytes + 8);
  Store16(header.attribute_id, bytes + 16);
  Store16(0, bytes + 18);
  Store32(header.attribute_modifier, bytes + 20);
}

}  // namespace uroce::transport
