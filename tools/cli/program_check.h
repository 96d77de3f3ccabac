// Whether a program can have an RDMA device put into it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace uroce::cli {

// Why the loader will not preload a library into `program`, which is found as execvp() finds it:
// one sentence without full stop, which says what to do. Nothing if it will, or if the file is no
// ELF file that can be read: then the kernel has to say.
std::optional<std::string> WhyNotPreloaded(const std::string& program);

// The libraries among those that `program` is linked with that are the runtime of a sanitizer, by
// their sonames. They refuse to work unless they are the first that the loader loads.
std::vector<std::string> SanitizerRuntimesOf(const std::string& program);

}  // namespace uroce::cli
