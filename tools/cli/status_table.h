#pragma once

#include <string>

#include "tools/cli/fabric_status.h"

namespace uroce::cli {

// For people: text in tables.
std::string StatusAsTable(const FabricStatus& status);

}  // namespace uroce::cli
