#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "dpdk_nic/base/mutex.h"
#include "transport/completion.h"
#include "transport/completion_queue.h"
#include "verbs_provider/base/use_count.h"
#include "verbs_provider/device/device.h"

namespace uroce::verbs {

struct ProtectionDomain;

// The wall clock as the completions of one queue see it: it never goes back. When the system's is
// set back, it stands still until that has caught up.
class WallClock {
 public:
  // Compares the system's clock with the engine's anew, for what is read until the next call.
  void Sample();
  // The wall clock's time when the engine's was `time`.
  uint64_t At(transport::Time time);

 private:
  int64_t offset_ns_ = 0;  // from the engine's clock to the system's
  int64_t latest_ns_ = 0;  // as read last
};

// The object behind ibv_create_cq and ibv_create_cq_ex.
//
// Lock order: the lock of EngineChoice, `poll_lock` (of two queues in the order of their
// addresses), the engine's lock. A thread that polls an empty queue drives the engine, but not
// under the poll lock, so that another thread can take what arrives meanwhile.
struct CompletionQueue {
  union Verbs {
    ibv_cq cq;
    ibv_cq_ex ex;
    std::byte reserve[1024];  // later releases of libibverbs append members to ibv_cq_ex
  };
  Verbs verbs = {};  // first: libibverbs knows the object by it

  Device* device = nullptr;
  std::unique_ptr<transport::CompletionQueue> queue;
  // The transport's queue allows one consumer at a time, and none while it is purged, resized or
  // armed.
  // The thread that holds the lock from ibv_start_poll to ibv_end_poll may still purge or resize.
  nic::RecursiveMutex poll_lock;
  UseCount users;                             // queue pairs
  ProtectionDomain* parent_domain = nullptr;  // null without one
  uint32_t handle = 0;                        // as in `verbs`: arming looks nothing up

  // The engine of its queue pairs (EngineChoice), which is set before the first of them exists.
  nic::Engine& engine() const { return *on_engine.load(std::memory_order_relaxed); }
  std::atomic<nic::Engine*> on_engine = nullptr;
  bool is_settled = false;  // on this engine for good; protected by the lock of EngineChoice

  // Events that were handed to libibverbs; protected by the engine's lock.
  uint32_t completion_events_posted = 0;
  uint32_t async_events_posted = 0;
  // Completion events that found no room in the channel, and are lost.
  uint64_t completion_events_lost = 0;

  // Between ibv_start_poll and ibv_end_poll.
  transport::Completion current;
  transport::Time current_time;
  // Null unless the queue has times of the wall clock.
  std::unique_ptr<WallClock> wall_clock;

  static CompletionQueue& From(ibv_cq* cq) { return *reinterpret_cast<CompletionQueue*>(cq); }
  static CompletionQueue& From(ibv_cq_ex* cq) { return *reinterpret_cast<CompletionQueue*>(cq); }
};

// Moves a queue that no queue pair has used to another engine of its device.
void MoveTo(CompletionQueue& cq, nic::Engine& engine);

// Ends the queue in the transport: no event comes from it afterwards.
void RemoveFromTransport(CompletionQueue& cq);

// EINVAL: no or too many entries, a completion vector that the context does not have.
ibv_cq* CreateCq(ibv_context* context, int entries, ibv_comp_channel* channel, int vector);
// Also EOPNOTSUPP for fields (VLAN, flow tag, tag matching) and flags we do not have, and EINVAL
// for a parent domain that is none.
ibv_cq_ex* CreateCqEx(ibv_context* context, ibv_cq_init_attr_ex* attr);
// EBUSY while queue pairs use the queue. Waits until every event was acknowledged.
int DestroyCq(ibv_cq* cq);
// EINVAL when the queue holds more than `entries` completions.
int ResizeCq(ibv_cq* cq, int entries);

// Sets how many completions make an event, and how long the first of them waits for the others, in
// microseconds. EINVAL: another attribute.
int ModifyCq(ibv_cq* cq, ibv_modify_cq_attr* attr);

int PollCq(ibv_cq* cq, int entries, ibv_wc* wc);
int ReqNotifyCq(ibv_cq* cq, int solicited_only);

// To be called after completions were polled, under the poll lock.
void WatchLeftovers(CompletionQueue& cq);
inline void EndPolling(CompletionQueue& cq) {
  if (cq.queue->LeavesAnnounced()) [[unlikely]]
    WatchLeftovers(cq);
}

// Sets the polling functions of ibv_cq_ex in `cq`.
void SetExtendedPolling(CompletionQueue& cq, uint64_t wc_flags);

}  // namespace uroce::verbs
