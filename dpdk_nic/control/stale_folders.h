#pragma once

#include "dpdk_nic/base/unique_fd.h"
#include "transport/time.h"

namespace uroce::nic::control {

// A uroced that is killed leaves the folder of its fabric behind. If the network namespace is gone,
// too, no other uroced ever finds the folder. So each uroced that ends removes some.
inline constexpr transport::Duration kStaleFolderAge = transport::Milliseconds(600'000);
inline constexpr int kStaleFoldersAtOnce = 32;

// Removes folders of `place` in which nothing has changed for kStaleFolderAge, which no uroced
// serves and in which no process has a block. A folder with other files stays.
void RemoveStaleFolders(int place);

// Locks a fabric's folder. kLookedAt: another uroced has the lock shared for a moment, to check
// whether the folder is stale.
enum class LockResult : uint8_t { kLocked, kServed, kLookedAt };
LockResult TryLockToServe(int lock);

}  // namespace uroce::nic::control
