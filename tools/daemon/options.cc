#include "tools/daemon/options.h"

#include <arpa/inet.h>
#include <pwd.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "dpdk_nic/base/mtu.h"
#include "dpdk_nic/control/control_address.h"
#include "dpdk_nic/device/device_config.h"
#include "tools/cli/parse_options.h"

namespace uroce::daemon {
namespace {

namespace options = boost::program_options;
using nic::Error;
using nic::ErrorOr;
using nic::LocalAddress;

constexpr unsigned kHelpColumns = 100;

Error Wrong(const std::string& option, const std::string& value, const std::string& advice) {
  return {"--" + option + " is '" + value + "': " + advice};
}

// The options that may be in a file, too.
options::options_description Settings() {
  options::options_description settings(kHelpColumns);
  const auto text = [] { return options::value<std::string>(); };
  settings.add_options()("fabric", text()->value_name("NAME"), "name of the fabric to serve");
  settings.add_options()(
      "port", text()->value_name("DEVARGS"),
      "port to own: 'udp' or 'udp,address=10.0.0.1' for plain UDP sockets, or a DPDK "
      "port, e.g. 'net_af_packet0,iface=eth1' or '0000:03:00.0'");
  settings.add_options()(
      "uplink", text()->value_name("udp[,address=ADDR]"),
      "without a port: reach other hosts by plain UDP sockets, opened when a process names one; "
      "so it is if this host has a network");
  settings.add_options()("no-uplink", options::bool_switch(),
                         "without a port: the fabric ends at this host");
  settings.add_options()("ip", options::value<std::vector<std::string>>()->value_name("ADDR[/LEN]"),
                         "IPv4 or IPv6 address of the port, and how long its subnet's prefix is; "
                         "may be repeated");
  settings.add_options()("mtu", text()->value_name("N"),
                         "MTU in bytes: 1500 allows a path MTU of 1024, 4200 one of 4096");
  settings.add_options()("cpu", text()->value_name("N"),
                         "processor for the switch, which then spins there and never sleeps");
  settings.add_options()("users", text()->value_name("all|NAME[,NAME...]"),
                         "who may use the fabric beside the user that uroced runs as");
  settings.add_options()("private", options::bool_switch(),
                         "leave when no process uses the fabric any more");
  return settings;
}

options::options_description CommandLine() {
  options::options_description all(kHelpColumns);
  all.add_options()("help,h", "say this");
  all.add_options()("config", options::value<std::string>()->value_name("FILE"),
                    "read options from the file, one a line, as in 'mtu = 1500'");
  return all.add(Settings());
}

template <class Integer>
std::optional<Integer> ParseNumber(std::string_view text) {
  Integer number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

std::optional<LocalAddress> ParseAddress(const std::string& text) {
  const size_t slash = text.find('/');
  const auto ip = nic::ParseHostAddress(text.substr(0, slash));
  if (!ip) return std::nullopt;
  if (slash == std::string::npos) return LocalAddress{*ip, 0};
  const auto prefix_bits = ParseNumber<uint8_t>(std::string_view(text).substr(slash + 1));
  const int most = ip->IsIpv4Mapped() ? 32 : 128;
  if (!prefix_bits || *prefix_bits == 0 || *prefix_bits > most) return std::nullopt;
  return LocalAddress{*ip, *prefix_bits};
}

std::optional<uid_t> FindUser(const std::string& name) {
  if (const passwd* user = getpwnam(name.c_str())) return user->pw_uid;
  return ParseNumber<uid_t>(name);
}

std::optional<Error> ReadUsers(const std::string& text, AllowedUsers* users) {
  users->everybody = text == "all";
  if (users->everybody) return std::nullopt;
  std::istringstream names(text);
  for (std::string name; std::getline(names, name, ',');) {
    const auto user = FindUser(name);
    if (!user) return Wrong("users", text, "there is no user '" + name + "'; name 'all' or users");
    users->users.insert(*user);
  }
  return std::nullopt;
}

std::optional<Error> ReadAddresses(const std::vector<std::string>& texts, Options* out) {
  for (const std::string& text : texts) {
    const auto address = ParseAddress(text);
    if (!address) {
      return Wrong("ip", text, "give the address of one host, for example 10.0.0.1 or 10.0.0.1/24");
    }
    const auto is_same = [&](const LocalAddress& other) { return other.ip == address->ip; };
    if (std::any_of(out->addresses.begin(), out->addresses.end(), is_same)) {
      return Wrong("ip", text, "give each address once");
    }
    out->addresses.push_back(*address);
  }
  if (out->addresses.size() <= nic::kMaxLocalAddresses) return std::nullopt;
  return Error{"--ip is given " + std::to_string(out->addresses.size()) +
               " times: a port has at most " + std::to_string(nic::kMaxLocalAddresses) +
               " addresses"};
}

std::optional<Error> ReadNumbers(const options::variables_map& values, Options* out) {
  if (values.count("mtu") != 0) {
    const auto& text = values["mtu"].as<std::string>();
    const auto mtu = ParseNumber<uint32_t>(text);
    if (!mtu || *mtu < nic::kMinMtuBytes || *mtu > nic::kMaxMtuBytes) {
      return Wrong("mtu", text, "give a number of bytes from 576 to 9600");
    }
    out->mtu_bytes = *mtu;
  }
  if (values.count("cpu") != 0) {
    const auto& text = values["cpu"].as<std::string>();
    const auto cpu = ParseNumber<int>(text);
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    if (!cpu || *cpu < 0 || *cpu >= CPU_SETSIZE || !CPU_ISSET(*cpu, &allowed)) {
      return Wrong("cpu", text, "give the number of a processor that uroced may run on");
    }
    out->cpu = *cpu;
  }
  return std::nullopt;
}

std::optional<Error> ReadUplink(const options::variables_map& values, Options* out) {
  const bool is_none = values["no-uplink"].as<bool>();
  const bool is_chosen = values.count("uplink") != 0;
  if (!out->port_devargs.empty() && (is_none || is_chosen)) {
    return Error{"--port and --uplink or --no-uplink exclude each other: choose one of them"};
  }
  if (is_none && is_chosen) {
    return Error{"--uplink and --no-uplink exclude each other: choose one of them"};
  }
  if (is_none) out->uplink.wish = nic::control::UplinkWish::kNone;
  if (!is_chosen) return std::nullopt;
  const auto& text = values["uplink"].as<std::string>();
  const auto uplink = nic::UplinkChoice::Parse(text);
  if (!uplink.ok()) return Wrong("uplink", text, uplink.error());
  out->uplink = uplink.value();
  return std::nullopt;
}

ErrorOr<Options> Read(const options::variables_map& values) {
  Options out;
  const auto text_of = [&](const char* option, const std::string& otherwise) {
    return values.count(option) != 0 ? values[option].as<std::string>() : otherwise;
  };
  out.fabric = text_of("fabric", out.fabric);
  if (!nic::control::IsFabricName(out.fabric)) {
    return Wrong("fabric", out.fabric,
                 "name a fabric with up to 64 letters, digits, dots, dashes and underscores");
  }
  out.port_devargs = text_of("port", "");
  out.is_private = values["private"].as<bool>();
  out.users.users = {geteuid()};
  if (values.count("users") != 0) {
    if (auto error = ReadUsers(values["users"].as<std::string>(), &out.users)) return *error;
  }
  if (values.count("ip") != 0) {
    if (auto error = ReadAddresses(values["ip"].as<std::vector<std::string>>(), &out)) {
      return *error;
    }
  }
  if (auto error = ReadNumbers(values, &out)) return *error;
  if (auto error = ReadUplink(values, &out)) return *error;
  if (out.port_devargs.empty() && !out.addresses.empty()) {
    return Error{
        "--ip is the address of a port: name the port with --port, or give each process "
        "its address with 'uroce run --ip'"};
  }
  const bool has_own_addresses = out.port_devargs.starts_with("udp");
  if (!out.port_devargs.empty() && out.addresses.empty() && !has_own_addresses) {
    return Error{"--port needs an address: give one with --ip, for example 10.0.0.1/24"};
  }
  return out;
}

// Values that are set already take precedence over those of the file.
void ReadFile(const std::string& name, options::variables_map* values) {
  std::ifstream file(name);
  if (!file) {
    throw options::error(name + " cannot be read (" + std::strerror(errno) +
                         "): name a file of options with --config");
  }
  try {
    options::store(options::parse_config_file(file, Settings()), *values);
  } catch (const options::error& error) {
    throw options::error(name + ": " + error.what() + ": 'uroced --help' lists the options");
  }
}

}  // namespace

ErrorOr<Options> ParseOptions(const std::vector<std::string>& arguments) {
  options::variables_map values;
  try {
    values = cli::ParseOptions(arguments, CommandLine());
  } catch (const options::error& error) {
    return Error{std::string(error.what()) + ": 'uroced --help' lists the options"};
  }
  if (values.count("help") != 0) {
    Options help;
    help.help = true;
    return help;
  }
  try {
    if (values.count("config") != 0) ReadFile(values["config"].as<std::string>(), &values);
  } catch (const options::error& error) {
    return Error{error.what()};
  }
  return Read(values);
}

std::string HelpText() {
  std::ostringstream text;
  text
      << "usage: uroced [OPTIONS]\n\n"
         "Serves the RDMA fabric of this host's processes: gives them queue pair numbers, links\n"
         "them with each other and, by a port or UDP sockets, with other hosts. 'uroce run' finds\n"
         "it by the name of the fabric, and starts one if there is none.\n\n"
      << CommandLine();
  return text.str();
}

}  // namespace uroce::daemon
