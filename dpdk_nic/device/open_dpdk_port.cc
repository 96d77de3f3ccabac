#include "dpdk_nic/device/open_dpdk_port.h"

#include <dlfcn.h>
#include <unistd.h>

#include "dpdk_nic/device/device_config.h"

namespace uroce::nic {
namespace {

ErrorOr<OpenDpdkPortFunction> LoadDpdkLibrary(const std::string& library) {
  if (library.empty()) {
    return Error{std::string(kDpdkLibraryVariable) +
                 " is not set: start the program with 'uroce run --port'"};
  }
  if (access(library.c_str(), F_OK) != 0) {
    return Error{"this installation of uroce has no DPDK library (" + library +
                 "): use '--port udp', install the packages of 'tools/package --dpdk', or build "
                 "uroce here with 'tools/install'"};
  }
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return Error{"the DPDK library cannot be loaded (" + std::string(dlerror()) +
                 "): build or install uroce anew"};
  }
  void* function = dlsym(handle, kOpenDpdkPortSymbol);
  if (function == nullptr) {
    return Error{"'" + library + "' is not uroce's DPDK library: build or install uroce anew"};
  }
  return reinterpret_cast<OpenDpdkPortFunction>(function);
}

}  // namespace

ErrorOr<DpdkPortParts> OpenDpdkPort(const std::string& library,
                                    const OpenDpdkPortRequest& request) {
  const auto open_port = LoadDpdkLibrary(library);
  if (!open_port.ok()) return Error{open_port.error()};
  OpenDpdkPortResult result;
  if (!open_port.value()(&request, &result)) return Error{result.error};
  return DpdkPortParts{std::unique_ptr<PacketPort>(result.port),
                       std::unique_ptr<LinkLayer>(result.link_layer)};
}

}  // namespace uroce::nic
