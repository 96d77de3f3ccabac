#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/address.h"
#include "transport/ids.h"

// Management datagrams: the payload of the UD packets between the queue pairs 1.
namespace uroce::transport::cm {

inline constexpr size_t kMadBytes = 256;
using MadBytes = std::array<uint8_t, kMadBytes>;

// Every queue pair 1 has this Q_Key.
inline constexpr uint32_t kGeneralServicesQkey = 0x8001'0000;
inline constexpr Qpn kGeneralServicesQpn{1};

inline constexpr uint8_t kMadBaseVersion = 1;
inline constexpr uint8_t kCommunicationManagementClass = 0x07;
inline constexpr uint8_t kCommunicationManagementVersion = 2;
inline constexpr uint8_t kSendMethod = 0x03;  // the only one of this class

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
  uint8_t management_class = kCommunicationManagementClass;
  uint8_t class_version = kCommunicationManagementVersion;
  uint8_t method = kSendMethod;
  uint16_t status = 0;
  uint16_t class_specific = 0;
  uint64_t transaction_id = 0;
  uint16_t attribute_id = 0;
  uint32_t attribute_modifier = 0;

  bool operator==(const MadHeader&) const = default;
};

MadHeader ParseMadHeader(const uint8_t* bytes);
// Writes MadHeader::kBytes bytes.
void EmitMadHeader(const MadHeader& header, uint8_t* bytes);

// The source or the destination of a MAD: the address vector of the path to it (for a MAD that was
// received: of the path back), its queue pair, and the index of the partition.
struct MadAddress {
  AddressVector path{};
  Qpn qpn = kGeneralServicesQpn;
  uint16_t pkey_index = 0;

  bool operator==(const MadAddress&) const = default;
};

}  // namespace uroce::transport::cm
