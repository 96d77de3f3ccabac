// Finds the files of this build that `uroce run` needs: the libraries that it puts into a program,
// and uroced.
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
// Throws std::runtime_error if the folder of the executable cannot be found.
Libraries LibrariesBesideExecutable();

}  // namespace uroce::cli
