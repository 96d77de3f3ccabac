#include "tools/cli/program_check.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "tools/cli/elf_file.h"

namespace uroce::cli {
namespace {

// Empty: no such program.
std::string FindProgram(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/bin:/usr/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = (folder.empty() ? "." : folder) + "/" + program;
    struct stat status {};
    const bool is_file = stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode);
    if (is_file && access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

bool IsSanitizerRuntime(std::string_view library) {
  constexpr std::array<std::string_view, 6> kRuntimes = {
      "libasan.so", "libtsan.so", "liblsan.so", "libubsan.so", "libhwasan.so", "libclang_rt."};
  return std::any_of(kRuntimes.begin(), kRuntimes.end(),
                     [library](std::string_view name) { return library.starts_with(name); });
}

bool RunsAsAnotherUser(const std::string& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) return false;
  return ((status.st_mode & S_ISUID) != 0 && status.st_uid != geteuid()) ||
         ((status.st_mode & S_ISGID) != 0 && status.st_gid != getegid());
}

}  // namespace

std::optional<std::string> WhyNotPreloaded(const std::string& program) {
  const std::string found = FindProgram(program);
  if (found.empty()) return std::nullopt;
  if (RunsAsAnotherUser(found)) {
    return "'" + program +
           "' runs as another user or group (set-user-ID), so that it gets no RDMA device: start "
           "'uroce run' as that user";
  }
  const auto elf = ReadElfFile(found);
  if (!elf || !elf->is_static) return std::nullopt;
  return "'" + program +
         "' is linked statically, so that it gets no RDMA device (the programs that it starts "
         "may): "
         "link it with the shared libibverbs";
}

std::vector<std::string> SanitizerRuntimesOf(const std::string& program) {
  const auto elf = ReadElfFile(FindProgram(program));
  if (!elf) return {};
  std::vector<std::string> runtimes = elf->needed;
  runtimes.erase(std::remove_if(runtimes.begin(), runtimes.end(),
                                [](const std::string& name) { return !IsSanitizerRuntime(name); }),
                 runtimes.end());
  return runtimes;
}

}  // namespace uroce::cli
