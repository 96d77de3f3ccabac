#pragma once

#include <string>
#include <string_view>

namespace uroce::cli {

// Replaces bytes that are not UTF-8 and characters that cannot be printed by question marks: names
// that other processes choose must not disturb a terminal.
std::string Printable(std::string_view text);

}  // namespace uroce::cli
