#pragma once

#include <string>

#include "tools/cli/fabric_status.h"

namespace uroce::cli {

// For programs: one JSON object, with a line break at the end. Names of members stay as they are;
// there may come more.
std::string StatusAsJson(const FabricStatus& status);

}  // namespace uroce::cli
