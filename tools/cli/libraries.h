// Where the files of this build are that `uroce run` needs: what it puts into a program, and
// uroced.
#pragma once

#include <filesystem>

namespace uroce::cli {

struct Libraries {
  std::filesystem::path preload;   // The virtual RDMA kernel, for LD_PRELOAD.
  std::filesystem::path provider;  // The libibverbs provider.
  std::filesystem::path dpdk;      // DPDK, loaded only for a port.
  std::filesystem::path daemon;    // uroced, a program.
};

// The libraries that were built together with the running executable. The files need not exist.
// Throws std::filesystem::filesystem_error if /proc is not mounted.
Libraries LibrariesBesideExecutable();

}  // namespace uroce::cli
