// Gives the device of the test that links it two partitions beside the default one.
#include <stdlib.h>

#include "dpdk_nic/device/device_config.h"

namespace uroce::verbs::testing {
namespace {

// Runs before main() restarts the program with the preload library.
__attribute__((constructor)) void ChoosePartitions() {
  setenv(nic::kPkeyVariable, "0x8012,0x34", 0);
}

}  // namespace
}  // namespace uroce::verbs::testing
