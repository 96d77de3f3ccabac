// Reads from the header of an executable how it is loaded.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace uroce::cli {

struct ElfFile {
  // The file has no interpreter, so that it loads no libraries, whether it is position-independent
  // or not.
  bool is_static = false;
  std::vector<std::string> needed;  // sonames of the libraries that it is linked with
};

// nullopt unless the file is a 64-bit ELF file that can be read and is plausible.
std::optional<ElfFile> ReadElfFile(const std::string& path);

}  // namespace uroce::cli
