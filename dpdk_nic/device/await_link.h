#pragma once

#include <string>

#include "dpdk_nic/port/packet_port.h"

namespace uroce::nic {

// Waits for seconds at the most until a port that was just opened has a link: a NIC that starts
// first negotiates with the other end of its cable, and programs look at a port's state once. Logs
// a warning with `name` if there is no link by then.
void AwaitLink(const std::string& name, PacketPort* port);

}  // namespace uroce::nic
