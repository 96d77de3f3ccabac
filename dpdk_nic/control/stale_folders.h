#pragma once

#include "dpdk_nic/base/unique_fd.h"
#include "transport/time.h"

namespace uroce::nic::control {

// A uroced that is killed leaves the folder of its fabric behind, and a network namespace that is
// gone never has another one that would find it. So each uroced that ends removes some.
inline constexpr transport::Duration kStaleFolderAge = transport::Milliseconds(600'000);
inline constexpr int kStaleFoldersAtOnce = 32;

// Removes folders of `place` in which nothing has changed for that long, which no uroced serves and
// in which no process has a block. What is not a fabric's stays.
void RemoveStaleFolders(int place);

// The lock of a fabric's folder. Shared, it is held by uroceds that look whether the folder is
// stale, for a moment.
enum class LockResult : uint8_t { kLocked, kServed, kLookedAt };
LockResult TryLockToServe(int lock);

}  // namespace uroce::nic::control
