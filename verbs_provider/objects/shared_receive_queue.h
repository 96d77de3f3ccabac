#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "transport/qp/shared_receive_queue.h"
#include "verbs_provider/base/use_count.h"
#include "verbs_provider/device/device.h"
#include "verbs_provider/objects/completion_queue.h"
#include "verbs_provider/objects/protection_domain.h"
#include "verbs_provider/objects/xrc_domain.h"

namespace uroce::verbs {

// The object behind ibv_create_srq and ibv_create_srq_ex.
struct SharedReceiveQueue {
  ibv_srq verbs = {};  // first: libibverbs knows the object by it

  Device* device = nullptr;
  ProtectionDomain* pd = nullptr;
  // Null unless the queue is of XRC.
  XrcDomainHandle* xrc_domain = nullptr;
  CompletionQueue* completion_queue = nullptr;
  std::unique_ptr<transport::SharedReceiveQueue> queue;
  UseCount users;  // queue pairs that were created with it
  // Asynchronous events handed to libibverbs; protected by the engine's lock.
  uint32_t events_posted = 0;

  static SharedReceiveQueue& From(ibv_srq* srq) {
    return *reinterpret_cast<SharedReceiveQueue*>(srq);
  }
};

// Ends the queue in the transport: no event comes from it afterwards.
void RemoveFromTransport(SharedReceiveQueue& srq);

// EINVAL: no or too many work requests, too many SGEs. ENOMEM: the device has no more queues.
// Writes what was granted to `attr`.
ibv_srq* CreateSrq(ibv_pd* pd, ibv_srq_init_attr* attr);
// Also EOPNOTSUPP for a type other than IBV_SRQT_BASIC and IBV_SRQT_XRC, and EINVAL for a queue of
// XRC without a domain or a completion queue.
ibv_srq* CreateSrqEx(ibv_context* context, ibv_srq_init_attr_ex* attr);
// EBUSY while queue pairs use the queue. Waits until every event was acknowledged.
int DestroySrq(ibv_srq* srq);

// EINVAL, and nothing has changed: a limit above the size, or a size too small for the requests
// that are posted.
int ModifySrq(ibv_srq* srq, ibv_srq_attr* attr, int mask);
// srq_limit is 0 once the event has been raised.
int QuerySrq(ibv_srq* srq, ibv_srq_attr* attr);

// The number by which XRC's requests name the queue. EINVAL: the queue is not of XRC.
int GetSrqNum(ibv_srq* srq, uint32_t* srq_num);

// As ibv_post_recv.
int PostSrqRecv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);

}  // namespace uroce::verbs
