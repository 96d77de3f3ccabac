#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace uroce::verbs::abi {

// Completion and asynchronous events as the kernel delivers them: records that libibverbs read()s
// from a descriptor. The virtual kernel owns these descriptors; providers call these functions.
//
// Destroying an object (ibv_create_cq(3), ibv_get_async_event(3)) must drop its undelivered events
// and wait for the delivered ones to be acknowledged. Counting where events are posted is exact and
// has no race:
//
//   posted += PostCompletionEvent(channel, cq);               // each time
//   ...
//   posted -= PurgeCompletionEvents(channel, cq);             // in destroy_cq, no posts any more
//   lock cq->mutex; while (cq->comp_events_completed != posted) wait for cq->cond
//
// and the same with {cq,qp,srq}->(async_)events_completed. libibverbs counts the completed ones and
// signals cond. All counters are 32 bits wide and wrap.

// Makes ibv_get_cq_event return `cq`. True when the event was queued; false if the application
// closed the channel behind libibverbs' back or let 100 000 events pile up.
bool PostCompletionEvent(const ibv_comp_channel* channel, const ibv_cq* cq);

// Drops the undelivered events of `cq`; returns how many these were.
uint32_t PurgeCompletionEvents(const ibv_comp_channel* channel, const ibv_cq* cq);

// Makes ibv_get_async_event return {element, type}. `element` is the address of the ibv_cq, ibv_qp
// or ibv_srq, or the port number, as the event type demands. False as above.
bool PostAsyncEvent(const ibv_context* context, ibv_event_type type, uint64_t element);

// Drops the undelivered asynchronous events of the object at address `element`.
uint32_t PurgeAsyncEvents(const ibv_context* context, uint64_t element);

}  // namespace uroce::verbs::abi
