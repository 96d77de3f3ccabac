// The subcommands of `uroce`: one file each, listed in main.cc.
#pragma once

#include <string>
#include <vector>

namespace uroce::cli {

// The exit status of every subcommand when the user has to change something: a wrong option, a
// fabric that refuses this user, a port that cannot be opened.
inline constexpr int kExitUsage = 2;

struct Subcommand {
  const char* name;
  const char* summary;  // One line for `uroce --help`.

  // `arguments` come after the subcommand's name. Returns the exit status of the process.
  int (*execute)(const std::vector<std::string>& arguments);
};

// Validates the options, sets up the environment that the provider reads, and becomes the command.
// Returns only if that failed: kExitUsage, or 126 / 127 as a shell does for a command that cannot
// be executed / does not exist.
int Run(const std::vector<std::string>& arguments);

// Shows a fabric and what its processes do. Returns 0; 1 if the fabric has no uroced or it refuses
// this user; or kExitUsage.
int Status(const std::vector<std::string>& arguments);

// Tells whether programs can run here, and what to do if they cannot. Returns 0 if a program can
// have a device here, 1 if not; or kExitUsage.
int Check(const std::vector<std::string>& arguments);

}  // namespace uroce::cli
