#pragma once

#include <string>

namespace uroce::cli {

// Every counter of `uroce status --json`: its place there, its name in Linux and its meaning, as
// Markdown.
std::string CounterNames();

}  // namespace uroce::cli
