// Sees to it that a program that is to be started finds its fabric.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace uroce::cli {

// Takes a lease of the fabric for the life of this process, across exec. If the fabric has no
// uroced yet, `daemon` (uroced) is started for it, in the background, and ends with the last that
// uses it. Returns why that cannot be, one sentence without full stop, which says what to do.
std::optional<std::string> LeaseFabric(const std::string& fabric,
                                       const std::filesystem::path& daemon);

}  // namespace uroce::cli
