#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/device/uplink_choice.h"
#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/link_layer/local_address.h"
#include "dpdk_nic/port/packet_port.h"
#include "dpdk_nic/port/socket_sharing.h"
#include "transport/ids.h"

namespace uroce::nic {

// The port to the network that a process in direct mode or uroced asks for.
struct PortRequest {
  std::string devargs;                  // as Devargs reads them
  std::string dpdk_library;             // the value of UROCE_DPDK_LIBRARY; not needed for UDP
  uint32_t mtu_bytes = 0;               // of IP packets; 0: the port's own
  std::vector<LocalAddress> addresses;  // at least one, unless the port is a UDP port
  // Whether the user chose the addresses. Otherwise a UDP port has those of the host.
  bool are_addresses_chosen = true;
};

struct OpenedPort {
  std::unique_ptr<PacketPort> port;
  std::unique_ptr<LinkLayer> link_layer;  // after the port: is destroyed first
  std::vector<transport::Gid> gids;       // the GID table of the port, a link-local one first
  SocketSharing* sharing = nullptr;       // of the port, if it is one that shares its sockets
};

ErrorOr<OpenedPort> OpenPort(const PortRequest& request);

// Opens the uplink of a fabric without a port of its own. The result has no port if the user chose
// none, or chose nothing and the host has no network. `shares_sockets`: all processes are of one
// user, and get sockets of their own.
ErrorOr<OpenedPort> OpenUplink(const UplinkChoice& choice, uint32_t mtu_bytes, bool shares_sockets);

}  // namespace uroce::nic
