// `uroce status`: shows a fabric and what its processes do.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/subcommand.h"

namespace uroce::cli {

// Returns 0; 1 if the fabric has no uroced or it refuses this user; or kExitUsage.
int Status(const std::vector<std::string>& arguments);

inline constexpr Subcommand kStatusSubcommand = {
    .name = "status",
    .summary = "show a fabric: its port, processes, links and queue pairs",
    .execute = Status,
};

}  // namespace uroce::cli
