#include "tools/cli/libraries.h"

namespace uroce::cli {

Libraries LibrariesBesideExecutable() {
  // <root>/tools/uroce: Bazel's output tree has the layout of the source tree.
  const std::filesystem::path executable = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path root = executable.parent_path().parent_path();
  return {
      .preload = root / "verbs_provider" / "virtual_kernel" / "liburoce-preload.so",
      .provider = root / "verbs_provider" / "liburoce-provider.so",
      .dpdk = root / "dpdk_nic" / "port" / "dpdk" / "liburoce-dpdk.so",
      .daemon = root / "tools" / "uroced",
  };
}

}  // namespace uroce::cli
