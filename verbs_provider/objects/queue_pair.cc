#include "verbs_provider/objects/queue_pair.h"

#include <sched.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/base/log.h"
#include "transport/endpoint.h"
#include "transport/limits.h"
#include "verbs_provider/abi/events.h"
#include "verbs_provider/abi/provider_registration.h"
#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/base/translate.h"
#include "verbs_provider/device/context.h"
#include "verbs_provider/objects/async_events.h"
#include "verbs_provider/objects/flow.h"

namespace uroce::verbs {
namespace {

// The arguments that CreateQp and CreateQpEx share, in the order of struct ibv_qp_init_attr.
struct Request {
  ibv_context* verbs_context;
  ibv_pd* pd;
  void* context;
  ibv_cq* send_cq;
  ibv_cq* receive_cq;
  ibv_srq* srq;
  ibv_qp_cap* capabilities;  // in: wanted; out: granted
  ibv_qp_type type;
  bool signal_all;
  ibv_xrcd* xrcd;  // of an XRC target
  bool blocks_own_multicast;
};

// Whether a required object is given and belongs to the context.
template <class Object>
bool IsOf(const ibv_context* context, const Object* object) {
  return object != nullptr && object->context == context;
}

// EINVAL: a required object is missing or of another context. ENOENT, EINVAL: as CheckHandle.
template <class Object, class Verbs>
int CheckObject(const ibv_context* context, Verbs* verbs) {
  return IsOf(context, verbs) ? CheckHandle<Object>(verbs) : EINVAL;
}

// Linux asks for CAP_NET_RAW, because the kernel owns the port there. Here the process owns it: a
// process that could open the port may send what it likes.
bool MayHaveRawPackets(ibv_context* context) {
  return Context::From(context).device().carries_ethernet();
}

int Check(const Request& request) {
  const ibv_context* const context = request.verbs_context;
  switch (RawValue(request.type)) {
    case IBV_QPT_RAW_PACKET:
      if (!MayHaveRawPackets(request.verbs_context)) return EOPNOTSUPP;
      [[fallthrough]];
    case IBV_QPT_RC:
    case IBV_QPT_UC:
    case IBV_QPT_UD:
      if (request.srq != nullptr) {
        if (const int error = CheckObject<SharedReceiveQueue>(context, request.srq)) return error;
      }
      if (const int error = CheckObject<CompletionQueue>(context, request.receive_cq)) return error;
      [[fallthrough]];
    case IBV_QPT_XRC_SEND:
      if (const int error = CheckObject<ProtectionDomain>(context, request.pd)) return error;
      return CheckObject<CompletionQueue>(context, request.send_cq);
    case IBV_QPT_XRC_RECV:
      return IsOf(context, request.xrcd) ? 0 : EINVAL;
    default:
      return EINVAL;
  }
}

// A queue pair cannot be created with a shared receive queue of XRC, which peers name by its
// number.
bool IsPrivateSrq(const Request& request) {
  return request.srq == nullptr || SharedReceiveQueue::From(request.srq).xrc_domain == nullptr;
}

// Drops the objects that the type does not use (ib_create_qp of Linux).
Request Reduced(Request request) {
  if (request.type == IBV_QPT_XRC_RECV) {
    request.pd = nullptr;
    request.send_cq = nullptr;
  } else {
    request.xrcd = nullptr;
  }
  if (request.type == IBV_QPT_XRC_SEND || request.type == IBV_QPT_XRC_RECV) {
    request.receive_cq = nullptr;
    request.srq = nullptr;
  }
  return request;
}

// libibverbs sets none of these members. They show what was passed, used or not: librdmacm takes
// the protection domain of a connection from its XRC target.
void FillVerbs(const Request& request, QueuePair& qp) {
  ibv_qp& verbs = qp.verbs.qp;
  verbs.context = request.verbs_context;
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

nic::Engine& ChooseEngine(const QueuePair& qp) {
  std::array<CompletionQueue*, 2> queues;
  size_t count = 0;
  for (CompletionQueue* cq : {qp.send_cq, qp.receive_cq}) {
    if (cq != nullptr) queues[count++] = cq;
  }
  const auto used = std::span(queues).first(count);
  const ibv_qp_type type = qp.verbs.qp.qp_type;
  const bool is_connection = (type == IBV_QPT_RC || type == IBV_QPT_UC) && qp.srq == nullptr;
  EngineChoice& choice = qp.device->engine_choice();
  return is_connection ? choice.ForConnection(used) : choice.ForOther(used);
}

// Logs once per process. A device that has no more than the process may have speaks for itself by
// its max_qp.
void LogThatShareIsUsed(Device& device) {
  static std::atomic_flag logged = ATOMIC_FLAG_INIT;
  if (device.max_queue_pairs() == transport::kMaxQps || logged.test_and_set()) return;
  nic::Log(nic::LogLevel::kWarning,
           "a queue pair is refused with ENOMEM: a process may have " +
               std::to_string(transport::kMaxQps) +
               " of the queue pairs of a fabric's device, or N times as many with UROCE_ENGINES=N "
               "and completion queues of several threads");
}

int CreateInTransport(const Request& request, QueuePair& qp) {
  transport::QpInitAttributes init;
  init.type = static_cast<transport::QpType>(request.type);
  if (qp.pd != nullptr) init.pd = qp.pd->id;
  if (qp.xrc_domain != nullptr) {
    init.xrc_domain = qp.xrc_domain->domain->id;
    init.xrc_key = qp.xrc_domain->domain->key;
  }
  if (qp.send_cq != nullptr) init.send_cq = qp.send_cq->queue.get();
  if (qp.receive_cq != nullptr) init.receive_cq = qp.receive_cq->queue.get();
  init.capabilities = ToCapabilities(*request.capabilities);
  if (qp.srq != nullptr) init.srq = qp.srq->queue.get();
  init.signal_all = request.signal_all;
  init.blocks_own_multicast = request.blocks_own_multicast;
  init.context = &qp;
  nic::Engine& engine = *qp.engine;
  std::optional<transport::QueuePair::Queues> queues;
  auto status = engine.endpoint().CreateQueues(init, queues);
  if (status == transport::Status::kOk) {
    status = engine.WithEndpoint([&](transport::Endpoint& endpoint) {
      return endpoint.CreateQueuePair(init, *std::move(queues), &qp.transport);
    });
  }
  if (status == transport::Status::kNoMemory) LogThatShareIsUsed(*qp.device);
  return static_cast<int>(status);
}

// Calls `f` with the use count of each object that the queue pair keeps from being destroyed.
template <class F>
void ForEachUsed(QueuePair& qp, F f) {
  if (qp.pd != nullptr) f(qp.pd->users);
  if (qp.xrc_domain != nullptr) f(qp.xrc_domain->users);
  if (qp.send_cq != nullptr) f(qp.send_cq->users);
  if (qp.receive_cq != nullptr) f(qp.receive_cq->users);
  if (qp.srq != nullptr) f(qp.srq->users);
}

// The application owns the queue pair from now on.
ibv_qp* HandOut(std::unique_ptr<QueuePair> qp, PendingHandle& handle) {
  ForEachUsed(*qp, [](UseCount& users) { users.Add(); });
  qp->verbs.qp.qp_num = qp->transport->qpn().value;
  qp->verbs.qp.handle = handle.Keep();
  return &qp.release()->verbs.qp;
}

int Create(const Request& wanted, bool extended, ibv_qp*& out) {
  if (const int error = Check(wanted)) return error;
  const Request request = Reduced(wanted);
  if (!IsPrivateSrq(request)) return EINVAL;
  Device& device = Context::From(request.verbs_context).device();
  if (device.lost_by_fork()) return EIO;

  auto qp = std::make_unique<QueuePair>();
  PendingHandle handle(Context::From(request.verbs_context).objects(), *qp);
  qp->device = &device;
  if (request.pd != nullptr) qp->pd = &ProtectionDomain::From(request.pd);
  if (request.xrcd != nullptr) qp->xrc_domain = &XrcDomainHandle::From(request.xrcd);
  if (request.send_cq != nullptr) qp->send_cq = &CompletionQueue::From(request.send_cq);
  if (request.receive_cq != nullptr) qp->receive_cq = &CompletionQueue::From(request.receive_cq);
  if (request.srq != nullptr) qp->srq = &SharedReceiveQueue::From(request.srq);
  FillVerbs(wanted, *qp);
  if (extended) qp->builder = std::make_unique<WorkRequestBuilder>(*qp);
  std::map<uint32_t, QueuePair*> entry;  // allocated first, so that nothing fails later
  if (qp->xrc_domain != nullptr) entry[0] = qp.get();
  qp->engine = &ChooseEngine(*qp);
  if (const int error = CreateInTransport(request, *qp)) return error;

  *request.capabilities = FromCapabilities(qp->transport->init_attributes().capabilities);
  if (extended) {
    SetBuilderFunctions(qp->verbs);
    abi::MarkExtendedQp(qp->verbs);
  }
  if (qp->xrc_domain != nullptr) {
    XrcDomain& domain = *qp->xrc_domain->domain;
    auto node = entry.extract(0);
    node.key() = qp->transport->qpn().value;
    const std::lock_guard lock(domain.targets_lock);
    domain.targets.insert(std::move(node));
  }
  out = HandOut(std::move(qp), handle);
  return 0;
}

// Means nothing to a queue pair that is in no group.
constexpr uint32_t kBlockOwnMulticast = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;

int CheckExtension(const ibv_qp_init_attr_ex& attr) {
  constexpr uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
                              IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
                              IBV_QP_INIT_ATTR_XRCD;
  if ((attr.comp_mask & ~kKnown) != 0) return EOPNOTSUPP;
  const bool is_target = RawValue(attr.qp_type) == IBV_QPT_XRC_RECV;
  const uint32_t owner = is_target ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD;
  if ((attr.comp_mask & owner) == 0) return EINVAL;
  const auto has = [&](uint32_t bit) { return (attr.comp_mask & bit) != 0; };
  if (has(IBV_QP_INIT_ATTR_CREATE_FLAGS) && (attr.create_flags & ~kBlockOwnMulticast) != 0) {
    return EOPNOTSUPP;
  }
  if (has(IBV_QP_INIT_ATTR_MAX_TSO_HEADER) && attr.max_tso_header != 0) return EOPNOTSUPP;
  if (has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
      (attr.send_ops_flags & ~BuilderOperations(attr.qp_type)) != 0) {
    return EOPNOTSUPP;
  }
  return 0;
}

bool IsAttachedToMulticast(const QueuePair& qp) {
  return qp.engine->WithEndpoint(
      [&](transport::Endpoint& endpoint) { return endpoint.IsAttachedToMulticast(*qp.transport); });
}

// An acknowledgement may have to wait until the wire takes frames again, and a program that has
// received what it wanted destroys its queue pairs and ends. Without the acknowledgement the peer
// would end in error. A peer makes room within some turns of its processor.
constexpr transport::Duration kReplyTimeout = transport::Milliseconds(100);

void FinishReplies(QueuePair& qp) {
  const auto owes_reply = [&] {
    const nic::Engine::Verb verb(*qp.engine);  // sends as well
    return qp.transport->OwesReply();
  };
  const transport::Time give_up = nic::Now() + kReplyTimeout;
  while (owes_reply() && nic::Now() < give_up) sched_yield();
}

}  // namespace

ibv_qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  return ReturningObject<ibv_qp>([&](ibv_qp*& out) {
    const Request request = {
        pd->context, pd,         attr->qp_context, attr->send_cq,         attr->recv_cq,
        attr->srq,   &attr->cap, attr->qp_type,    attr->sq_sig_all != 0, nullptr,
        false};
    return Create(request, /*extended=*/false, out);
  });
}

ibv_qp* CreateQpEx(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  return ReturningObject<ibv_qp>([&](ibv_qp*& out) {
    if (const int error = CheckExtension(*attr)) return error;
    const bool has_xrcd = (attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0;
    const bool has_pd = (attr->comp_mask & IBV_QP_INIT_ATTR_PD) != 0;
    const bool has_flags = (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0;
    const Request request = {context,
                             has_pd ? attr->pd : nullptr,
                             attr->qp_context,
                             attr->send_cq,
                             attr->recv_cq,
                             attr->srq,
                             &attr->cap,
                             attr->qp_type,
                             attr->sq_sig_all != 0,
                             has_xrcd ? attr->xrcd : nullptr,
                             has_flags && (attr->create_flags & kBlockOwnMulticast) != 0};
    const bool extended = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    return Create(request, extended, out);
  });
}

namespace {

// False: the domain has no target of this number.
bool JoinTarget(QueuePair& qp, uint32_t qpn) {
  XrcDomain& domain = *qp.xrc_domain->domain;
  const std::lock_guard lock(domain.targets_lock);
  const auto found = domain.targets.find(qpn);
  if (found == domain.targets.end()) return false;
  QueuePair& first = *found->second;
  qp.transport = first.transport;
  qp.engine = first.engine;
  const nic::Engine::Verb verb(*qp.engine);
  qp.next_handle = std::exchange(first.next_handle, &qp);
  return true;
}

}  // namespace

ibv_qp* OpenQp(ibv_context* context, ibv_qp_open_attr* attr) {
  return ReturningObject<ibv_qp>([&](ibv_qp*& out) {
    constexpr uint32_t kNeeded =
        IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    if ((attr->comp_mask & ~(kNeeded | IBV_QP_OPEN_ATTR_CONTEXT)) != 0) return EOPNOTSUPP;
    if ((attr->comp_mask & kNeeded) != kNeeded) return EINVAL;
    if (RawValue(attr->qp_type) != IBV_QPT_XRC_RECV || !IsOf(context, attr->xrcd)) return EINVAL;

    auto qp = std::make_unique<QueuePair>();
    qp->device = &Context::From(context).device();
    if (qp->device->lost_by_fork()) return EIO;
    qp->xrc_domain = &XrcDomainHandle::From(attr->xrcd);
    const bool has_context = (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0;
    Request request = {};
    request.verbs_context = context;
    request.context = has_context ? attr->qp_context : nullptr;
    request.type = IBV_QPT_XRC_RECV;
    FillVerbs(request, *qp);
    qp->verbs.qp.state = IBV_QPS_UNKNOWN;

    PendingHandle handle(Context::From(context).objects(), *qp);
    if (!JoinTarget(*qp, attr->qp_num)) return EINVAL;
    out = HandOut(std::move(qp), handle);
    return 0;
  });
}

namespace {

// Returns the queues of a destroyed target, so that they are freed without the engine's lock.
std::optional<transport::QueuePair::Queues> LeaveTarget(QueuePair& qp, QueuePair*& first) {
  return qp.engine->WithEndpoint(
      [&](transport::Endpoint& endpoint) -> std::optional<transport::QueuePair::Queues> {
        QueuePair** link = &first;
        while (*link != &qp) link = &(*link)->next_handle;
        *link = qp.next_handle;
        if (first == nullptr) return endpoint.DestroyQueuePair(qp.transport);
        qp.transport->set_context(first);
        return std::nullopt;
      });
}

bool RemoveTarget(QueuePair& qp) {
  XrcDomain& domain = *qp.xrc_domain->domain;
  const std::lock_guard lock(domain.targets_lock);
  const auto target = domain.targets.find(qp.verbs.qp.qp_num);
  const bool is_gone = LeaveTarget(qp, target->second).has_value();
  if (is_gone) domain.targets.erase(target);
  return is_gone;
}

}  // namespace

bool RemoveFromTransport(QueuePair& qp) {
  if (qp.xrc_domain != nullptr) return RemoveTarget(qp);
  nic::Engine& engine = *qp.engine;
  RemoveFlows(qp);
  std::vector<transport::Gid> groups;  // not empty only if the context is closed first
  {
    const PollLocks locks(qp);
    // The returned queues are freed without the lock.
    engine.WithEndpoint([&](transport::Endpoint& endpoint) {
      groups = endpoint.MulticastGroupsOf(*qp.transport);
      return endpoint.DestroyQueuePair(qp.transport);
    });
  }
  for (const transport::Gid& group : groups) engine.LeaveGroup(group);
  return true;
}

PollLocks::PollLocks(const QueuePair& qp) : first_(qp.send_cq), second_(qp.receive_cq) {
  if (std::less<>()(second_, first_)) std::swap(first_, second_);
  if (second_ == first_) second_ = nullptr;
  if (first_ != nullptr) first_->poll_lock.lock();
  if (second_ != nullptr) second_->poll_lock.lock();
}

PollLocks::~PollLocks() {
  if (second_ != nullptr) second_->poll_lock.unlock();
  if (first_ != nullptr) first_->poll_lock.unlock();
}

int DestroyQp(ibv_qp* verbs) {
  return ReturningErrno([&] {
    if (const int error = CheckHandle<QueuePair>(verbs)) return error;
    QueuePair& qp = QueuePair::From(verbs);
    if (IsAttachedToMulticast(qp)) return EBUSY;  // IBA o10-2.2.3
    if (HasFlows(qp)) return EBUSY;               // ib_destroy_qp_user of Linux
    Context::From(verbs->context).objects().Remove(verbs->handle);
    FinishReplies(qp);
    if (RemoveFromTransport(qp)) {
      qp.engine->ForgetPath(transport::Qpn{verbs->qp_num});
    }
    qp.events_posted -= abi::PurgeAsyncEvents(verbs->context, reinterpret_cast<uintptr_t>(verbs));
    AwaitAcknowledgements(&verbs->mutex, &verbs->cond, &verbs->events_completed, qp.events_posted);

    ForEachUsed(qp, [](UseCount& users) { users.Remove(); });
    pthread_cond_destroy(&verbs->cond);
    pthread_mutex_destroy(&verbs->mutex);
    delete &qp;
    return 0;
  });
}

}  // namespace uroce::verbs
