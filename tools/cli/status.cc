#include <cstdio>
#include <cstdlib>

#include "dpdk_nic/control/control_address.h"
#include "dpdk_nic/device/device_config.h"
#include "tools/cli/counter_names.h"
#include "tools/cli/fabric_status.h"
#include "tools/cli/parse_options.h"
#include "tools/cli/status_json.h"
#include "tools/cli/status_table.h"
#include "tools/cli/subcommand.h"

namespace uroce::cli {
namespace {

namespace options = boost::program_options;

constexpr int kExitNoFabric = 1;

void PrintHelp() {
  std::printf(
      "usage: uroce status [OPTIONS]\n\n"
      "Shows a fabric: its uroced and port, the processes on it, their links and queue pairs, as\n"
      "they are at this moment. The processes do not notice.\n\n"
      "  --fabric NAME          fabric to show; otherwise what UROCE_FABRIC says, or 'default'\n"
      "  --json                 for programs\n"
      "  --explain              the name and the meaning of every counter\n");
}

// One sentence on stderr, which says what to do.
int Refuse(const std::string& sentence, int exit_status) {
  std::fprintf(stderr, "uroce status: %s.\n", sentence.c_str());
  return exit_status;
}

std::string DefaultFabric() {
  const char* fabric = std::getenv(nic::kFabricVariable);
  return fabric == nullptr || *fabric == '\0' ? nic::DeviceConfig().fabric : fabric;
}

}  // namespace

int Status(const std::vector<std::string>& arguments) {
  options::options_description description;
  description.add_options()("help,h", "")("json", "")("explain", "")("fabric",
                                                                     options::value<std::string>());
  options::variables_map values;
  try {
    values = ParseOptions(arguments, description);
  } catch (const options::error& error) {
    return Refuse(std::string(error.what()) + ": 'uroce status --help' lists the options",
                  kExitUsage);
  }
  if (values.count("help") != 0) {
    PrintHelp();
    return 0;
  }
  if (values.count("explain") != 0) {
    std::fputs(CounterNames().c_str(), stdout);
    return 0;
  }
  const std::string fabric =
      values.count("fabric") != 0 ? values["fabric"].as<std::string>() : DefaultFabric();
  if (!nic::control::IsFabricName(fabric)) {
    return Refuse("--fabric is '" + fabric +
                      "': name a fabric with up to 64 letters, digits, dots, dashes and "
                      "underscores",
                  kExitUsage);
  }
  const auto status = AskForStatus(fabric);
  if (!status.ok()) return Refuse(status.error(), kExitNoFabric);
  const std::string text =
      values.count("json") != 0 ? StatusAsJson(status.value()) : StatusAsTable(status.value());
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace uroce::cli
