#pragma once

#include <string>

#include "dpdk_nic/port/packet_port.h"

namespace uroce::nic {

// Waits until a port that was just opened has a link, for seconds at the most: a NIC that starts
// first comes to terms with the other end of its cable, and programs look at a port's state once.
// Logs a sentence with `name` if there is no link then.
void AwaitLink(const std::string& name, PacketPort* port);

}  // namespace uroce::nic
