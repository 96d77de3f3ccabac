#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/device/uplink_choice.h"
#include "dpdk_nic/engine/progress_mode.h"
#include "dpdk_nic/port/faults/fault_scenario.h"
#include "dpdk_nic/port/faults/impairments.h"
#include "transport/congestion/congestion.h"
#include "transport/ids.h"
#include "transport/pkey.h"

namespace uroce::nic {

// The environment variables that `uroce run` sets and that a process with a device reads.
inline constexpr char kFabricVariable[] = "UROCE_FABRIC";
inline constexpr char kIpVariable[] = "UROCE_IP";
inline constexpr char kMtuVariable[] = "UROCE_MTU";
inline constexpr char kPkeyVariable[] = "UROCE_PKEY";
inline constexpr char kPortVariable[] = "UROCE_PORT";
inline constexpr char kUplinkVariable[] = "UROCE_UPLINK";
inline constexpr char kModeVariable[] = "UROCE_MODE";
inline constexpr char kEnginesVariable[] = "UROCE_ENGINES";
inline constexpr char kCongestionVariable[] = "UROCE_CONGESTION";
inline constexpr char kCaptureVariable[] = "UROCE_CAPTURE";
inline constexpr char kImpairVariable[] = "UROCE_IMPAIR";
inline constexpr char kScenarioVariable[] = "UROCE_SCENARIO";
inline constexpr char kDpdkLibraryVariable[] = "UROCE_DPDK_LIBRARY";

// Far more than one program has threads that each keep a processor busy with messages.
inline constexpr uint32_t kMaxEngines = 64;

// The configuration of a process's device: everything that its user can choose.
struct DeviceConfig {
  // The fabric to attach to (IsFabricName). Unused in direct mode.
  std::string fabric = "default";
  // Direct mode: the DPDK port to open. Empty: the fabric.
  std::string port_devargs;
  // The uplink that the fabric gets if this process is the first on it. Not in direct mode.
  UplinkChoice uplink;
  // The library that carries DPDK; needed in direct mode only.
  std::string dpdk_library;
  // The address of the device, an IPv6 address or a mapped IPv4 one. In a fabric with a NIC the
  // device has the NIC's addresses; a chosen one has to be among them.
  transport::Gid ip = transport::Gid::FromIpv4({127, 0, 0, 1});
  bool is_ip_chosen = false;
  // Largest IP packet in bytes; 0: the fabric's, or the port's own in direct mode.
  uint32_t mtu_bytes = 0;
  // The P_Key table (ParsePkeys).
  std::vector<uint16_t> pkeys{transport::kDefaultPkey};
  ProgressMode mode = ProgressMode::kAuto;
  transport::Congestion congestion = transport::Congestion::kModel;
  // How many engines may share the connections (EngineGroup).
  uint32_t engines = 1;
  // The pcapng file that gets every frame; empty: none. "%p" in it becomes the process id.
  std::string capture_file;
  Impairments impairments;
  // The content of the file that UROCE_SCENARIO names.
  FaultScenario scenario;

  bool direct() const { return !port_devargs.empty(); }

  // Reads UROCE_*; a variable that is missing or empty means the default. `lookup` returns the
  // value of a variable or nullptr, as getenv() does.
  using Lookup = std::function<const char*(const char* variable)>;
  static ErrorOr<DeviceConfig> FromEnvironment(const Lookup& lookup);
  static ErrorOr<DeviceConfig> FromEnvironment();
};

// One choice of the user: an option of `uroce run`, and the variable that carries it into a
// program.
struct DeviceOption {
  const char* name;  // without the dashes
  const char* variable;
  const char* argument;  // as --help shows it
  const char* help;
  bool is_file = false;  // named relative to the folder of `uroce run`
  // Reads a value that is not empty. The sentence about a wrong one begins with the variable.
  std::optional<Error> (*read)(const DeviceOption& option, const std::string& value,
                               DeviceConfig& config);
};

// All options, in the order in which they are read.
std::span<const DeviceOption> DeviceOptions();

// The IPv4 or IPv6 address of one host; nullopt if the text is anything else.
std::optional<transport::Gid> ParseHostAddress(const std::string& text);

// The MAC address of a device on a wire without MAC addresses of its own: derived from the IP
// address, so that the other side can compute it from the GID (MacAddressFor).
transport::MacAddress DeviceMac(const DeviceConfig& config);

// The GID table of a port: the link-local GID of its MAC, then the IP address unless it is the
// same.
std::vector<transport::Gid> GidTable(const transport::MacAddress& mac, const transport::Gid& ip);

}  // namespace uroce::nic
