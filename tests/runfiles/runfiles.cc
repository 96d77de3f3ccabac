#include "tests/runfiles/runfiles.h"

#include <cstdlib>
#include <filesystem>

namespace uroce {

std::string Runfile(const std::string& path) {
  const char* root = std::getenv("TEST_SRCDIR");
  const std::string runfiles =
      root != nullptr ? root
                      : std::filesystem::read_symlink("/proc/self/exe").string() + ".runfiles";
  return runfiles + "/uroce/" + path;
}

}  // namespace uroce
