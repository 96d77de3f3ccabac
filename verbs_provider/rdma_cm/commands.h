#pragma once

#include <cstdint>

#include "verbs_provider/rdma_cm/agent.h"

namespace uroce::verbs::rdma_cm {

// One write() to /dev/infiniband/rdma_cm (ucma_write of Linux; <rdma/rdma_user_cm.h>): `bytes`
// bytes at `address` of the application's memory, a header and a command. Answers are written to
// where the command says. Returns 0 when all of it was taken, or an errno value:
//
//   EINVAL  shorter than its header says, or than the command is; no such command
//   ENOSYS  a command that the kernel has no more
//   ENOSPC  no room for the answer
//   EFAULT  memory that is not there
//   EAGAIN  GET_EVENT: there is no event
//
// `other` is the channel that MIGRATE_ID names; nullptr: its descriptor is not open.
int RunCommand(Agent& agent, Channel& channel, const Channel* other, uint64_t address,
               size_t bytes);

}  // namespace uroce::verbs::rdma_cm
