// Sees to it that a program that is to be started finds its fabric.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace uroce::cli {

// Makes the fabric stay as long as this process, whatever program it becomes. If nobody serves it
// yet, `daemon` (uroced) is started for it, in the background, and ends with the last that uses it.
// Returns why that cannot be, one sentence without full stop, which says what to do.
std::optional<std::string> LeaseFabric(const std::string& fabric,
                                       const std::filesystem::path& daemon);

}  // namespace uroce::cli
