#pragma once

#include <cstdint>

#include "dpdk_nic/control/protocol.h"
#include "transport/ids.h"

// What `uroce run` and uroced say to each other.

namespace uroce::nic::control {

// Which uplink a fabric is to have.
enum class UplinkWish : uint32_t { kAny, kNone, kUdp };

// A private uroced stays as long as the process that says this, though its connection ends when it
// becomes another program.
struct LeaseRequest {
  static constexpr MessageType kType = MessageType::kLeaseRequest;
  static constexpr size_t kDescriptors = 0;
  UplinkWish uplink;       // refused with EADDRNOTAVAIL if the fabric has another
  transport::Gid address;  // of it; zero: any
};
struct LeaseGranted {
  static constexpr MessageType kType = MessageType::kLeaseGranted;
  static constexpr size_t kDescriptors = 0;
  uint32_t reserved;
};

}  // namespace uroce::nic::control
