#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dpdk_nic/base/thread_annotations.h"
#include "transport/qp/queue_pair.h"
#include "verbs_provider/abi/private_abi.h"
#include "verbs_provider/data_path/work_request_builder.h"
#include "verbs_provider/device/device.h"
#include "verbs_provider/objects/completion_queue.h"
#include "verbs_provider/objects/protection_domain.h"
#include "verbs_provider/objects/shared_receive_queue.h"
#include "verbs_provider/objects/xrc_domain.h"

namespace uroce::verbs {

struct Flow;

// The object behind ibv_create_qp, ibv_create_qp_ex and ibv_open_qp. State and attributes are in
// the transport only: each query reads them there, under the engine's lock.
//
// An XRC target may have several of these objects, its handles, and lasts until the last handle is
// destroyed.
struct QueuePair {
  abi::VerbsQp verbs = {};  // first: libibverbs knows the object by it

  Device* device = nullptr;
  nic::Engine* engine = nullptr;          // the engine that it is on
  ProtectionDomain* pd = nullptr;         // null: an XRC target
  XrcDomainHandle* xrc_domain = nullptr;  // of an XRC target
  // The queues that it uses, or null. An XRC target uses none and an XRC initiator only a send_cq,
  // whatever the application has passed and libibverbs shows.
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* receive_cq = nullptr;
  SharedReceiveQueue* srq = nullptr;
  transport::QueuePair* transport = nullptr;    // owned by the endpoint
  std::unique_ptr<WorkRequestBuilder> builder;  // for ibv_wr_*, if requested
  // Asynchronous events handed to libibverbs; protected by the engine's lock.
  uint32_t events_posted = 0;
  // The next handle of an XRC target; events go to all. Protected by the engine's lock.
  QueuePair* next_handle = nullptr;

  // Of a raw packet queue pair. Protected by the engine's lock.
  std::vector<std::unique_ptr<Flow>> flows;

  static QueuePair& From(ibv_qp* qp) { return *reinterpret_cast<QueuePair*>(qp); }
  static QueuePair& From(ibv_qp_ex* qp) { return *reinterpret_cast<QueuePair*>(qp); }
};

// Holds the poll locks of a queue pair's completion queues, from which its completions are about to
// be removed. Not analysed: the two may be one.
class PollLocks {
 public:
  explicit PollLocks(const QueuePair& qp) UROCE_NO_THREAD_SAFETY_ANALYSIS;
  ~PollLocks() UROCE_NO_THREAD_SAFETY_ANALYSIS;
  PollLocks(const PollLocks&) = delete;
  PollLocks& operator=(const PollLocks&) = delete;

 private:
  CompletionQueue* first_;
  CompletionQueue* second_;  // null if it is the first
};

// Ends the queue pair in the transport and removes its completions from their queues. False: an XRC
// target that has other handles, and goes on.
bool RemoveFromTransport(QueuePair& qp);

// EOPNOTSUPP: a raw packet queue pair, on a port that carries no Ethernet. EINVAL: capabilities
// above the device's limits, objects of another context. ENOMEM: no QPN left.
ibv_qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* attr);
ibv_qp* CreateQpEx(ibv_context* context, ibv_qp_init_attr_ex* attr);
// Another handle of an XRC target. EINVAL: the domain has no target of this number.
ibv_qp* OpenQp(ibv_context* context, ibv_qp_open_attr* attr);
// EBUSY while the queue pair is attached to a multicast group or has flows. Waits until every
// asynchronous event was acknowledged.
int DestroyQp(ibv_qp* qp);

// EINVAL, and nothing has changed: a transition that does not exist, attributes that are missing or
// not allowed in it (IBA 11.2.5.2), values that the device or the port does not have. ETIMEDOUT:
// the address of the path's other end cannot be resolved.
int ModifyQp(ibv_qp* qp, ibv_qp_attr* attr, int mask);
int ModifyQpRateLimit(ibv_qp* verbs, ibv_qp_rate_limit_attr* attr);
int QueryQp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init_attr);

}  // namespace uroce::verbs
