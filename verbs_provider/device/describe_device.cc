#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "dpdk_nic/base/log.h"
#include "dpdk_nic/device/device_config.h"
#include "transport/endpoint_config.h"
#include "transport/qp_attributes.h"
#include "verbs_provider/abi/provider_registration.h"
#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/base/identity.h"
#include "verbs_provider/device/device.h"
#include "verbs_provider/rdma_cm/routes.h"
#include "verbs_provider/virtual_kernel/device/device_description.h"

namespace uroce::verbs {
namespace {

// The part of the description that is about the port.
struct Port {
  transport::MacAddress mac;
  std::vector<transport::Gid> gids;
  std::vector<uint16_t> pkeys;
  ibv_mtu active_mtu;
  ibv_port_state state;
};

void SetPort(const nic::DeviceConfig& config, const nic::DeviceDescription& device, Port& out) {
  transport::EndpointConfig endpoint;
  endpoint.port_mtu = device.mtu_bytes;
  out = {device.mac, device.gids, config.pkeys, static_cast<ibv_mtu>(endpoint.active_mtu()),
         device.is_active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN};
}

// Asks uroced and opens nothing: a program that only lists its devices does not join the fabric.
int PortOfFabric(const nic::DeviceConfig& config, Port& out) {
  const auto device = nic::Device::Describe(config);
  if (!device.ok()) {
    nic::Log(nic::LogLevel::kError, device.error());
    return ENODEV;
  }
  SetPort(config, device.value(), out);
  return 0;
}

void SetPort(Device& device, Port& out) {
  out = {device.mac(), device.gids(), device.pkeys(), device.active_mtu(), device.port_state()};
}

// While no program has the port open, only the port knows its MAC address and its MTU. It stays
// open: a program that lists its devices is about to open one, and a port is slow to open.
int PortOfDirectMode(Port& out) {
  int error = 0;
  static std::shared_ptr<Device>& kept_open = *new std::shared_ptr<Device>;
  kept_open = Device::Open(&error);
  if (kept_open == nullptr) return error;
  SetPort(*kept_open, out);
  return 0;
}

int FindPort(Port& out) {
  if (const auto open = Device::FindOpen()) {
    SetPort(*open, out);
    return 0;
  }
  const auto& config = Configuration();
  if (!config.ok()) {
    nic::Log(nic::LogLevel::kError, config.error());
    return EINVAL;
  }
  if (!config.value().direct()) return PortOfFabric(config.value(), out);
  // Children of the program that has the port, for example.
  if (const auto device = nic::Device::DescribeOpenPort(config.value())) {
    SetPort(config.value(), *device, out);
    return 0;
  }
  // A program that cannot use the port must not take it from a program that does.
  return abi::ProviderIsRegistered() ? PortOfDirectMode(out) : EAGAIN;
}

template <size_t bytes>
void CopyText(const char* text, char (&out)[bytes]) {
  std::snprintf(out, bytes, "%s", text);
}

// Each GID gets the network interface that has its address. A GID of no interface, like the
// link-local GID of the device's own MAC address, gets the interface of the first GID that has one.
void NameInterfaces(const std::vector<transport::Gid>& gids, uroce_device_description& out) {
  const auto interfaces = rdma_cm::HostInterfaces();
  const auto behind_port = std::find_if(gids.begin(), gids.end(), [&](const transport::Gid& gid) {
    return interfaces.count(gid) != 0;
  });
  if (behind_port == gids.end()) return;
  for (size_t i = 0; i < gids.size(); ++i) {
    if (gids[i].IsZero()) continue;
    const auto own = interfaces.find(gids[i]);
    const std::string& name = own != interfaces.end() ? own->second : interfaces.at(*behind_port);
    out.gids[i].netdev_ifindex = if_nametoindex(name.c_str());
    CopyText(name.c_str(), out.gids[i].netdev_name);
  }
}

int Describe(uroce_device_description& out) {
  Port port = {};
  if (const int error = FindPort(port)) return error;
  out.node_guid = NodeGuid(port.mac);
  out.sys_image_guid = out.node_guid;
  std::copy(port.mac.begin(), port.mac.end(), out.mac);
  out.vendor_id = kVendorId;
  out.vendor_part_id = kVendorPartId;
  CopyText(kFirmwareVersion, out.fw_version);
  CopyText(kNodeDescription, out.node_description);

  out.port_state = static_cast<uint8_t>(port.state);
  out.port_phys_state = PhysicalState(port.state);
  out.rate_mbps = kRateMbps;
  out.max_mtu_bytes = transport::Bytes(transport::Mtu::k4096);
  out.active_mtu_bytes = transport::Bytes(static_cast<transport::Mtu>(port.active_mtu));
  out.port_cap_flags = kPortCapabilities;

  out.gid_count = kGidTableLength;
  for (size_t i = 0; i < port.gids.size(); ++i) {
    std::memcpy(out.gids[i].raw, port.gids[i].bytes.data(), sizeof out.gids[i].raw);
  }
  NameInterfaces(port.gids, out);
  static_assert(kUroceMaxPkeys == transport::kMaxPkeys);
  out.pkey_count = static_cast<uint32_t>(port.pkeys.size());
  std::copy(port.pkeys.begin(), port.pkeys.end(), out.pkeys);
  return 0;
}

}  // namespace
}  // namespace uroce::verbs

__attribute__((visibility("default"))) int uroce_describe_device(
    uroce_device_description* description) {
  // Both libraries must come from one build.
  if (description->struct_bytes != sizeof *description) return EPROTO;
  return uroce::verbs::ReturningErrno([&] { return uroce::verbs::Describe(*description); });
}
