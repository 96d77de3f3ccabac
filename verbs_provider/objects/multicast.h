#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace uroce::verbs {

// Makes the queue pair receive the datagrams that are sent to the group. The LID is InfiniBand's
// and is ignored. EINVAL: not a multicast GID, not a UD queue pair. ENOMEM: no more groups, or no
// more queue pairs of one group. ENOSPC: the port is in too many groups.
int AttachMcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid);
// Also EINVAL if the queue pair is not attached to the group.
int DetachMcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid);

}  // namespace uroce::verbs
