#pragma once

#include <string>
#include <string_view>

namespace uroce::cli {

// The text with what is no printable character or no UTF-8 replaced by question marks: names that
// other processes choose may not disturb a terminal.
std::string Printable(std::string_view text);

}  // namespace uroce::cli
