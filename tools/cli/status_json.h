#pragma once

#include <string>

#include "tools/cli/fabric_status.h"

namespace uroce::cli {

// For programs: one JSON object, with a line break at the end. Names of members do not change; new
// members may be added.
std::string StatusAsJson(const FabricStatus& status);

}  // namespace uroce::cli
