// What the header of an executable says about how it is loaded.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace uroce::cli {

struct ElfFile {
  // It has no interpreter, so that it loads no libraries, whether it is position-independent or
  // not.
  bool is_static = false;
  std::vector<std::string> needed;  // the libraries that it is linked with, by their sonames
};

// nullopt if it is no 64-bit ELF file that can be read and makes sense.
std::optional<ElfFile> ReadElfFile(const std::string& path);

}  // namespace uroce::cli
