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

// RDMA_VERBS_IOCTL: the requests that libibverbs makes without the provider, for completion
// channels, GIDs, and the asynchronous events of an imported device. `request` and the pointers in
// it are the application's, and may be wrong.
// Returns 0 or a positive errno; EPROTONOSUPPORT for methods that we do not have, as the kernel
// does for methods that a driver does not have.
int UverbsIoctl(const ib_uverbs_ioctl_hdr* request, const uroce_device_description& device);

}  // namespace uroce::verbs::virtual_kernel
