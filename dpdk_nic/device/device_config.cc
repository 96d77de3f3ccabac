#include "dpdk_nic/device/device_config.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "dpdk_nic/base/mtu.h"
#include "dpdk_nic/control/control_address.h"
#include "dpdk_nic/device/pkey_list.h"
#include "dpdk_nic/link_layer/link_layer.h"

namespace uroce::nic {
namespace {

using transport::Gid;

Error Wrong(const DeviceOption& option, std::string_view value, std::string_view advice) {
  return {std::string(option.variable) + " is '" + std::string(value) +
          "': " + std::string(advice)};
}

std::optional<uint32_t> ParseNumber(std::string_view text, uint32_t least, uint32_t most) {
  uint32_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number < least || number > most ? std::nullopt : std::optional(number);
}

std::optional<ProgressMode> ParseMode(std::string_view text) {
  if (text == "auto") return ProgressMode::kAuto;
  if (text == "dedicated") return ProgressMode::kDedicated;
  return std::nullopt;
}

using Problem = std::optional<Error>;

Problem ReadPort(const DeviceOption&, const std::string& value, DeviceConfig& config) {
  config.port_devargs = value;
  return std::nullopt;
}

Problem ReadFabric(const DeviceOption& option, const std::string& value, DeviceConfig& config) {
  if (!control::IsFabricName(value)) {
    return Wrong(option, value,
                 "name a fabric with up to 64 letters, digits, dots, dashes and underscores");
  }
  config.fabric = value;
  return std::nullopt;
}

Problem ReadIp(const DeviceOption& option, const std::string& value, DeviceConfig& config) {
  const auto ip = ParseHostAddress(value);
  if (!ip) {
    return Wrong(option, value, "give the IPv4 or IPv6 address of one host, for example 10.0.0.1");
  }
  config.ip = *ip;
  config.is_ip_chosen = true;
  return std::nullopt;
}

Problem ReadMtu(const DeviceOption& option, const std::string& value, DeviceConfig& config) {
  const auto mtu = ParseNumber(value, kMinMtuBytes, kMaxMtuBytes);
  if (!mtu) {
    return Wrong(option, value,
                 "give a number of bytes from 576 to 9600; 4200 allows a path MTU of 4096");
  }
  config.mtu_bytes = *mtu;
  return std::nullopt;
}

Problem ReadPkeys(const DeviceOption& option, const std::string& value, DeviceConfig& config) {
  auto pkeys = ParsePkeys(value);
  if (!pkeys.ok()) return Wrong(option, value, pkeys.error());
  config.pkeys = std::move(pkeys).value();
  return std::nullopt;
}

// Read after the port.
Problem ReadUplink(const DeviceOption& option, const std::string& value, DeviceConfig& config) {
  const auto uplink = UplinkChoice::Parse(value);
  if (!uplink.ok()) return Wrong(option, value, uplink.error());
  if (config.direct()) {
    return Wrong(option, value,
                 "it is for a fabric, and a program with --port is on none: choose one of both");
  }
  config.uplink = uplink.value();
  return std::nullopt;
}

Problem ReadMode(const DeviceOption& option, const std::string& value, DeviceConfig& config) {
  const auto mode = ParseMode(value);
  if (!mode) return Wrong(option, value, "choose 'auto' or 'dedicated'");
  config.mode = *mode;
  return std::nullopt;
}

Problem ReadCapture(const DeviceOption&, const std::string& value, DeviceConfig& config) {
  config.capture_file = value;
  return std::nullopt;
}

Problem ReadImpairments(const DeviceOption& option, const std::string& value,
                        DeviceConfig& config) {
  const auto impairments = ParseImpairments(value);
  if (!impairments.ok()) return Error{std::string(option.variable) + ": " + impairments.error()};
  config.impairments = impairments.value();
  return std::nullopt;
}

Problem ReadScenario(const DeviceOption& option, const std::string& value, DeviceConfig& config) {
  auto scenario = ReadFaultScenario(value);
  if (!scenario.ok()) return Error{std::string(option.variable) + ": " + scenario.error()};
  config.scenario = std::move(scenario).value();
  return std::nullopt;
}

Problem ReadCongestion(const DeviceOption& option, const std::string& value, DeviceConfig& config) {
  if (value != "model" && value != "none") return Wrong(option, value, "choose 'model' or 'none'");
  config.congestion =
      value == "none" ? transport::Congestion::kNone : transport::Congestion::kModel;
  return std::nullopt;
}

// Read last: several engines exclude some of the other choices.
Problem ReadEngines(const DeviceOption& option, const std::string& value, DeviceConfig& config) {
  const auto engines = ParseNumber(value, 1, kMaxEngines);
  if (!engines) return Wrong(option, value, "give a number of engines from 1 to 64");
  config.engines = *engines;
  if (config.engines == 1) return std::nullopt;
  if (config.direct()) {
    return Wrong(option, value,
                 "a program with --port has one port, and one engine for it: choose one of both");
  }
  const bool wants_one_order =
      !config.capture_file.empty() || config.impairments.any() || !config.scenario.empty();
  if (!wants_one_order) return std::nullopt;
  return Wrong(option, value,
               "captures, impairments and scenarios are of one engine: choose one of both");
}

constexpr DeviceOption kOptions[] = {
    {.name = "ip",
     .variable = kIpVariable,
     .argument = "ADDR",
     .help = "IPv4 or IPv6 address of the device",
     .read = ReadIp},
    {.name = "mtu",
     .variable = kMtuVariable,
     .argument = "N",
     .help = "MTU of the device in bytes: 1500 allows a path MTU of 1024, 4200 one of 4096",
     .read = ReadMtu},
    {.name = "pkey",
     .variable = kPkeyVariable,
     .argument = "PKEY[,PKEY...]",
     .help = "partitions of the device beside the default one, e.g. '0x8001,0x0002'",
     .read = ReadPkeys},
    {.name = "fabric",
     .variable = kFabricVariable,
     .argument = "NAME",
     .help = "fabric to join; all programs of a user on a fabric reach each other",
     .read = ReadFabric},
    {.name = "port",
     .variable = kPortVariable,
     .argument = "DEVARGS",
     .help = "direct mode: the program owns this port: 'udp' (plain UDP sockets), or a DPDK port, "
             "e.g. 'net_memif0,role=server,...'",
     .read = ReadPort},
    {.name = "uplink",
     .variable = kUplinkVariable,
     .argument = "udp[,address=ADDR]",
     .help = "how the fabric reaches other hosts: by plain UDP sockets, which are opened when a "
             "program names one; so it is if this host has a network",
     .read = ReadUplink},
    {.name = "mode",
     .variable = kModeVariable,
     .argument = "auto|dedicated",
     .help =
         "what drives the device: the threads that poll, or one that spins on a core of its own",
     .read = ReadMode},
    {.name = "capture",
     .variable = kCaptureVariable,
     .argument = "FILE.pcapng",
     .help = "write every frame there; '%p' in the name becomes the process id, which a second "
             "program has in the name of its file in any case",
     .is_file = true,
     .read = ReadCapture},
    {.name = "impair",
     .variable = kImpairVariable,
     .argument = "SPEC",
     .help = "spoil frames, e.g. 'drop=1%,duplicate=1%,reorder=1%,corrupt=1%,delay=50us,seed=7'",
     .read = ReadImpairments},
    {.name = "scenario",
     .variable = kScenarioVariable,
     .argument = "FILE.json",
     .help = "meet exact packets with faults, as 'man uroce-faults' explains",
     .is_file = true,
     .read = ReadScenario},
    {.name = "congestion",
     .variable = kCongestionVariable,
     .argument = "model|none",
     .help = "congestion control of connections to other hosts: by a model of the path, or none",
     .read = ReadCongestion},
    {.name = "engines",
     .variable = kEnginesVariable,
     .argument = "N",
     .help = "let threads with completion queues of their own not wait for each other: up to N of "
             "them, each with a share of the connections",
     .read = ReadEngines},
};

}  // namespace

std::optional<Gid> ParseHostAddress(const std::string& text) {
  std::array<uint8_t, 4> v4;
  if (inet_pton(AF_INET, text.c_str(), v4.data()) == 1) {
    const bool multicast_or_reserved = v4[0] >= 224;
    if (v4[0] == 0 || multicast_or_reserved) return std::nullopt;
    return Gid::FromIpv4(v4);
  }
  Gid gid;
  if (inet_pton(AF_INET6, text.c_str(), gid.bytes.data()) != 1) return std::nullopt;
  const bool multicast = gid.bytes[0] == 0xff;
  if (gid.IsZero() || multicast) return std::nullopt;
  return gid;
}

std::span<const DeviceOption> DeviceOptions() { return kOptions; }

ErrorOr<DeviceConfig> DeviceConfig::FromEnvironment(const Lookup& lookup) {
  const auto value_of = [&](const char* variable) -> std::string {
    const char* value = lookup(variable);
    return value == nullptr ? "" : value;
  };
  DeviceConfig config;
  config.dpdk_library = value_of(kDpdkLibraryVariable);
  for (const DeviceOption& option : kOptions) {
    const std::string value = value_of(option.variable);
    if (value.empty()) continue;
    if (const auto problem = option.read(option, value, config)) return *problem;
  }
  return config;
}

ErrorOr<DeviceConfig> DeviceConfig::FromEnvironment() {
  return FromEnvironment([](const char* variable) -> const char* { return getenv(variable); });
}

transport::MacAddress DeviceMac(const DeviceConfig& config) { return MacAddressFor(config.ip); }

std::vector<Gid> GidTable(const transport::MacAddress& mac, const Gid& ip) {
  std::vector<Gid> table = {Gid::LinkLocal(mac)};
  if (ip != table[0]) table.push_back(ip);
  return table;
}

}  // namespace uroce::nic
