#pragma once

#include <cstdint>

#include "dpdk_nic/control/protocol.h"
#include "transport/ids.h"

// The messages between `uroce run` and uroced.

namespace uroce::nic::control {

// The uplink that the user wants the fabric to have.
enum class UplinkWish : uint32_t { kAny, kNone, kUdp };

// A private uroced runs as long as the process that sends this, though the connection ends when the
// process becomes another program.
struct LeaseRequest {
  static constexpr MessageType kType = MessageType::kLeaseRequest;
  static constexpr size_t kDescriptors = 0;
  UplinkWish uplink;       // refused with EADDRNOTAVAIL if the fabric has another
  transport::Gid address;  // of the uplink; zero: any
};
struct LeaseGranted {
  static constexpr MessageType kType = MessageType::kLeaseGranted;
  static constexpr size_t kDescriptors = 0;
  uint32_t reserved;
};

}  // namespace uroce::nic::control
