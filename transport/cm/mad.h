#pragma once

#include <cstdint>

#include "transport/address.h"
#include "transport/ids.h"
#include "transport/wire/mad.h"

// The management class of the communication manager, and its addresses.
namespace uroce::transport::cm {

inline constexpr uint8_t kCommunicationManagementClass = 0x07;
inline constexpr uint8_t kCommunicationManagementVersion = 2;
inline constexpr uint8_t kSendMethod = 0x03;  // the only one of this class

constexpr MadHeader MessageHeader(uint16_t attribute_id, uint64_t transaction_id = 0) {
  return {.management_class = kCommunicationManagementClass,
          .class_version = kCommunicationManagementVersion,
          .method = kSendMethod,
          .transaction_id = transaction_id,
          .attribute_id = attribute_id};
}

// The source or the destination of a MAD: the address vector of the path to it (for a MAD that was
// received: of the path back), its queue pair, and the index of the partition.
struct MadAddress {
  AddressVector path{};
  Qpn qpn = kGeneralServicesQpn;
  uint16_t pkey_index = 0;

  bool operator==(const MadAddress&) const = default;
};

}  // namespace uroce::transport::cm
