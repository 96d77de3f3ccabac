#pragma once

#include "verbs_provider/virtual_kernel/device/device_description.h"
#include "verbs_provider/virtual_kernel/device/virtual_tree.h"

namespace uroce::verbs::virtual_kernel {

// The device that the RDMA device is a function of; the kernel has no such path.
inline constexpr char kBusPath[] = "/sys/devices/uroce0";

// The files that the kernel would show of the device: below kBusPath, with symbolic links in
// /sys/class/infiniband and /sys/class/infiniband_verbs, and in /dev/infiniband; names and formats
// as in the kernel's Documentation/ABI/stable/sysfs-class-infiniband. `has_rdma_cm`: adds the
// connection manager's device. `counter_file` names the files of counters; null: there are none.
VirtualTree MakeDeviceTree(const uroce_device_description& description, bool has_rdma_cm,
                           decltype(&uroce_counter_file) counter_file = nullptr);

}  // namespace uroce::verbs::virtual_kernel
