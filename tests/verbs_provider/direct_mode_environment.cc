// Makes the test that links it run in direct mode, over a memif to which no peer connects.
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "dpdk_nic/device/device_config.h"

namespace uroce::verbs::testing {
namespace {

// Not in TEST_TMPDIR: a socket's path has at most 107 characters.
std::string SocketPath() { return "/tmp/uroce-test-memif-" + std::to_string(getpid()); }

// Runs before main() restarts the program with the preload library.
__attribute__((constructor)) void ChooseDirectMode() {
  setenv(nic::kPortVariable, ("net_memif0,role=server,socket=" + SocketPath()).c_str(), 0);
  setenv(nic::kDpdkLibraryVariable, "dpdk_nic/port/dpdk/liburoce-dpdk.so", 0);  // in the runfiles
  setenv(nic::kFabricVariable, "unused", 0);
  atexit([] { unlink(SocketPath().c_str()); });
}

}  // namespace
}  // namespace uroce::verbs::testing
