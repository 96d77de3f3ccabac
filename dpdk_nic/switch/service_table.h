#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/switch/keyed_hash.h"
#include "transport/cm/identifiers.h"
#include "transport/ids.h"

namespace uroce::nic {

// Records which process has which service of the connection manager, and listens to it. Two
// processes cannot have the same service at an address that both bind to, unless both share it.
class ServiceTable {
 public:
  // Claims of one process. rdma_cm ids that only connect need none.
  static constexpr size_t kMaxClaims = 1'024;

  // 0, EADDRINUSE if another process has the service, ENOSPC. Replaces an earlier entry of the same
  // claim, unless there is an error.
  control::ErrnoValue Add(control::Block block, const control::Listen& wanted);
  void Remove(control::Block block, const control::ServiceClaim& claim);
  // Removes all claims of the process.
  void Remove(control::Block block);

  // The process that gets requests for the service at `address`: one that listens there;
  // kSwitchBlock if there is none. A claim of that very address goes before a claim of all
  // addresses.
  control::Block ListenerOf(transport::cm::ServiceId service, const transport::Gid& address) const;
  // Whether the process has the service, at whatever address.
  bool Has(control::Block block, transport::cm::ServiceId service) const;
  size_t ClaimsOf(control::Block block) const;
  // Grows whenever a service may have got a listener.
  uint64_t additions() const { return additions_; }

 private:
  struct Entry {
    control::Block block;
    control::Listen service;
  };

  Entry* Find(control::Block block, const control::ServiceClaim& claim);

  std::unordered_map<uint64_t, std::vector<Entry>, KeyedHash> services_;  // none empty
  std::unordered_map<control::Block, std::vector<control::ServiceClaim>> claims_;
  uint64_t additions_ = 0;
};

}  // namespace uroce::nic
