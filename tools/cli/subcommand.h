// A subcommand of `uroce`: one file each, listed in main.cc.
#pragma once

#include <string>
#include <vector>

namespace uroce::cli {

// What every subcommand returns when the user has to change something: a wrong option, a fabric
// that he is not let into, a port that cannot be opened.
inline constexpr int kExitUsage = 2;

struct Subcommand {
  const char* name;
  const char* summary;  // One line for `uroce --help`.

  // `arguments` is what follows the subcommand's name. Returns the exit status of the process.
  int (*execute)(const std::vector<std::string>& arguments);
};

}  // namespace uroce::cli
