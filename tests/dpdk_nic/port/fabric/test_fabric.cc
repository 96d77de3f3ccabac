#include "tests/dpdk_nic/port/fabric/test_fabric.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tests/dpdk_nic/port/fabric/fabric_names.h"
#include "tools/cli/fabric_lease.h"

namespace uroce::nic {
namespace {

std::string StartFabric() {
  const char* root = std::getenv("TEST_SRCDIR");
  const char* workspace = std::getenv("TEST_WORKSPACE");
  if (root == nullptr || workspace == nullptr) {
    std::fprintf(stderr, "run this with 'bazel test'\n");
    std::exit(2);
  }
  const std::string fabric = UniqueFabricName();
  const auto daemon = std::filesystem::path(root) / workspace / "tools" / "uroced";
  constexpr UplinkChoice kNone = {.wish = control::UplinkWish::kNone};
  if (const auto problem =
          cli::LeaseFabric(fabric, {.required = kNone, .started = kNone}, daemon)) {
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
