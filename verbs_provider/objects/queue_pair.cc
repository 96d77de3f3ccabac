#include "verbs_provider/objects/queue_pair.h"

#include <sched.h>

#include <cerrno>
#include <functional>
#include <optional>
#include <utility>

#include "dpdk_nic/base/clock.h"
#include "transport/endpoint.h"
#include "verbs_provider/abi/events.h"
#include "verbs_provider/abi/provider_registration.h"
#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/base/translate.h"
#include "verbs_provider/device/context.h"
#include "verbs_provider/objects/async_events.h"

namespace uroce::verbs {
namespace {

// What CreateQp and CreateQpEx have in common, in the order of struct ibv_qp_init_attr.
struct Request {
  ibv_pd* pd;
  void* context;
  ibv_cq* send_cq;
  ibv_cq* receive_cq;
  ibv_srq* srq;
  ibv_qp_cap* capabilities;  // in: wanted; out: granted
  ibv_qp_type type;
  bool signal_all;
};

int Check(const Request& request) {
  switch (RawValue(request.type)) {
    case IBV_QPT_RC:
    case IBV_QPT_UC:
    case IBV_QPT_UD:
      break;
    case IBV_QPT_RAW_PACKET:
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
      return EOPNOTSUPP;
    default:
      return EINVAL;
  }
  if (request.pd == nullptr || request.send_cq == nullptr || request.receive_cq == nullptr) {
    return EINVAL;
  }
  const ibv_context* const context = request.pd->context;
  if (request.send_cq->context != context || request.receive_cq->context != context) return EINVAL;
  return request.srq == nullptr || request.srq->context == context ? 0 : EINVAL;
}

// libibverbs sets none of these.
void FillVerbs(const Request& request, QueuePair& qp) {
  ibv_qp& verbs = qp.verbs.qp;
  verbs.context = request.pd->context;
  verbs.qp_context = request.context;
  verbs.pd = request.pd;
  verbs.send_cq = request.send_cq;
  verbs.recv_cq = request.receive_cq;
  verbs.srq = request.srq;
  verbs.state = IBV_QPS_RESET;
  verbs.qp_type = request.type;
  pthread_mutex_init(&verbs.mutex, nullptr);
  pthread_cond_init(&verbs.cond, nullptr);
}

int CreateInTransport(const Request& request, QueuePair& qp) {
  transport::QpInitAttributes init;
  init.pd = qp.pd->id;
  init.type = static_cast<transport::QpType>(request.type);
  init.send_cq = qp.send_cq().queue.get();
  init.receive_cq = qp.receive_cq().queue.get();
  init.capabilities = ToCapabilities(*request.capabilities);
  if (qp.srq() != nullptr) init.srq = qp.srq()->queue.get();
  init.signal_all = request.signal_all;
  init.context = &qp;
  nic::Engine& engine = qp.device->engine();
  std::optional<transport::QueuePair::Queues> queues;
  auto status = engine.endpoint().CreateQueues(init, queues);
  if (status == transport::Status::kOk) {
    status = engine.WithEndpoint([&](transport::Endpoint& endpoint) {
      return endpoint.CreateQueuePair(init, *std::move(queues), &qp.transport);
    });
  }
  return static_cast<int>(status);
}

int Create(const Request& request, bool extended, ibv_qp*& out) {
  if (const int error = Check(request)) return error;
  ProtectionDomain& pd = ProtectionDomain::From(request.pd);
  if (pd.device->lost_by_fork()) return EIO;

  auto qp = std::make_unique<QueuePair>();
  qp->device = pd.device;
  qp->pd = &pd;
  FillVerbs(request, *qp);
  if (extended) qp->builder = std::make_unique<WorkRequestBuilder>(*qp);
  if (const int error = CreateInTransport(request, *qp)) return error;

  *request.capabilities = FromCapabilities(qp->transport->init_attributes().capabilities);
  qp->verbs.qp.qp_num = qp->transport->qpn().value;
  qp->verbs.qp.handle = qp->verbs.qp.qp_num;
  if (extended) {
    SetBuilderFunctions(qp->verbs.ex);
    abi::MarkExtendedQp(qp->verbs);
  }
  pd.users.Add();
  qp->send_cq().users.Add();
  qp->receive_cq().users.Add();
  if (qp->srq() != nullptr) qp->srq()->users.Add();
  Context::From(request.pd->context).objects().Add(*qp);
  out = &qp.release()->verbs.qp;
  return 0;
}

int CheckExtension(const ibv_qp_init_attr_ex& attr) {
  constexpr uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
                              IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
  if ((attr.comp_mask & ~kKnown) != 0) return EOPNOTSUPP;
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_PD) == 0) return EINVAL;
  const auto has = [&](uint32_t bit) { return (attr.comp_mask & bit) != 0; };
  if (has(IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr.create_flags != 0) return EOPNOTSUPP;
  if (has(IBV_QP_INIT_ATTR_MAX_TSO_HEADER) && attr.max_tso_header != 0) return EOPNOTSUPP;
  if (has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
      (attr.send_ops_flags & ~BuilderOperations(attr.qp_type)) != 0) {
    return EOPNOTSUPP;
  }
  return 0;
}

bool IsAttachedToMulticast(const QueuePair& qp) {
  return qp.device->engine().WithEndpoint(
      [&](transport::Endpoint& endpoint) { return endpoint.IsAttachedToMulticast(*qp.transport); });
}

// An acknowledgement may have to wait until the wire takes frames again, and a program that has
// received what it wanted destroys its queue pairs and ends. Were it lost, the peer would end in
// error. How long a peer may take to make room: some turns of its processor.
constexpr transport::Duration kReplyTimeout = transport::Milliseconds(100);

void FinishReplies(QueuePair& qp) {
  const auto owes_reply = [&] {
    const nic::Engine::Verb verb(qp.device->engine());  // sends as well
    return qp.transport->OwesReply();
  };
  const transport::Time give_up = nic::Now() + kReplyTimeout;
  while (owes_reply() && nic::Now() < give_up) sched_yield();
}

}  // namespace

ibv_qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  return ReturningObject<ibv_qp>([&](ibv_qp*& out) {
    const Request request = {pd,        attr->qp_context, attr->send_cq, attr->recv_cq,
                             attr->srq, &attr->cap,       attr->qp_type, attr->sq_sig_all != 0};
    return Create(request, /*extended=*/false, out);
  });
}

ibv_qp* CreateQpEx(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  return ReturningObject<ibv_qp>([&](ibv_qp*& out) {
    if (const int error = CheckExtension(*attr)) return error;
    if (attr->pd == nullptr || attr->pd->context != context) return EINVAL;
    const Request request = {attr->pd,  attr->qp_context, attr->send_cq, attr->recv_cq,
                             attr->srq, &attr->cap,       attr->qp_type, attr->sq_sig_all != 0};
    const bool extended = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    return Create(request, extended, out);
  });
}

void RemoveFromTransport(QueuePair& qp) {
  const PollLocks locks(qp);
  // What is returned is freed without the lock.
  qp.device->engine().WithEndpoint(
      [&](transport::Endpoint& endpoint) { return endpoint.DestroyQueuePair(qp.transport); });
}

PollLocks::PollLocks(const QueuePair& qp) {
  CompletionQueue* first = &qp.send_cq();
  CompletionQueue* second = &qp.receive_cq();
  if (std::less<>()(second, first)) std::swap(first, second);
  first_ = std::unique_lock(first->poll_lock);
  if (second != first) second_ = std::unique_lock(second->poll_lock);
}

int DestroyQp(ibv_qp* verbs) {
  return ReturningErrno([&] {
    QueuePair& qp = QueuePair::From(verbs);
    if (qp.device->lost_by_fork()) return EIO;
    if (IsAttachedToMulticast(qp)) return EBUSY;  // IBA o10-2.2.3
    Context::From(verbs->context).objects().Remove(qp);
    FinishReplies(qp);
    RemoveFromTransport(qp);
    qp.device->engine().ForgetPath(transport::Qpn{verbs->qp_num});
    qp.events_posted -= abi::PurgeAsyncEvents(verbs->context, reinterpret_cast<uintptr_t>(verbs));
    AwaitAcknowledgements(&verbs->mutex, &verbs->cond, &verbs->events_completed, qp.events_posted);

    qp.send_cq().users.Remove();
    qp.receive_cq().users.Remove();
    if (qp.srq() != nullptr) qp.srq()->users.Remove();
    qp.pd->users.Remove();
    pthread_cond_destroy(&verbs->cond);
    pthread_mutex_destroy(&verbs->mutex);
    delete &qp;
    return 0;
  });
}

}  // namespace uroce::verbs
