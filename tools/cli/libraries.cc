#include "tools/cli/libraries.h"

#include <sys/auxv.h>

#include <stdexcept>
#include <string>
#include <system_error>

namespace uroce::cli {

Libraries LibrariesBesideExecutable() {
  std::error_code error;
  std::filesystem::path executable = std::filesystem::read_symlink("/proc/self/exe", error);
  // Without /proc: the name by which it was started.
  if (error) {
    const auto* const name = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
    if (name != nullptr) executable = std::filesystem::canonical(name, error);
  }
  if (executable.empty()) {
    throw std::runtime_error("the folder of this program cannot be found (" + error.message() +
                             "): mount /proc, or start it by its whole name");
  }
  const std::filesystem::path root = executable.parent_path().parent_path();
  // <root>/bin/uroce, where it was installed.
  const std::filesystem::path installed = root / "lib" / "uroce";
  if (std::filesystem::exists(installed / "liburoce-preload.so", error)) {
    return {
        .preload = installed / "liburoce-preload.so",
        .provider = installed / "liburoce-provider.so",
        .dpdk = installed / "liburoce-dpdk.so",
        .daemon = executable.parent_path() / "uroced",
    };
  }
  // <root>/tools/uroce: Bazel's output tree has the layout of the source tree.
  return {
      .preload = root / "verbs_provider" / "virtual_kernel" / "liburoce-preload.so",
      .provider = root / "verbs_provider" / "liburoce-provider.so",
      .dpdk = root / "dpdk_nic" / "port" / "dpdk" / "liburoce-dpdk.so",
      .daemon = root / "tools" / "uroced",
  };
}

}  // namespace uroce::cli
