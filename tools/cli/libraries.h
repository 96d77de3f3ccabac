// Where the shared libraries of this build are that `uroce run` puts into a program.
#pragma once

#include <filesystem>

namespace uroce::cli {

struct Libraries {
  std::filesystem::path preload;   // The virtual RDMA kernel, for LD_PRELOAD.
  std::filesystem::path provider;  // The libibverbs provider.
  std::filesystem::path dpdk;      // Direct mode's DPDK, loaded only for it.
};

// The libraries that were built together with the running executable. The files need not exist.
// Throws std::filesystem::filesystem_error if /proc is not mounted.
Libraries LibrariesBesideExecutable();

}  // namespace uroce::cli
