#include "verbs_provider/objects/async_events.h"

#include <atomic>

#include "verbs_provider/abi/events.h"
#include "verbs_provider/device/context.h"
#include "verbs_provider/device/device.h"
#include "verbs_provider/device/rdma_cm_process.h"
#include "verbs_provider/objects/completion_queue.h"
#include "verbs_provider/objects/queue_pair.h"
#include "verbs_provider/objects/shared_receive_queue.h"
#include "verbs_provider/virtual_kernel/device/device_description.h"

namespace uroce::verbs {
namespace {

void PostCompletionQueueEvent(CompletionQueue& cq, ibv_event_type type) {
  ibv_cq* const verbs = &cq.verbs.cq;
  cq.async_events_posted +=
      abi::PostAsyncEvent(verbs->context, type, reinterpret_cast<uintptr_t>(verbs));
}

// A thread that waits for the lost event would sleep for ever: the first loss raises CQ_ERR.
void OnCompletionEventLost(CompletionQueue& cq) {
  if (cq.completion_events_lost++ == 0) PostCompletionQueueEvent(cq, IBV_EVENT_CQ_ERR);
}

void DeliverToCompletionQueue(CompletionQueue& cq, transport::EventType type) {
  ibv_cq* const verbs = &cq.verbs.cq;
  if (type != transport::EventType::kCompletion) {
    PostCompletionQueueEvent(cq, static_cast<ibv_event_type>(type));
  } else if (verbs->channel != nullptr) {
    if (abi::PostCompletionEvent(verbs->channel, verbs)) {
      ++cq.completion_events_posted;
    } else {
      OnCompletionEventLost(cq);
    }
  }
}

// Counts the changes of the device after which its description may differ.
std::atomic<uint32_t> device_changes = 0;

// An event of an XRC target goes to all its handles. A queue pair that works for the target of
// another process (transport/xrc_executors.h) has none.
void DeliverToQueuePair(QueuePair* first, transport::EventType type) {
  for (QueuePair* handle = first; handle != nullptr; handle = handle->next_handle) {
    ibv_qp* const verbs = &handle->verbs.qp;
    handle->events_posted += abi::PostAsyncEvent(verbs->context, static_cast<ibv_event_type>(type),
                                                 reinterpret_cast<uintptr_t>(verbs));
  }
}

void DeliverToSharedReceiveQueue(SharedReceiveQueue& srq, transport::EventType type) {
  ibv_srq* const verbs = &srq.verbs;
  srq.events_posted += abi::PostAsyncEvent(verbs->context, static_cast<ibv_event_type>(type),
                                           reinterpret_cast<uintptr_t>(verbs));
}

// Not counted per object: an event of the device is about no object that could be destroyed.
void DeliverToContexts(DeviceFollowers& followers, transport::EventType type) {
  device_changes.fetch_add(1, std::memory_order_release);
  const uint64_t element = type == transport::EventType::kDeviceFatal ? 0 : kPortNumber;
  followers.contexts.ForEach([&](Context& context) {
    (void)abi::PostAsyncEvent(context.verbs(), static_cast<ibv_event_type>(type), element);
  });
}

// The ids of rdma_cm get the event after the contexts.
void DeliverToAll(DeviceFollowers& followers, transport::EventType type) {
  if (type == transport::EventType::kDeviceFatal) followers.has_failed = true;
  DeliverToContexts(followers, type);
  OnConnectionEvents();
}

}  // namespace

void DeliverEvent(const transport::Event& event) {
  switch (event.type) {
    case transport::EventType::kCompletion:
    case transport::EventType::kCqError:
      DeliverToCompletionQueue(*static_cast<CompletionQueue*>(event.context), event.type);
      return;
    case transport::EventType::kQpFatal:
    case transport::EventType::kQpRequestError:
    case transport::EventType::kQpAccessError:
    case transport::EventType::kCommunicationEstablished:
    case transport::EventType::kSendQueueDrained:
    case transport::EventType::kPathMigrated:
    case transport::EventType::kPathMigrationError:
    case transport::EventType::kLastWqeReached:
      DeliverToQueuePair(static_cast<QueuePair*>(event.context), event.type);
      return;
    case transport::EventType::kSrqLimitReached:
      DeliverToSharedReceiveQueue(*static_cast<SharedReceiveQueue*>(event.context), event.type);
      return;
    case transport::EventType::kDeviceFatal:
    case transport::EventType::kGidChange:
      DeliverToAll(*static_cast<DeviceFollowers*>(event.context), event.type);
      return;
    case transport::EventType::kPortActive:
    case transport::EventType::kPortError:
      DeliverToContexts(*static_cast<DeviceFollowers*>(event.context), event.type);
      return;
  }
}

void AwaitAcknowledgements(pthread_mutex_t* mutex, pthread_cond_t* cond, const uint32_t* completed,
                           uint32_t posted) {
  pthread_mutex_lock(mutex);
  while (*completed != posted) pthread_cond_wait(cond, mutex);
  pthread_mutex_unlock(mutex);
}

}  // namespace uroce::verbs

__attribute__((visibility("default"))) uint32_t uroce_device_changes() {
  return uroce::verbs::device_changes.load(std::memory_order_acquire);
}
