#include "dpdk_nic/eal/burst_guard.h"

#include <sched.h>

#include <mutex>
#include <vector>

struct rte_eth_dev;
extern "C" void __real_memif_free_regions(rte_eth_dev* device);

namespace uroce::nic {
namespace {

// Leaked on purpose: DPDK's interrupt thread outlives main().
struct Registry {
  std::mutex mutex;
  std::vector<const BurstGuard*> guards;
};
Registry& GetRegistry() {
  static Registry* registry = new Registry;
  return *registry;
}

}  // namespace

BurstGuard::BurstGuard() {
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mutex);
  registry.guards.push_back(this);
}

BurstGuard::~BurstGuard() {
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mutex);
  std::erase(registry.guards, this);
}

void BurstGuard::WaitUntilIdle() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  while (active_.load(std::memory_order_acquire)) sched_yield();
}

void BurstGuard::WaitUntilAllIdle() {
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mutex);
  for (const BurstGuard* guard : registry.guards) guard->WaitUntilIdle();
}

}  // namespace uroce::nic

// By now the driver has cleared the flag that every burst checks first.
extern "C" void __wrap_memif_free_regions(rte_eth_dev* device) {
  uroce::nic::BurstGuard::WaitUntilAllIdle();
  __real_memif_free_regions(device);
}
