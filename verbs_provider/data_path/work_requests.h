#pragma once

#include <infiniband/verbs.h>

#include "transport/work_request.h"

namespace uroce::verbs {

struct QueuePair;

// The data path. A chain of work requests is posted under one lock; at the first that cannot be
// posted it ends, *bad_wr points there and those before it are on their way. EINVAL: the state of
// the queue pair, the opcode, a flag or a length does not permit it; ENOMEM: the queue is full.
int PostSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int PostRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);

// Completes `request`, whose opcode is set already, with what `flags` (ibv_send_flags) says. EINVAL
// for flags that we do not have.
int ApplySendFlags(unsigned int flags, transport::SendWorkRequest& request);

// Addresses the datagram `request`; the handle is read when the request is posted. EINVAL: no
// handle, a handle of another protection domain, a queue pair number of more than 24 bits.
int SetDestination(const QueuePair& qp, ibv_ah* ah, uint32_t remote_qpn, uint32_t remote_qkey,
                   transport::SendWorkRequest& request);

// Of the 32 bits that programs have for it, as NICs do.
inline transport::Srqn ToSrqn(uint32_t remote_srqn) { return {remote_srqn & transport::kMaxQpn}; }

// Makes `request` bind `window` as `info` says, and give it the lower 8 bits of `new_rkey`. EINVAL:
// a range without a region. Whether the region, the window and the queue pair are of one protection
// domain is found out when the request is carried out; access flags that windows do not have are
// ignored.
int SetBinding(const ibv_mw* window, uint32_t new_rkey, const ibv_mw_bind_info& info,
               transport::SendWorkRequest& request);

}  // namespace uroce::verbs
