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

Error Wrong(const char* variable, std::string_view value, std::string_view advice) {
  return {std::string(variable) + " is '" + std::string(value) + "': " + std::string(advice)};
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

// Read last: several engines exclude some of the other choices.
std::optional<Error> ReadEngines(const std::string& text, DeviceConfig& config) {
  if (text.empty()) return std::nullopt;
  const auto engines = ParseNumber(text, 1, kMaxEngines);
  if (!engines) return Wrong(kEnginesVariable, text, "give a number of engines from 1 to 64");
  config.engines = *engines;
  if (config.engines == 1) return std::nullopt;
  if (config.direct()) {
    return Wrong(kEnginesVariable, text,
                 "a program with --port has one port, and one engine for it: choose one of both");
  }
  const bool wants_one_order =
      !config.capture_file.empty() || config.impairments.any() || !config.scenario.empty();
  if (!wants_one_order) return std::nullopt;
  return Wrong(kEnginesVariable, text,
               "captures, impairments and scenarios are of one engine: choose one of both");
}

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

ErrorOr<DeviceConfig> DeviceConfig::FromEnvironment(const Lookup& lookup) {
  const auto value_of = [&](const char* variable) -> std::string {
    const char* value = lookup(variable);
    return value == nullptr ? "" : value;
  };
  DeviceConfig config;
  config.port_devargs = value_of(kPortVariable);
  config.dpdk_library = value_of(kDpdkLibraryVariable);
  config.capture_file = value_of(kCaptureVariable);

  if (const std::string fabric = value_of(kFabricVariable); !fabric.empty()) {
    if (!control::IsFabricName(fabric)) {
      return Wrong(kFabricVariable, fabric,
                   "name a fabric with up to 64 letters, digits, dots, dashes and underscores");
    }
    config.fabric = fabric;
  }
  if (const std::string text = value_of(kIpVariable); !text.empty()) {
    const auto ip = ParseHostAddress(text);
    if (!ip) {
      return Wrong(kIpVariable, text,
                   "give the IPv4 or IPv6 address of one host, for example 10.0.0.1");
    }
    config.ip = *ip;
    config.is_ip_chosen = true;
  }
  if (const std::string text = value_of(kMtuVariable); !text.empty()) {
    const auto mtu = ParseNumber(text, kMinMtuBytes, kMaxMtuBytes);
    if (!mtu) {
      return Wrong(kMtuVariable, text,
                   "give a number of bytes from 576 to 9600; 4200 allows a path MTU of 4096");
    }
    config.mtu_bytes = *mtu;
  }
  if (const std::string text = value_of(kPkeyVariable); !text.empty()) {
    auto pkeys = ParsePkeys(text);
    if (!pkeys.ok()) return Wrong(kPkeyVariable, text, pkeys.error());
    config.pkeys = std::move(pkeys).value();
  }
  if (const std::string text = value_of(kUplinkVariable); !text.empty()) {
    const auto uplink = UplinkChoice::Parse(text);
    if (!uplink.ok()) return Wrong(kUplinkVariable, text, uplink.error());
    if (config.direct()) {
      return Wrong(kUplinkVariable, text,
                   "it is for a fabric, and a program with --port is on none: choose one of both");
    }
    config.uplink = uplink.value();
  }
  if (const std::string text = value_of(kModeVariable); !text.empty()) {
    const auto mode = ParseMode(text);
    if (!mode) return Wrong(kModeVariable, text, "choose 'auto' or 'dedicated'");
    config.mode = *mode;
  }
  const auto impairments = ParseImpairments(value_of(kImpairVariable));
  if (!impairments.ok()) return Error{std::string(kImpairVariable) + ": " + impairments.error()};
  config.impairments = impairments.value();
  if (const std::string file = value_of(kScenarioVariable); !file.empty()) {
    auto scenario = ReadFaultScenario(file);
    if (!scenario.ok()) return Error{std::string(kScenarioVariable) + ": " + scenario.error()};
    config.scenario = std::move(scenario).value();
  }
  if (const auto error = ReadEngines(value_of(kEnginesVariable), config)) return *error;
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
