#include "tests/dpdk_nic/port/fabric/test_fabric.h"

#include <cstdio>
#include <cstdlib>

#include "tests/dpdk_nic/control/fabric_names.h"
#include "tests/runfiles/runfiles.h"
#include "tools/cli/fabric_lease.h"

namespace uroce::nic {
namespace {

std::string StartFabric() {
  const std::string fabric = UniqueFabricName();
  constexpr UplinkChoice kNone = {.wish = control::UplinkWish::kNone};
  if (const auto problem = cli::LeaseFabric(fabric, {.required = kNone, .started = kNone},
                                            Runfile("tools/uroced"))) {
    std::fprintf(stderr, "%s\n", problem->c_str());
    std::exit(2);
  }
  return fabric;
}

}  // namespace

const std::string& TestFabric() {
  static const std::string& fabric = *new std::string(StartFabric());
  return fabric;
}

}  // namespace uroce::nic
