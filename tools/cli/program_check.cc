#include "tools/cli/program_check.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace uroce::cli {
namespace {

// Of a header that makes sense.
constexpr uint16_t kMaxSegments = 256;

// Empty if there is none.
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

// A program without an interpreter loads no libraries, whether it is position-independent or not.
bool IsStatic(std::ifstream& file) {
  Elf64_Ehdr header{};
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  if (!file || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phnum > kMaxSegments) return false;
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return false;
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (uint16_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    file.read(reinterpret_cast<char*>(&segment), sizeof segment);
    if (!file || segment.p_type == PT_INTERP) return false;
  }
  return true;
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
  std::ifstream file(found, std::ios::binary);
  if (!file || !IsStatic(file)) return std::nullopt;
  return "'" + program +
         "' is linked statically, so that it gets no RDMA device (the programs that it starts "
         "may): "
         "link it with the shared libibverbs";
}

}  // namespace uroce::cli
