// `uroce run`: starts a program with uroce's RDMA device in it.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/subcommand.h"

namespace uroce::cli {

// Validates the options, sets up the environment that the provider reads, and becomes the command.
// Returns only if that failed: kExitUsage, or 126 / 127 as a shell does for a command that cannot
// be executed / does not exist.
int Run(const std::vector<std::string>& arguments);

inline constexpr Subcommand kRunSubcommand = {
    .name = "run",
    .summary = "run a program that finds an RDMA device 'uroce0'",
    .execute = Run,
};

}  // namespace uroce::cli
