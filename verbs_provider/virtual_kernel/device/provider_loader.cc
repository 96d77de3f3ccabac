#include "verbs_provider/virtual_kernel/device/provider_loader.h"

#include <dlfcn.h>
#include <stdlib.h>

namespace uroce::verbs::virtual_kernel {
namespace {

constexpr char kProviderFile[] = "liburoce-provider.so";

std::string ProviderPath() {
  // A privileged program must not load what its caller's environment names.
  if (const char* path = secure_getenv("UROCE_PROVIDER"); path != nullptr && path[0] != '\0') {
    return path;
  }
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&ProviderPath), &self) == 0) return kProviderFile;
  const std::string own_path = self.dli_fname;
  const size_t slash = own_path.rfind('/');
  return slash == std::string::npos ? kProviderFile : own_path.substr(0, slash + 1) + kProviderFile;
}

}  // namespace

bool HasLibibverbs() {
  void* const libibverbs = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (libibverbs == nullptr) return false;
  dlclose(libibverbs);  // the provider takes a reference of its own when it registers
  return true;
}

ProviderLibrary LoadProvider() {
  ProviderLibrary provider;
  const std::string path = ProviderPath();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    provider.error = std::string("cannot load the provider: ") + dlerror();
    return provider;
  }
  provider.describe_device =
      reinterpret_cast<decltype(&uroce_describe_device)>(dlsym(library, "uroce_describe_device"));
  provider.register_provider = reinterpret_cast<decltype(&uroce_register_provider)>(
      dlsym(library, "uroce_register_provider"));
  provider.device_changes =
      reinterpret_cast<decltype(&uroce_device_changes)>(dlsym(library, "uroce_device_changes"));
  provider.before_end =
      reinterpret_cast<decltype(&uroce_before_end)>(dlsym(library, "uroce_before_end"));
  provider.counter_file =
      reinterpret_cast<decltype(&uroce_counter_file)>(dlsym(library, "uroce_counter_file"));
  provider.read_counter =
      reinterpret_cast<decltype(&uroce_read_counter)>(dlsym(library, "uroce_read_counter"));
  if (provider.describe_device == nullptr || provider.device_changes == nullptr ||
      provider.register_provider == nullptr) {
    provider.error = path + " is not a uroce provider of this build: it has no " +
                     (provider.describe_device == nullptr  ? "uroce_describe_device()"
                      : provider.device_changes == nullptr ? "uroce_device_changes()"
                                                           : "uroce_register_provider()");
    return provider;
  }
  provider.rdma_cm = {
      .open = reinterpret_cast<decltype(&uroce_rdma_cm_open)>(dlsym(library, "uroce_rdma_cm_open")),
      .write =
          reinterpret_cast<decltype(&uroce_rdma_cm_write)>(dlsym(library, "uroce_rdma_cm_write")),
      .close =
          reinterpret_cast<decltype(&uroce_rdma_cm_close)>(dlsym(library, "uroce_rdma_cm_close"))};
  return provider;
}

}  // namespace uroce::verbs::virtual_kernel
