#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/device/device_config.h"
#include "dpdk_nic/port/udp/udp_address.h"
#include "tools/cli/fabric_lease.h"
#include "tools/cli/libraries.h"
#include "tools/cli/parse_options.h"
#include "tools/cli/program_check.h"
#include "tools/cli/subcommand.h"
#include "tools/cli/wire_check.h"

namespace uroce::cli {
namespace {

namespace options = boost::program_options;

constexpr int kExitNotExecutable = 126;
constexpr int kExitNotFound = 127;

constexpr size_t kHelpIndent = 25;
constexpr size_t kHelpColumns = 100;

// Prints an option, and its help in lines beside it.
void PrintOption(const std::string& option, std::string_view help) {
  std::string line = "  " + option;
  if (line.size() >= kHelpIndent) {
    std::printf("%s\n", line.c_str());
    line.clear();
  }
  line.resize(kHelpIndent, ' ');
  while (line.size() + help.size() > kHelpColumns) {
    const size_t blank = help.rfind(' ', kHelpColumns - kHelpIndent);
    if (blank == std::string_view::npos) break;
    std::printf("%s%.*s\n", line.c_str(), static_cast<int>(blank), help.data());
    help.remove_prefix(blank + 1);
    line.assign(kHelpIndent, ' ');
  }
  std::printf("%s%.*s\n", line.c_str(), static_cast<int>(help.size()), help.data());
}

void PrintHelp() {
  std::printf(
      "usage: uroce run [OPTIONS] -- COMMAND [ARGUMENTS]\n\n"
      "Runs COMMAND with an RDMA device 'uroce0' on a fabric. If no uroced serves it yet, one is\n"
      "started, which ends with the last program.\n\n");
  for (const nic::DeviceOption& option : nic::DeviceOptions()) {
    PrintOption(std::string("--") + option.name + " " + option.argument, option.help);
  }
  PrintOption("--no-uplink", "a fabric that ends at this host");
  std::printf(
      "\nAn option that is not given keeps its variable (UROCE_IP, UROCE_MTU, ...) as it is.\n");
}

// One sentence on stderr, which says what to do.
int Refuse(const std::string& sentence) {
  std::fprintf(stderr, "uroce run: %s.\n", sentence.c_str());
  return kExitUsage;
}

options::variables_map Parse(const std::vector<std::string>& arguments) {
  options::options_description description;
  description.add_options()("help,h", "");
  description.add_options()("no-uplink", "");
  for (const nic::DeviceOption& option : nic::DeviceOptions()) {
    description.add_options()(option.name, options::value<std::string>(), option.help);
  }
  return ParseOptions(arguments, description);
}

void SetVariable(const char* name, const std::string& value) {
  if (setenv(name, value.c_str(), /*overwrite=*/1) != 0) {
    throw std::runtime_error(std::string("cannot set ") + name + ": " + std::strerror(errno));
  }
}

// Replaces the variable that a sentence is about by the option that was used to set it.
std::string InTermsOfOptions(std::string sentence, const options::variables_map& values) {
  for (const nic::DeviceOption& option : nic::DeviceOptions()) {
    if (values.count(option.name) != 0 && sentence.starts_with(option.variable)) {
      sentence.replace(0, std::strlen(option.variable), std::string("--") + option.name);
    }
  }
  return sentence;
}

void ExportSettings(const options::variables_map& values) {
  for (const nic::DeviceOption& option : nic::DeviceOptions()) {
    if (values.count(option.name) == 0) continue;
    std::string value = values[option.name].as<std::string>();
    // The program may change its directory first.
    if (option.is_file && !value.empty()) value = std::filesystem::absolute(value);
    SetVariable(option.variable, value);
  }
  if (values.count("no-uplink") != 0) SetVariable(nic::kUplinkVariable, "none");
}

// Returns what is wrong with the place for the capture file, if anything.
std::optional<std::string> CheckCapture(const std::filesystem::path& file) {
  if (file.empty()) return std::nullopt;
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  if (access(folder.c_str(), W_OK | X_OK) == 0) return std::nullopt;
  return "the capture file cannot be created in " + folder.string() + " (" + std::strerror(errno) +
         "): name a file in a folder that can be written to";
}

// Removes the file of a run that has ended. Programs overwrite no capture.
void RemoveEarlierCapture(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return;
  const nic::UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd && flock(fd.get(), LOCK_EX | LOCK_NB) == 0) std::filesystem::remove(file, ignored);
}

std::string JoinLibraries(const std::string& first, const std::string& others) {
  return others.empty() ? first : first + ":" + others;
}

// Returns what is wrong with the libraries, if anything.
std::optional<std::string> ExportLibraries(const Libraries& libraries, const std::string& program) {
  for (const std::filesystem::path& library : {libraries.preload, libraries.provider}) {
    if (access(library.c_str(), R_OK) != 0) {
      return library.string() + " cannot be read (" + std::strerror(errno) +
             "): build or install uroce anew";
    }
  }
  const std::string preload = libraries.preload;
  if (preload.find_first_of(" :") != std::string::npos) {
    return "the loader cannot preload '" + preload +
           "': move uroce to a folder without blanks and colons in its name";
  }
  SetVariable("UROCE_PROVIDER", libraries.provider);
  SetVariable("UROCE_DPDK_LIBRARY", libraries.dpdk);

  const char* inherited = std::getenv("LD_PRELOAD");
  std::string libraries_first = inherited == nullptr ? "" : inherited;
  if (libraries_first.find(preload) == std::string::npos) {  // else `uroce run` in `uroce run`
    libraries_first = JoinLibraries(preload, libraries_first);
  }
  for (const std::string& runtime : SanitizerRuntimesOf(program)) {
    libraries_first = JoinLibraries(runtime, libraries_first);
  }
  SetVariable("LD_PRELOAD", libraries_first);
  return std::nullopt;
}

// A program with an address that this host does not have plays another host: a fabric that is
// started for it must end at this host.
std::optional<std::string> Lease(const nic::DeviceConfig& config,
                                 const std::filesystem::path& daemon) {
  FabricUplink uplink = {.required = config.uplink, .started = config.uplink};
  const bool is_open = uplink.started.wish == nic::control::UplinkWish::kAny;
  if (is_open && config.is_ip_chosen && !nic::HostReachesOthersFrom(config.ip)) {
    uplink.started.wish = nic::control::UplinkWish::kNone;
  }
  if (const transport::Gid& address = uplink.started.address; !address.IsZero()) {
    const auto found = nic::FindAddresses({address});
    if (!found.ok()) {
      return std::string(nic::kUplinkVariable) + " is '" + uplink.started.Text() +
             "': " + found.error();
    }
  }
  return LeaseFabric(config.fabric, uplink, daemon);
}

int Execute(const std::vector<std::string>& command) {
  // By this the preload library tells the command from the programs that the command starts.
  SetVariable("UROCE_COMMAND_PID", std::to_string(getpid()));
  std::vector<char*> argv;
  for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  const int error = errno;
  std::fprintf(stderr, "uroce run: cannot run '%s': %s.\n", argv[0], std::strerror(error));
  return error == ENOENT ? kExitNotFound : kExitNotExecutable;
}

}  // namespace

int Run(const std::vector<std::string>& arguments) {
  const auto separator = std::find(arguments.begin(), arguments.end(), "--");
  options::variables_map values;
  try {
    values = Parse({arguments.begin(), separator});
  } catch (const options::too_many_positional_options_error&) {
    return Refuse("put '--' before the command, as in 'uroce run -- ibv_devices'");
  } catch (const options::error& error) {
    return Refuse(std::string(error.what()) + ": 'uroce run --help' lists the options");
  }
  if (values.count("help") != 0) {
    PrintHelp();
    return 0;
  }
  if (separator == arguments.end() || separator + 1 == arguments.end()) {
    return Refuse("name a command after '--', as in 'uroce run -- ibv_devices'");
  }
  if (values.count("uplink") != 0 && values.count("no-uplink") != 0) {
    return Refuse("--uplink and --no-uplink exclude each other: choose one of them");
  }
  ExportSettings(values);
  const auto config = nic::DeviceConfig::FromEnvironment();
  if (!config.ok()) return Refuse(InTermsOfOptions(config.error(), values));
  if (const auto problem = CheckCapture(config.value().capture_file)) return Refuse(*problem);
  const Libraries libraries = LibrariesBesideExecutable();
  if (const auto problem = ExportLibraries(libraries, separator[1])) return Refuse(*problem);
  const auto problem = config.value().direct()
                           ? WhyPortCannotBeOpened(config.value(), libraries.dpdk)
                           : Lease(config.value(), libraries.daemon);
  if (problem) return Refuse(InTermsOfOptions(*problem, values));
  if (values.count("capture") != 0) RemoveEarlierCapture(values["capture"].as<std::string>());
  if (const auto warning = WhyNotPreloaded(separator[1])) {
    std::fprintf(stderr, "uroce run: %s.\n", warning->c_str());
  }
  return Execute({separator + 1, arguments.end()});
}

}  // namespace uroce::cli
