// Checks whether `uroce run` can put an RDMA device into a program.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace uroce::cli {

// Why the loader will not preload a library into `program`, which is found as execvp() finds it:
// one sentence without full stop, which says what to do. nullopt if the loader will, or if the file
// is no ELF file that can be read: then exec() reports the problem.
std::optional<std::string> WhyNotPreloaded(const std::string& program);

// The sonames of the sanitizer runtimes that `program` is linked with. They refuse to work unless
// the loader loads them first.
std::vector<std::string> SanitizerRuntimesOf(const std::string& program);

}  // namespace uroce::cli
