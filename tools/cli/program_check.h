// Whether a program can have an RDMA device put into it.
#pragma once

#include <optional>
#include <string>

namespace uroce::cli {

// Why the loader will not preload a library into `program`, which is found as execvp() finds it:
// one sentence without full stop, which says what to do. Nothing if it will, or if the file is no
// ELF file that can be read: then the kernel has to say.
std::optional<std::string> WhyNotPreloaded(const std::string& program);

}  // namespace uroce::cli
