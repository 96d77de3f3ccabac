#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

// An option of `uroce run`, and the variable that carries its value into the program.
struct Setting {
  const char* option;
  const char* variable;
  const char* argument;
  const char* help;
};

constexpr std::array kSettings = {
    Setting{"ip", nic::kIpVariable, "ADDR", "IPv4 or IPv6 address of the device"},
    Setting{"mtu", nic::kMtuVariable, "N",
            "MTU of the device in bytes: 1500 allows a path MTU of 1024, 4200 one of 4096"},
    Setting{"pkey", nic::kPkeyVariable, "PKEY[,PKEY...]",
            "partitions of the device beside the default one, e.g. '0x8001,0x0002'"},
    Setting{"fabric", nic::kFabricVariable, "NAME",
            "fabric to join; all programs of a user on a fabric reach each other"},
    Setting{
        "port", nic::kPortVariable, "DEVARGS",
        "direct mode: the program owns this port: 'udp' (plain UDP sockets), or a DPDK port, e.g. "
        "'net_memif0,role=server,...'"},
    Setting{"uplink", nic::kUplinkVariable, "udp[,address=ADDR]",
            "how the fabric reaches other hosts: by plain UDP sockets, which are opened when a\n"
            "                         program names one; so it is if this host has a network"},
    Setting{
        "mode", nic::kModeVariable, "auto|dedicated",
        "what drives the device: the threads that poll, or one that spins on a core of its own"},
    Setting{"engines", nic::kEnginesVariable, "N",
            "let threads with completion queues of their own not wait for each other: up to N of\n"
            "                         them, each with a share of the connections"},
    Setting{"capture", nic::kCaptureVariable, "FILE.pcapng",
            "write every frame there; '%p' in the name becomes the process id, which a second\n"
            "                         program has in the name of its file in any case"},
    Setting{"impair", nic::kImpairVariable, "SPEC",
            "spoil frames, e.g. 'drop=1%,duplicate=1%,reorder=1%,corrupt=1%,delay=50us,seed=7'"},
    Setting{"scenario", nic::kScenarioVariable, "FILE.json",
            "meet exact packets with faults, as 'man uroce-faults' explains"},
};

void PrintHelp() {
  std::printf(
      "usage: uroce run [OPTIONS] -- COMMAND [ARGUMENTS]\n\n"
      "Runs COMMAND with an RDMA device 'uroce0' on a fabric. If no uroced serves it yet, one is\n"
      "started, which ends with the last program.\n\n");
  for (const Setting& setting : kSettings) {
    const std::string option = std::string("--") + setting.option + " " + setting.argument;
    std::printf("  %-22s %s\n", option.c_str(), setting.help);
  }
  std::printf("  %-22s %s\n", "--no-uplink", "a fabric that ends at this host");
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
  for (const Setting& setting : kSettings) {
    description.add_options()(setting.option, options::value<std::string>(), setting.help);
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
  for (const Setting& setting : kSettings) {
    if (values.count(setting.option) != 0 && sentence.starts_with(setting.variable)) {
      sentence.replace(0, std::strlen(setting.variable), std::string("--") + setting.option);
    }
  }
  return sentence;
}

void ExportSettings(const options::variables_map& values) {
  for (const Setting& setting : kSettings) {
    if (values.count(setting.option) == 0) continue;
    std::string value = values[setting.option].as<std::string>();
    const std::string_view option = setting.option;
    if ((option == "capture" || option == "scenario") && !value.empty()) {
      value = std::filesystem::absolute(value);  // The program may change its directory first.
    }
    SetVariable(setting.variable, value);
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
