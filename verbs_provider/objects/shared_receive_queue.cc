#include "verbs_provider/objects/shared_receive_queue.h"

#include <cerrno>
#include <utility>

#include "transport/endpoint.h"
#include "transport/limits.h"
#include "verbs_provider/abi/events.h"
#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/data_path/work_request_chain.h"
#include "verbs_provider/device/context.h"
#include "verbs_provider/objects/async_events.h"
#include "verbs_provider/objects/destroy.h"

namespace uroce::verbs {
namespace {

// The objects that only a queue of XRC has.
struct XrcPart {
  XrcDomainHandle* domain = nullptr;
  CompletionQueue* completion_queue = nullptr;
};

// The checks of ib_uverbs_create_xsrq.
int ToXrcPart(const ibv_context* context, const ibv_srq_init_attr_ex& attr, XrcPart& xrc) {
  constexpr uint32_t kNeeded = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  if ((attr.comp_mask & kNeeded) != kNeeded) return EINVAL;
  if (attr.xrcd == nullptr || attr.xrcd->context != context) return EINVAL;
  if (attr.cq == nullptr || attr.cq->context != context) return EINVAL;
  if (const int error = CheckHandle<CompletionQueue>(attr.cq)) return error;
  xrc = {&XrcDomainHandle::From(attr.xrcd), &CompletionQueue::From(attr.cq)};
  return 0;
}

transport::Status Publish(SharedReceiveQueue& srq) {
  return srq.device->engine().WithEndpoint(
      [&](transport::Endpoint& endpoint) { return endpoint.PublishXrcQueue(*srq.queue); });
}

// Ignores `attr.srq_limit` (ibv_create_srq(3)).
int Create(ibv_pd* pd_verbs, void* srq_context, ibv_srq_attr& attr, const XrcPart& xrc,
           ibv_srq*& out) {
  if (const int error = CheckHandle<ProtectionDomain>(pd_verbs)) return error;
  ProtectionDomain& pd = ProtectionDomain::From(pd_verbs);
  if (attr.max_wr == 0 || attr.max_wr > transport::kMaxSrqWorkRequests ||
      attr.max_sge > transport::kMaxSges) {
    return EINVAL;
  }
  PendingQuota quota(pd.device->shared_receive_queues());
  if (!quota.taken()) return ENOMEM;

  auto srq = std::make_unique<SharedReceiveQueue>();
  PendingHandle handle(Context::From(pd_verbs->context).objects(), *srq);
  srq->device = pd.device;
  srq->pd = &pd;
  srq->xrc_domain = xrc.domain;
  srq->completion_queue = xrc.completion_queue;
  transport::SrqInitAttributes init = {.pd = pd.id,
                                       .max_work_requests = attr.max_wr,
                                       .max_sges = attr.max_sge,
                                       .context = srq.get()};
  if (xrc.domain != nullptr) {
    init.xrc_domain = xrc.domain->domain->id;
    init.completion_queue = xrc.completion_queue->queue.get();
    pd.device->engine_choice().ForOther({&xrc.completion_queue, 1});
  }
  srq->queue = pd.device->engine().endpoint().CreateSharedReceiveQueue(init);
  if (xrc.domain != nullptr && Publish(*srq) != transport::Status::kOk) return ENOMEM;
  attr.max_wr = srq->queue->capacity();
  attr.max_sge = srq->queue->max_sges();
  // libibverbs sets these too, but not for ibv_create_srq_ex.
  srq->verbs.context = pd_verbs->context;
  srq->verbs.srq_context = srq_context;
  srq->verbs.pd = pd_verbs;
  pthread_mutex_init(&srq->verbs.mutex, nullptr);
  pthread_cond_init(&srq->verbs.cond, nullptr);
  pd.users.Add();
  if (xrc.domain != nullptr) {
    xrc.domain->users.Add();
    xrc.completion_queue->users.Add();
  }
  srq->verbs.handle = handle.Keep();
  quota.Keep();
  out = &srq.release()->verbs;
  return 0;
}

}  // namespace

ibv_srq* CreateSrq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  return ReturningObject<ibv_srq>(
      [&](ibv_srq*& out) { return Create(pd, attr->srq_context, attr->attr, {}, out); });
}

ibv_srq* CreateSrqEx(ibv_context* context, ibv_srq_init_attr_ex* attr) {
  return ReturningObject<ibv_srq>([&](ibv_srq*& out) {
    constexpr uint32_t kKnown = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                                IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    const bool has_type = (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0;
    const uint32_t type = has_type ? RawValue(attr->srq_type) : uint32_t{IBV_SRQT_BASIC};
    if (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC) return EOPNOTSUPP;
    if ((attr->comp_mask & ~kKnown) != 0) return EOPNOTSUPP;
    if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr->pd == nullptr) return EINVAL;
    if (attr->pd->context != context) return EINVAL;
    XrcPart xrc;
    if (type == IBV_SRQT_XRC) {
      if (const int error = ToXrcPart(context, *attr, xrc)) return error;
    }
    return Create(attr->pd, attr->srq_context, attr->attr, xrc, out);
  });
}

void RemoveFromTransport(SharedReceiveQueue& srq) {
  // The returned queue is freed without the lock.
  srq.device->engine().WithEndpoint([&](transport::Endpoint& endpoint) {
    return endpoint.DestroySharedReceiveQueue(std::move(srq.queue));
  });
  srq.device->shared_receive_queues().Return();
}

int DestroySrq(ibv_srq* verbs) {
  return DestroyUnused<SharedReceiveQueue>(verbs, [&](SharedReceiveQueue& srq) {
    RemoveFromTransport(srq);
    srq.events_posted -= abi::PurgeAsyncEvents(verbs->context, reinterpret_cast<uintptr_t>(verbs));
    AwaitAcknowledgements(&verbs->mutex, &verbs->cond, &verbs->events_completed, srq.events_posted);
    srq.pd->users.Remove();
    if (srq.xrc_domain != nullptr) {
      srq.xrc_domain->users.Remove();
      srq.completion_queue->users.Remove();
    }
    pthread_cond_destroy(&verbs->cond);
    pthread_mutex_destroy(&verbs->mutex);
  });
}

int ModifySrq(ibv_srq* verbs, ibv_srq_attr* attr, int mask) {
  return ReturningErrno([&] {
    if (const int error = CheckHandle<SharedReceiveQueue>(verbs)) return error;
    SharedReceiveQueue& srq = SharedReceiveQueue::From(verbs);
    if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0) return EINVAL;
    const bool resizes = (mask & IBV_SRQ_MAX_WR) != 0;
    if (resizes && (attr->max_wr == 0 || attr->max_wr > transport::kMaxSrqWorkRequests)) {
      return EINVAL;
    }
    transport::ReceiveQueue room(resizes ? attr->max_wr : 0, srq.queue->max_sges());
    const nic::Engine::Verb verb(srq.device->engine());
    transport::SharedReceiveQueue& queue = *srq.queue;
    const uint32_t old_limit = queue.limit();
    const uint32_t limit = (mask & IBV_SRQ_LIMIT) != 0 ? attr->srq_limit : old_limit;
    if (!resizes) return static_cast<int>(queue.SetLimit(limit));
    if (limit > attr->max_wr) return EINVAL;
    (void)queue.SetLimit(0);  // the old limit does not restrict the new size
    const transport::Status resized = queue.Resize(room);
    (void)queue.SetLimit(resized == transport::Status::kOk ? limit : old_limit);
    return static_cast<int>(resized);
  });
}

int QuerySrq(ibv_srq* verbs, ibv_srq_attr* attr) {
  return ReturningErrno([&] {
    if (const int error = CheckHandle<SharedReceiveQueue>(verbs)) return error;
    const SharedReceiveQueue& srq = SharedReceiveQueue::From(verbs);
    const nic::Engine::Verb verb(srq.device->engine());
    *attr = {.max_wr = srq.queue->capacity(),
             .max_sge = srq.queue->max_sges(),
             .srq_limit = srq.queue->limit()};
    return 0;
  });
}

int GetSrqNum(ibv_srq* verbs, uint32_t* srq_num) {
  return SettingErrno([&] {
    const SharedReceiveQueue& srq = SharedReceiveQueue::From(verbs);
    if (srq.xrc_domain == nullptr) return EINVAL;
    *srq_num = srq.queue->srqn().value;
    return 0;
  });
}

int PostSrqRecv(ibv_srq* verbs, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  const SharedReceiveQueue& srq = SharedReceiveQueue::From(verbs);
  return PostReceiveChain(*srq.device, srq.device->engine(), *srq.queue, wr, bad_wr,
                          &transport::SharedReceiveQueue::Post);
}

}  // namespace uroce::verbs
