#pragma once

#include "dpdk_nic/base/unique_fd.h"

namespace uroce::nic {

// A file with the program that hands RoCEv2 frames to an AF_XDP socket (roce_filter.c), for DPDK's
// driver to load. The file is in memory and goes with the descriptor, which is invalid if there is
// no memory. Once attached to an interface, the program stays there until the device is closed or
// the process ends, however it ends.
UniqueFd XdpProgramFile();

// Frees the memory that a closed device shared with the kernel through its AF_XDP socket, and with
// it the socket: the driver of DPDK 22.11 forgets both.
void FreeLeakedXdpMemory(int socket);

}  // namespace uroce::nic
