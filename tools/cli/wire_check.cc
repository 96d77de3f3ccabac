#include "tools/cli/wire_check.h"

#include "dpdk_nic/device/open_dpdk_port.h"
#include "dpdk_nic/port/dpdk/devargs.h"

namespace uroce::cli {
namespace {

// A client that comes and goes would be taken for the program itself by its server, which then
// loses the frames it sends until it has noticed. Apart from its devargs nothing can be wrong with
// it: it waits for its server.
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

  nic::OpenDpdkPortRequest request;
  request.devargs = config.port_devargs.c_str();
  request.mtu_bytes = config.mtu_bytes;
  request.addresses[0] = {.ip = config.ip};
  request.address_count = 1;
  request.mac = nic::DeviceMac(config);
  const auto opened = nic::OpenDpdkPort(dpdk_library, request);
  if (!opened.ok()) return opened.error();
  return std::nullopt;
}

}  // namespace uroce::cli
