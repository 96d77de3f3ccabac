#pragma once

#include <rdma/rdma_user_ioctl_cmds.h>

#include "verbs_provider/virtual_kernel/base/fd_table.h"
#include "verbs_provider/virtual_kernel/device/device_description.h"

namespace uroce::verbs::virtual_kernel {

// An open /dev/infiniband/uverbsN. The descriptor below is an eventfd: it exists, and that is all
// libibverbs needs of it, since everything is done with ioctl.
class UverbsFile : public OpenFile {
 public:
  UverbsFile() : OpenFile(FileKind::kUverbs) {}
};

// RDMA_VERBS_IOCTL. What libibverbs does by itself, without asking the provider: completion
// channels and GID queries. Returns 0 or a positive errno; EPROTONOSUPPORT for methods that we do
// not have, as the kernel says for those that a driver does not have.
int UverbsIoctl(ib_uverbs_ioctl_hdr* request, const uroce_device_description& device);

}  // namespace uroce::verbs::virtual_kernel
