#include "dpdk_nic/port/dpdk/eal/burst_guard.h"

#include <sched.h>

#include <thread>
#include <vector>

#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/base/thread_annotations.h"

namespace uroce::nic {
namespace {

// Leaked on purpose: DPDK's interrupt thread outlives main().
struct Registry {
  Mutex mutex;
  std::vector<BurstGuard*> guards UROCE_GUARDED_BY(mutex);
};
Registry& GetRegistry() {
  static Registry* registry = new Registry;
  return *registry;
}

}  // namespace

BurstGuard::BurstGuard() {
  Registry& registry = GetRegistry();
  const MutexLock lock(registry.mutex);
  registry.guards.push_back(this);
}

BurstGuard::~BurstGuard() {
  Registry& registry = GetRegistry();
  const MutexLock lock(registry.mutex);
  std::erase(registry.guards, this);
}

void BurstGuard::WaitUntilIdle() {
  // Writes the value that it reads, to be ordered with Enter: a burst that is not seen here sees
  // what was written before this.
  for (bool idle = false; !active_.compare_exchange_weak(idle, false); idle = false) {
    sched_yield();
  }
}

void BurstGuard::WaitUntilAllIdle() {
  Registry& registry = GetRegistry();
  const MutexLock lock(registry.mutex);
  for (BurstGuard* guard : registry.guards) guard->WaitUntilIdle();
}

void BurstGuard::WaitUntilAllDrained(std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  Registry& registry = GetRegistry();
  const MutexLock lock(registry.mutex);
  for (const BurstGuard* guard : registry.guards) {
    const uint64_t before = guard->empty_receives_.load(std::memory_order_acquire);
    // The first empty receive may have looked before the last frame came.
    while (guard->empty_receives_.load(std::memory_order_acquire) < before + 2 &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

}  // namespace uroce::nic
