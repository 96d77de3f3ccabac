#include "verbs_provider/virtual_kernel/device/device.h"

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "dpdk_nic/base/cancellation_guard.h"
#include "dpdk_nic/base/log.h"
#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/base/thread_annotations.h"
#include "verbs_provider/virtual_kernel/base/errno_guard.h"
#include "verbs_provider/virtual_kernel/base/fd_table.h"
#include "verbs_provider/virtual_kernel/device/device_tree.h"
#include "verbs_provider/virtual_kernel/device/provider_loader.h"
#include "verbs_provider/virtual_kernel/faults/fault_guard.h"

namespace uroce::verbs::virtual_kernel {
namespace {

// Held while the provider describes the device.
constinit nic::Mutex describing;
std::atomic<const Device*> current = nullptr;
std::atomic<bool> provider_registered = false;  // with libibverbs
std::atomic<bool> failed = false;
thread_local bool loading = false;

// These locks are taken while other locks of ours or of the provider are held. So their handlers
// are registered first, and fork() takes them last (dpdk_nic/engine/fork_handler.h has the whole
// order).
void RegisterInnerForkHandlers() {
  FdTable::Instance();
  FaultGuard::RegisterForkHandler();
}

void RegisterOuterForkHandlers() {
  [[maybe_unused]] static const int registered =
      pthread_atfork([]() UROCE_ACQUIRE(describing) { describing.lock(); },
                     []() UROCE_RELEASE(describing) { describing.unlock(); },
                     []() UROCE_RELEASE(describing) { describing.unlock(); });
}

// Returns "", or why there is no device.
std::string Describe(const ProviderLibrary& provider) UROCE_REQUIRES(describing) {
  if (!provider.error.empty()) return provider.error;
  uroce_device_description description = {};
  description.struct_bytes = sizeof(description);
  const uint32_t changes = provider.device_changes();
  const int result = provider.describe_device(&description);
  if (result == EAGAIN) return "";
  if (result != 0) return std::string("the provider has no device to offer: ") + strerror(result);
  current = new Device(description, provider, changes, current);
  return "";
}

// Null while there is no device.
const Device* LoadDevice() {
  RegisterInnerForkHandlers();
  // Not under a lock of ours: dlopen takes the dynamic linker's lock, and another thread may come
  // here from a constructor, which runs under that lock. dlopen itself serves two threads that load
  // at the same time: the library is loaded once.
  const ProviderLibrary provider = LoadProvider();
  RegisterOuterForkHandlers();
  if (provider.error.empty() && HasLibibverbs()) {
    if (provider.register_provider() == 0) {
      provider_registered = true;
    } else {
      failed = true;
    }
  }

  const nic::MutexLock lock(describing);
  if (failed || current != nullptr) return current;
  const std::string error = Describe(provider);
  if (!error.empty()) {
    failed = true;
    nic::Log(nic::LogLevel::kError, error);
  }
  return current;
}

}  // namespace

Device::Device(const uroce_device_description& from_provider, const ProviderLibrary& provider,
               uint32_t changes_before, const Device* older)
    : description(from_provider),
      rdma_cm(provider.rdma_cm),
      tree(MakeDeviceTree(from_provider, static_cast<bool>(provider.rdma_cm),
                          provider.read_counter == nullptr ? nullptr : provider.counter_file)),
      provider_(provider),
      changes_(changes_before),
      older_(older) {}

const Device* CurrentDevice() {
  const Device* device = current.load(std::memory_order_acquire);
  if ((device != nullptr && provider_registered) || failed || loading) return device;
  const ErrnoGuard guard;
  const nic::CancellationGuard cancellation;
  loading = true;
  if (device == nullptr || HasLibibverbs()) device = LoadDevice();
  loading = false;
  return device;
}

const Device* CurrentDeviceAsItIs() {
  const Device* device = CurrentDevice();
  if (device == nullptr || loading || !device->HasChanged()) return device;
  const ErrnoGuard guard;
  const nic::CancellationGuard cancellation;
  const nic::MutexLock lock(describing);
  device = current;
  // If this fails, the previous description stays in use.
  if (device->HasChanged()) (void)Describe(device->provider());
  return current;
}

bool DeviceWasSeen() { return current != nullptr; }

void BeforeEnd() {
  const Device* const device = current.load(std::memory_order_acquire);
  if (device == nullptr || device->provider().before_end == nullptr) return;
  const ErrnoGuard guard;
  if (!FdTable::Instance().InForeignProcess()) device->provider().before_end();
}

}  // namespace uroce::verbs::virtual_kernel
