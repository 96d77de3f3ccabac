#include "verbs_provider/objects/protected_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_map>

#include "dpdk_nic/base/cancellation_guard.h"
#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/base/mutex_held_by_fork.h"
#include "dpdk_nic/base/thread_annotations.h"
#include "dpdk_nic/base/unique_fd.h"
#include "transport/guarded_access.h"

namespace uroce::verbs {
namespace {

using Held = nic::MutexHeldByFork<ProtectedMemory>;

struct Range {
  uintptr_t begin;
  size_t bytes;

  bool Covers(uintptr_t address, size_t length) const {
    return address >= begin && length <= bytes && address - begin <= bytes - length;
  }
};

// Never destroyed: contexts may be closed after the destructors of static objects have run.
std::unordered_map<uint32_t, Range>& Ranges() UROCE_REQUIRES(Held::mutex) {
  static auto& ranges = *new std::unordered_map<uint32_t, Range>;
  return ranges;
}

bool IsPinned(const void* address, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const nic::MutexLock lock(Held::mutex);
  return std::any_of(Ranges().begin(), Ranges().end(),
                     [&](const auto& entry) { return entry.second.Covers(begin, bytes); });
}

// Opened for each access, which is rare: the descriptor would be the parent's memory in a forked
// child.
nic::UniqueFd OwnMemory(int flags) {
  return nic::UniqueFd(open("/proc/self/mem", flags | O_CLOEXEC));
}

off_t OffsetOf(const void* address) {
  return static_cast<off_t>(reinterpret_cast<uintptr_t>(address));
}

}  // namespace

void ProtectedMemory::RegisterForkHandler() { Held::Register(); }

void ProtectedMemory::Serve() { transport::SetProtectedAccess({.read = Read, .write = Write}); }

void ProtectedMemory::Add(uint32_t key, const void* address, size_t bytes) {
  const nic::MutexLock lock(Held::mutex);
  Ranges()[key] = {reinterpret_cast<uintptr_t>(address), bytes};
}

void ProtectedMemory::Remove(uint32_t key) {
  const nic::MutexLock lock(Held::mutex);
  Ranges().erase(key);
}

bool ProtectedMemory::Read(void* to, const void* from, size_t bytes) {
  if (!IsPinned(from, bytes)) return false;
  const nic::CancellationGuard guard;
  const nic::UniqueFd memory = OwnMemory(O_RDONLY);
  return memory && pread(memory.get(), to, bytes, OffsetOf(from)) == static_cast<ssize_t>(bytes);
}

bool ProtectedMemory::Write(void* to, const void* from, size_t bytes) {
  if (!IsPinned(to, bytes)) return false;
  const nic::CancellationGuard guard;
  const nic::UniqueFd memory = OwnMemory(O_RDWR);
  return memory && pwrite(memory.get(), from, bytes, OffsetOf(to)) == static_cast<ssize_t>(bytes);
}

}  // namespace uroce::verbs
