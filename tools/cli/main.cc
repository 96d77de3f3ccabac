// uroce: the command line. Finds the subcommand and hands the rest of the arguments to it.

#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/subcommand.h"

namespace uroce::cli {
namespace {

constexpr std::string_view kVersion = "0.1.0";

constexpr std::array<Subcommand, 3> kSubcommands = {{
    {"run", "run a program that finds an RDMA device 'uroce0'", Run},
    {"status", "show a fabric: its port, processes, links and queue pairs", Status},
    {"check", "tell whether programs can run here, and what to do if not", Check},
}};

void PrintHelp() {
  std::printf(
      "uroce: a software RDMA NIC in userspace.\n\n"
      "usage: uroce SUBCOMMAND [OPTIONS]\n\n");
  for (const Subcommand& subcommand : kSubcommands) {
    std::printf("  %-8s %s\n", subcommand.name, subcommand.summary);
  }
  std::printf(
      "\n'uroce SUBCOMMAND --help' explains one of them; 'uroce --version' prints the version.\n");
}

int Main(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    std::fprintf(stderr, "uroce: name a subcommand: 'uroce --help' lists them.\n");
    return kExitUsage;
  }
  const std::string& name = arguments.front();
  if (name == "--help" || name == "-h") {
    PrintHelp();
    return 0;
  }
  if (name == "--version") {
    std::printf("uroce %.*s\n", static_cast<int>(kVersion.size()), kVersion.data());
    return 0;
  }
  for (const Subcommand& subcommand : kSubcommands) {
    if (name == subcommand.name) {
      return subcommand.execute({arguments.begin() + 1, arguments.end()});
    }
  }
  std::fprintf(stderr, "uroce: there is no subcommand '%s': 'uroce --help' lists them.\n",
               name.c_str());
  return kExitUsage;
}

}  // namespace
}  // namespace uroce::cli

int main(int argc, char** argv) {
  try {
    return uroce::cli::Main({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "uroce: %s.\n", error.what());
    return uroce::cli::kExitUsage;
  }
}
