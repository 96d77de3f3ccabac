#include "tools/cli/wire_check.h"

#include "dpdk_nic/device/open_port.h"
#include "dpdk_nic/port/devargs.h"

namespace uroce::cli {
namespace {

// A memif server would take a client that comes and goes for the program itself, and lose frames
// until it notices that the client is gone. Apart from its devargs nothing can be wrong with a
// client: it waits for its server.
bool IsMemifClient(const nic::Devargs& devargs) {
  const std::string* role = devargs.Find("role");
  return devargs.driver() == nic::Devargs::Driver::kMemif && role != nullptr && *role == "client";
}

}  // namespace

std::optional<std::string> WhyPortCannotBeOpened(const nic::DeviceConfig& config,
                                                 const std::filesystem::path& dpdk_library) {
  const auto devargs = nic::Devargs::Parse(config.port_devargs);
  if (!devargs.ok()) return devargs.error();
  if (IsMemifClient(devargs.value())) return std::nullopt;

  const auto opened = nic::OpenPort({.devargs = config.port_devargs,
                                     .dpdk_library = dpdk_library,
                                     .mtu_bytes = config.mtu_bytes,
                                     .addresses = {{.ip = config.ip}},
                                     .are_addresses_chosen = config.is_ip_chosen});
  if (!opened.ok()) return opened.error();
  return std::nullopt;
}

}  // namespace uroce::cli
