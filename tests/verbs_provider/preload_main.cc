#include "tests/verbs_provider/preload_main.h"

#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/dpdk_nic/port/fabric/test_fabric.h"
#include "tests/runfiles/runfiles.h"

#ifdef __SANITIZE_THREAD__
// The preload library goes past the race detector when it closes a descriptor (it calls the next
// libc, not the detector's). When another thread gets the same number next, that looks like a race
// between the two openings.
extern "C" const char* __tsan_default_suppressions() {
  return "race:uroce::verbs::virtual_kernel::EventFile::Open\n"
         "race:uroce::verbs::virtual_kernel::NetlinkSocket::Open\n";
}
#endif

namespace uroce::verbs::testing {
namespace {

constexpr char kMarker[] = "UROCE_TEST_PRELOADED";

// A sanitizer's runtime must be the first library of the process.
std::string SanitizerRuntime() {
  std::string found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        if (std::strstr(info->dlpi_name, "libasan.so") != nullptr ||
            std::strstr(info->dlpi_name, "libtsan.so") != nullptr) {
          *static_cast<std::string*>(out) = std::string(info->dlpi_name) + ":";
        }
        return 0;
      },
      &found);
  return found;
}

}  // namespace

void RunOverUroce(char** argv) {
  if (std::getenv(kMarker) != nullptr) return;
  const std::string preload = Runfile("verbs_provider/virtual_kernel/liburoce-preload.so");
  setenv(kMarker, "1", 1);
  setenv("LD_PRELOAD", (SanitizerRuntime() + preload).c_str(), 1);
  setenv("UROCE_PROVIDER", Runfile("verbs_provider/liburoce-provider.so").c_str(), 1);
  if (std::getenv("UROCE_FABRIC") == nullptr) {
    setenv("UROCE_FABRIC", nic::TestFabric().c_str(), 1);
  }
  execv("/proc/self/exe", argv);
  std::perror("cannot start again");
  std::exit(2);
}

}  // namespace uroce::verbs::testing

int main(int argc, char** argv) {
  uroce::verbs::testing::RunOverUroce(argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
