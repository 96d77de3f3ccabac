#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "dpdk_nic/control/control_address.h"
#include "dpdk_nic/device/device_config.h"
#include "tools/cli/finding.h"
#include "tools/cli/parse_options.h"
#include "tools/cli/subcommand.h"

namespace uroce::cli {
namespace {

namespace options = boost::program_options;

constexpr int kExitProblem = 1;

void PrintHelp() {
  std::printf(
      "usage: uroce check [OPTIONS]\n\n"
      "Tells in ten lines what this machine or container has for programs with an RDMA device,\n"
      "and what to do about what it lacks. Tries the device out, and changes nothing.\n\n"
      "  --fabric NAME          fabric to try; otherwise what UROCE_FABRIC says, or 'default'\n");
}

int Refuse(const std::string& sentence) {
  std::fprintf(stderr, "uroce check: %s.\n", sentence.c_str());
  return kExitUsage;
}

const char* TextOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kNote:
      return "note";
    case Verdict::kProblem:
      return "PROBLEM";
  }
  return "";
}

}  // namespace

int Check(const std::vector<std::string>& arguments) {
  options::options_description description;
  description.add_options()("help,h", "")("open-device", "")("fabric",
                                                             options::value<std::string>());
  options::variables_map values;
  try {
    values = ParseOptions(arguments, description);
  } catch (const options::error& error) {
    return Refuse(std::string(error.what()) + ": 'uroce check --help' lists the options");
  }
  if (values.count("help") != 0) {
    PrintHelp();
    return 0;
  }
  if (values.count("open-device") != 0) return OpenDeviceAsProgram();
  if (values.count("fabric") != 0) {
    setenv(nic::kFabricVariable, values["fabric"].as<std::string>().c_str(), /*overwrite=*/1);
  }
  const char* variable = std::getenv(nic::kFabricVariable);
  const std::string fabric =
      variable == nullptr || *variable == '\0' ? nic::DeviceConfig().fabric : variable;
  if (!nic::control::IsFabricName(fabric)) {
    return Refuse("--fabric is '" + fabric +
                  "': name a fabric with up to 64 letters, digits, dots, dashes and underscores");
  }
  // Before the device is tried out, which may start a uroced for a moment.
  const Finding on_fabric = CheckFabric(fabric);
  const Finding on_uplink = CheckUplink(fabric);
  const std::vector<Finding> findings = {
      CheckMachine(),    CheckContainer(), CheckSystemCalls(),  CheckSharedMemory(), CheckLimits(),
      CheckLibibverbs(), CheckLibrdmacm(), CheckDevice(fabric), on_fabric,           on_uplink,
  };
  for (const Finding& finding : findings) {
    std::printf("%-8s %-14s %s\n", TextOf(finding.verdict), finding.subject, finding.text.c_str());
  }
  const bool has_problem =
      std::any_of(findings.begin(), findings.end(),
                  [](const Finding& finding) { return finding.verdict == Verdict::kProblem; });
  return has_problem ? kExitProblem : 0;
}

}  // namespace uroce::cli
