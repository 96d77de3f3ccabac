#pragma once

#include <cstdint>

#include "verbs_provider/rdma_cm/agent.h"

namespace uroce::verbs::rdma_cm {

// Runs one write() to /dev/infiniband/rdma_cm (ucma_write of Linux; <rdma/rdma_user_cm.h>): `bytes`
// bytes at `address` of the application's memory, a header and a command. The answer is written to
// the address in the command. Returns 0 when all bytes were taken, or an errno value:
//
//   EINVAL  a write shorter than its header says, or than the command; an unknown command
//   ENOSYS  a command that the kernel no longer has
//   ENOSPC  no room for the answer
//   EFAULT  memory that is not mapped
//   EAGAIN  GET_EVENT: there is no event
//
// `other` is the channel that MIGRATE_ID names; nullptr: its descriptor is not open.
int RunCommand(Agent& agent, Channel& channel, const Channel* other, uint64_t address,
               size_t bytes);

}  // namespace uroce::verbs::rdma_cm
