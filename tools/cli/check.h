// `uroce check`: tells whether programs can run here, and what to do if they cannot.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/subcommand.h"

namespace uroce::cli {

// Returns 0 if a program can have a device here, 1 if not; or kExitUsage.
int Check(const std::vector<std::string>& arguments);

inline constexpr Subcommand kCheckSubcommand = {
    .name = "check",
    .summary = "tell whether programs can run here, and what to do if not",
    .execute = Check,
};

}  // namespace uroce::cli
