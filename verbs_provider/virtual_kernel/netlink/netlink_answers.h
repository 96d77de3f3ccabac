#pragma once

#include <linux/netlink.h>

#include <cstddef>
#include <span>
#include <vector>

#include "verbs_provider/virtual_kernel/device/device_description.h"
#include "verbs_provider/virtual_kernel/netlink/netlink_message.h"

namespace uroce::verbs::virtual_kernel {

// How one NETLINK_RDMA request is answered.
struct NetlinkAnswer {
  // Ask the real kernel too; its answer, without the end of a dump, comes before ours.
  bool forward = false;
  // Messages to the application, each a datagram.
  std::vector<NetlinkBytes> messages;
};

// Decides on a request. Pure. `kernel_present`: whether there is a real kernel to forward to;
// without one the answer is what a kernel with this one device would say. `has_rdma_cm`: whether
// the device has a connection manager, which then hides that of the real kernel.
NetlinkAnswer AnswerNetlink(const nlmsghdr& header, std::span<const std::byte> payload,
                            const uroce_device_description& device, bool kernel_present,
                            bool has_rdma_cm);

}  // namespace uroce::verbs::virtual_kernel
