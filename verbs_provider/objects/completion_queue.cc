#include "verbs_provider/objects/completion_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <span>

#include "dpdk_nic/base/clock.h"
#include "transport/endpoint.h"
#include "transport/limits.h"
#include "verbs_provider/abi/events.h"
#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/base/translate.h"
#include "verbs_provider/device/context.h"
#include "verbs_provider/objects/async_events.h"
#include "verbs_provider/objects/destroy.h"
#include "verbs_provider/objects/protection_domain.h"

namespace uroce::verbs {
namespace {

bool IsCapacity(int entries) {
  return entries >= 1 && static_cast<uint32_t>(entries) <= transport::kMaxCqEntries;
}

int Create(ibv_context* context, int entries, ibv_comp_channel* channel, int vector, bool timed,
           CompletionQueue*& out) {
  Device& device = Context::From(context).device();
  if (device.lost_by_fork()) return EIO;
  if (!IsCapacity(entries) || vector < 0 || vector >= context->num_comp_vectors) return EINVAL;
  PendingQuota quota(device.completion_queues());
  if (!quota.taken()) return ENOMEM;

  auto cq = std::make_unique<CompletionQueue>();
  PendingHandle handle(Context::From(context).objects(), *cq);
  cq->device = &device;
  cq->on_engine = &device.engine();
  cq->queue = device.engine().endpoint().CreateCompletionQueue(static_cast<uint32_t>(entries),
                                                               cq.get(), timed);
  // libibverbs sets these too, but only after an event could have been delivered.
  cq->verbs.cq.context = context;
  cq->verbs.cq.channel = channel;
  cq->verbs.cq.cqe = static_cast<int>(cq->queue->capacity());
  cq->handle = cq->verbs.cq.handle = handle.Keep();
  quota.Keep();
  out = cq.release();
  return 0;
}

// Returns `f()`, called in a verb of the queue's engine. Repeats if the queue moved before the verb
// began.
template <class F>
auto WithEngineOf(const CompletionQueue& cq, F&& f) {
  for (;;) {
    nic::Engine& engine = cq.engine();
    const nic::Engine::Verb verb(engine);
    if (&engine == &cq.engine()) [[likely]]
      return f();
  }
}

// Moves at most `entries` completions into `wc`. Returns how many.
int Drain(CompletionQueue& cq, int entries, ibv_wc* wc) {
  constexpr int kBatch = 16;
  // Plain bytes, as an array of Completion would be cleared first for nothing.
  alignas(transport::Completion) std::byte storage[kBatch * sizeof(transport::Completion)];
  auto* const batch = reinterpret_cast<transport::Completion*>(storage);

  const nic::MutexLock lock(cq.poll_lock);
  int done = 0;
  while (done < entries) {
    const auto wanted = static_cast<size_t>(std::min(entries - done, kBatch));
    const uint32_t count = cq.queue->Poll(std::span(batch, wanted));
    for (uint32_t i = 0; i < count; ++i) FromCompletion(batch[i], wc + done + i);
    done += static_cast<int>(count);
    if (count < wanted) break;
  }
  EndPolling(cq);
  return done;
}

// Null where `pd` is no parent domain of the context.
ProtectionDomain* FindParentDomain(const ibv_context* context, ibv_pd* pd) {
  if (pd == nullptr || pd->context != context) return nullptr;
  ProtectionDomain& domain = ProtectionDomain::From(pd);
  return domain.original == nullptr ? nullptr : &domain;
}

}  // namespace

void WatchLeftovers(CompletionQueue& cq) {
  WithEngineOf(cq, [&] { cq.queue->WatchLeftovers(nic::Now()); });
}

ibv_cq* CreateCq(ibv_context* context, int entries, ibv_comp_channel* channel, int vector) {
  return ReturningObject<ibv_cq>([&](ibv_cq*& out) {
    CompletionQueue* cq = nullptr;
    const int error = Create(context, entries, channel, vector, /*timed=*/false, cq);
    if (error == 0) out = &cq->verbs.cq;
    return error;
  });
}

ibv_cq_ex* CreateCqEx(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  return ReturningObject<ibv_cq_ex>([&](ibv_cq_ex*& out) {
    constexpr uint64_t kTimes =
        IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    constexpr uint64_t kKnownFields = IBV_WC_STANDARD_FLAGS | kTimes;
    constexpr uint32_t kKnownMask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    // IBV_CREATE_CQ_ATTR_SINGLE_THREADED is a hint that is not needed: an uncontended lock costs
    // next to nothing.
    constexpr uint32_t kKnownFlags =
        IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    if ((attr->wc_flags & ~kKnownFields) != 0) return EOPNOTSUPP;
    if ((attr->comp_mask & ~kKnownMask) != 0) return EOPNOTSUPP;
    const bool has_flags = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
    const uint32_t flags = has_flags ? attr->flags : 0;
    if ((flags & ~kKnownFlags) != 0) return EOPNOTSUPP;
    if (attr->cqe > static_cast<uint32_t>(transport::kMaxCqEntries)) return EINVAL;

    ProtectionDomain* parent_domain = nullptr;
    if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0) {
      parent_domain = FindParentDomain(context, attr->parent_domain);
      if (parent_domain == nullptr) return EINVAL;
    }

    CompletionQueue* cq = nullptr;
    const int error =
        Create(context, static_cast<int>(attr->cqe), attr->channel,
               static_cast<int>(attr->comp_vector), (attr->wc_flags & kTimes) != 0, cq);
    if (error != 0) return error;
    if ((flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0) cq->queue->IgnoreOverrun();
    cq->parent_domain = parent_domain;
    if (parent_domain != nullptr) parent_domain->users.Add();
    SetExtendedPolling(*cq, attr->wc_flags);
    out = &cq->verbs.ex;
    return 0;
  });
}

void MoveTo(CompletionQueue& cq, nic::Engine& engine) {
  const nic::EngineGroup::Hold hold(cq.device->engines());
  hold.endpoint(engine).AdoptCompletionQueue(*cq.queue);
  cq.on_engine.store(&engine, std::memory_order_relaxed);
}

void RemoveFromTransport(CompletionQueue& cq) {
  WithEngineOf(cq, [&] { cq.queue->Retire(); });
  cq.queue.reset();
  cq.device->completion_queues().Return();
}

int DestroyCq(ibv_cq* verbs) {
  // IBA C11-17
  return DestroyUnused<CompletionQueue>(verbs, [&](CompletionQueue& cq) {
    RemoveFromTransport(cq);
    if (verbs->channel != nullptr) {
      cq.completion_events_posted -= abi::PurgeCompletionEvents(verbs->channel, verbs);
    }
    cq.async_events_posted -=
        abi::PurgeAsyncEvents(verbs->context, reinterpret_cast<uintptr_t>(verbs));
    AwaitAcknowledgements(&verbs->mutex, &verbs->cond, &verbs->comp_events_completed,
                          cq.completion_events_posted);
    AwaitAcknowledgements(&verbs->mutex, &verbs->cond, &verbs->async_events_completed,
                          cq.async_events_posted);
    if (cq.parent_domain != nullptr) cq.parent_domain->users.Remove();
  });
}

int ResizeCq(ibv_cq* verbs, int entries) {
  return ReturningErrno([&] {
    if (const int error = CheckHandle<CompletionQueue>(verbs)) return error;
    CompletionQueue& cq = CompletionQueue::From(verbs);
    if (!IsCapacity(entries)) return EINVAL;
    const nic::MutexLock lock(cq.poll_lock);
    transport::CompletionQueue::Room room;
    auto status = cq.queue->PrepareRoom(static_cast<uint32_t>(entries), room);
    if (status == transport::Status::kOk) {
      status = WithEngineOf(cq, [&] { return cq.queue->MoveTo(room); });
    }
    if (status != transport::Status::kOk) return static_cast<int>(status);
    verbs->cqe = static_cast<int>(cq.queue->capacity());
    return 0;
  });
}

int ModifyCq(ibv_cq* verbs, ibv_modify_cq_attr* attr) {
  return ReturningErrno([&] {
    if (const int error = CheckHandle<CompletionQueue>(verbs)) return error;
    CompletionQueue& cq = CompletionQueue::From(verbs);
    if (attr->attr_mask != IBV_CQ_ATTR_MODERATE) return EINVAL;
    WithEngineOf(cq, [&] {
      cq.queue->SetModeration({.count = attr->moderate.cq_count,
                               .period = transport::Microseconds(attr->moderate.cq_period)});
    });
    return 0;
  });
}

int PollCq(ibv_cq* verbs, int entries, ibv_wc* wc) {
  CompletionQueue& cq = CompletionQueue::From(verbs);
  if (cq.device->lost_by_fork()) return -EIO;
  if (entries < 0) return -EINVAL;

  if (!cq.queue->empty()) {
    if (const int count = Drain(cq, entries, wc)) return count;
  }
  cq.engine().TryRunOnce();
  return cq.queue->empty() ? 0 : Drain(cq, entries, wc);
}

int ReqNotifyCq(ibv_cq* verbs, int solicited_only) {
  CompletionQueue& cq = CompletionQueue::From(verbs);
  if (cq.device->lost_by_fork()) return errno = EIO;
  if (verbs->handle != cq.handle) [[unlikely]]
    return SettingErrno([&] { return CheckHandle<CompletionQueue>(verbs); });
  using NotifyOn = transport::CompletionQueue::NotifyOn;
  const nic::MutexLock lock(cq.poll_lock);
  WithEngineOf(cq,
               [&] { cq.queue->Arm(solicited_only != 0 ? NotifyOn::kSolicited : NotifyOn::kAny); });
  return 0;
}

}  // namespace uroce::verbs
