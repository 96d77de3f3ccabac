#pragma once

#include <memory>
#include <string>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/port/dpdk/dpdk_library.h"
#include "dpdk_nic/port/packet_port.h"

namespace uroce::nic {

struct DpdkPortParts {
  std::unique_ptr<PacketPort> port;
  std::unique_ptr<LinkLayer> link_layer;  // after the port: is destroyed first
};

// Opens a DPDK port through the library that carries DPDK, which is loaded at the first call and
// stays for ever, as DPDK leaves threads behind. `library`: the value of UROCE_DPDK_LIBRARY.
ErrorOr<DpdkPortParts> OpenDpdkPort(const std::string& library, const OpenDpdkPortRequest& request);

}  // namespace uroce::nic
