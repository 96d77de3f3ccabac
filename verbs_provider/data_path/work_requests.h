#pragma once

#include <infiniband/verbs.h>

#include "transport/work_request.h"

namespace uroce::verbs {

struct QueuePair;

// The data path. Posts a chain of work requests under one lock. The first that cannot be posted
// ends the chain: *bad_wr points to it, and those before it are posted. EINVAL: not permitted by
// the queue pair's state, the opcode, a flag or a length; ENOMEM: the queue is full.
int PostSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int PostRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);

// Sets what `flags` (ibv_send_flags) say in `request`, whose opcode is set already. EINVAL for
// unknown flags.
int ApplySendFlags(unsigned int flags, transport::SendWorkRequest& request);

// Addresses the datagram `request`; the handle is read when the request is posted. Of the queue
// pair number 24 bits count, as on NICs. EINVAL: no handle.
int SetDestination(const QueuePair& qp, ibv_ah* ah, uint32_t remote_qpn, uint32_t remote_qkey,
                   transport::SendWorkRequest& request);

// Keeps 24 of the 32 bits that programs have for it, as NICs do.
inline transport::Srqn ToSrqn(uint32_t remote_srqn) { return {remote_srqn & transport::kMaxQpn}; }

// Makes `request` bind `window` as `info` says, and give it the lower 8 bits of `new_rkey`. EINVAL:
// a range without a region, or IBV_ACCESS_FLUSH_PERSISTENT. Whether the region, the window and the
// queue pair are of one protection domain is checked when the request is executed; access flags
// that windows do not have are ignored.
int SetBinding(const ibv_mw* window, uint32_t new_rkey, const ibv_mw_bind_info& info,
               transport::SendWorkRequest& request);

// The key of `window` once `request`, which binds it, was carried out. It replaces window.rkey as
// soon as the request is posted (as in irdma's provider), so that programs can hand out the key.
uint32_t BoundKey(const ibv_mw& window, const transport::SendWorkRequest& request);

}  // namespace uroce::verbs
