#include "verbs_provider/abi/provider_registration.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "dpdk_nic/base/log.h"
#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/base/mutex_held_by_fork.h"
#include "verbs_provider/abi/context_block.h"
#include "verbs_provider/abi/core_library.h"
#include "verbs_provider/abi/layout_probe.h"
#include "verbs_provider/abi/op_table.h"
#include "verbs_provider/abi/virtual_kernel_calls.h"

namespace uroce::verbs::abi {
namespace {

// struct ib_uverbs_async_event_desc
constexpr uint32_t kAsyncEventBytes = 16;

// A library holds one provider, so there is one Registration. RegisterProvider and Calibrate write
// it under MutexHeldByFork<Registration>; libibverbs calls only what has been registered.
struct Registration {
  CoreLibrary core = {};
  Provider provider;
  DeviceOps device_ops = {};
  std::atomic<bool> is_complete = false;

  bool calibration_done = false;
  std::string conflict;  // why no device can be opened; "" if one can
  Layout layout;
};

Registration& Global() {
  static auto* registration = new Registration;  // outlives every destructor
  return *registration;
}

// Calibrates at the first call. True when the layout is known and has no conflict.
bool Calibrate(SysfsDevice* sysfs) {
  Registration& global = Global();
  const nic::MutexLock lock(nic::MutexHeldByFork<Registration>::mutex);
  if (!global.calibration_done) {
    global.calibration_done = true;
    global.conflict = ObserveLayout(global.core, sysfs, global.layout);
    if (global.conflict.empty()) global.conflict = CrossCheck(global.layout);
    if (!global.conflict.empty()) {
      nic::Log(nic::LogLevel::kError,
               "this libibverbs (private ABI " + std::to_string(global.core.private_abi) +
                   ") is laid out in a way uroce does not understand: " + global.conflict);
    }
  }
  return global.conflict.empty();
}

void FreeContext(ibv_context* context) {
  Registration& global = Global();
  global.provider.close_context(context, ContextBlock::Of(context)->object);
  ContextBlock::Free(global.core, context);
}

verbs_context* MakeContext(ibv_device* device, int cmd_fd, bool is_imported) {
  Registration& global = Global();
  if (!Calibrate(reinterpret_cast<VerbsDevice*>(device)->sysfs)) {
    close(cmd_fd);
    errno = EPROTONOSUPPORT;
    return nullptr;
  }
  ibv_context* context = ContextBlock::Allocate(global.core, device, cmd_fd);
  if (context == nullptr) return nullptr;

  verbs_context* library_context = ContextBlock::LibraryContext(context);
  global.core.set_ops(library_context,
                      MakeOpTable(global.provider.ops, FreeContext, global.layout).data());
  context->num_comp_vectors = 1;
  // The descriptor of asynchronous events: for ibv_import_device, libibverbs asks the kernel for
  // one; for ibv_open_device only where there is none yet (v33 and later).
  if (!is_imported) context->async_fd = VirtualKernel().event_file_open(kAsyncEventBytes);
  const bool is_complete = is_imported || context->async_fd >= 0;
  void* object = is_complete ? global.provider.open_context(context) : nullptr;
  if (object == nullptr) {
    const int error = errno;
    ContextBlock::Free(global.core, context);
    errno = error;
    return nullptr;
  }
  ContextBlock::Of(context)->object = object;
  return library_context;
}

verbs_context* AllocateContext(ibv_device* device, int cmd_fd, void* /*private_data*/) {
  return MakeContext(device, cmd_fd, /*is_imported=*/false);
}

verbs_context* ImportContext(ibv_device* device, int cmd_fd) {
  return MakeContext(device, cmd_fd, /*is_imported=*/true);
}

bool MatchDevice(SysfsDevice* device) {
  return Global().provider.drives_device(device->ibdev_name);
}

VerbsDevice* AllocateDevice(SysfsDevice* /*device*/) {
  auto* device = static_cast<VerbsDevice*>(calloc(1, sizeof(VerbsDevice)));
  if (device != nullptr) device->core_support = kCoreSupportOptionalMrAccess;
  return device;
}

void FreeDevice(VerbsDevice* device) { free(device); }

}  // namespace

void RegisterForkHandler() { nic::MutexHeldByFork<Registration>::Register(); }

std::string RegisterProvider(const Provider& provider) {
  // Not under the mutex: the look-ups take the dynamic linker's lock, and constructors of other
  // libraries may hold that lock while they wait for the mutex.
  VirtualKernelCalls virtual_kernel = {};
  CoreLibrary core = {};
  if (std::string error = FindVirtualKernel(virtual_kernel); !error.empty()) return error;
  if (std::string error = FindCoreLibrary(core); !error.empty()) return error;

  Registration& global = Global();
  const nic::MutexLock lock(nic::MutexHeldByFork<Registration>::mutex);
  if (global.is_complete) return "";
  SetVirtualKernel(virtual_kernel);
  global.core = core;
  global.provider = provider;
  DeviceOps& ops = global.device_ops;
  ops.name = global.provider.name;
  // Any uverbs ABI version: the virtual kernel that reports it is our own.
  ops.match_min_abi_version = 0;
  ops.match_max_abi_version = UINT32_MAX;
  ops.match_device = MatchDevice;
  ops.alloc_context = AllocateContext;
  ops.import_context = ImportContext;
  ops.alloc_device = AllocateDevice;
  ops.uninit_device = FreeDevice;
  global.core.register_driver(&ops);
  global.is_complete = true;
  return "";
}

bool ProviderIsRegistered() { return Global().is_complete; }

void* ContextObject(ibv_context* context) { return ContextBlock::Of(context)->object; }

uint64_t DeviceFileOf(const ibv_context* context) {
  return VirtualKernel().uverbs_file(context->cmd_fd);
}

void MarkExtendedQp(VerbsQp& qp) {
  std::memcpy(qp.reserve + Global().layout.qp_ex_offset, &kVerbsQpEx, sizeof(kVerbsQpEx));
}

size_t ExtendedQpBytes() { return Global().layout.qp_ex_offset; }

}  // namespace uroce::verbs::abi
