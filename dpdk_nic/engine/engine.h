#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "dpdk_nic/base/thread_annotations.h"
#include "dpdk_nic/engine/answer_hold.h"
#include "dpdk_nic/engine/driving_notes.h"
#include "dpdk_nic/engine/engine_clock.h"
#include "dpdk_nic/engine/engine_lock.h"
#include "dpdk_nic/engine/engine_options.h"
#include "dpdk_nic/engine/event_count.h"
#include "dpdk_nic/engine/flush_plan.h"
#include "dpdk_nic/engine/frame_watch.h"
#include "dpdk_nic/engine/progress_mode.h"
#include "dpdk_nic/engine/published_state.h"
#include "dpdk_nic/engine/sleep_plan.h"
#include "dpdk_nic/engine/thread_preparation.h"
#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/port/packet_port.h"
#include "transport/endpoint.h"
#include "transport/time.h"

namespace uroce::nic {

class EngineGroup;
class Progress;

// Runs one transport::Endpoint over one PacketPort: gives it the time, carries its frames, delivers
// its events, and serialises the threads that use it. Progress decides which thread drives it.
//
// In a forked child the engine is dead: the wire belongs to the parent. Verbs then work on the
// child's copy of the endpoint, which sends nothing any more.
class Engine {
 public:
  using Options = EngineOptions;

  Engine(std::unique_ptr<PacketPort> port, const transport::EndpointConfig& config,
         Options options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Holds the engine for a verb (post_send, modify_qp ...): the calling thread may use the endpoint
  // and all of its objects. Its end sends what became ready and delivers events.
  class UROCE_SCOPED_CAPABILITY Verb {
   public:
    explicit Verb(Engine& engine) UROCE_ACQUIRE(engine.lock_) : engine_(engine) {
      PrepareThread();
      engine.lock_.Lock();
      if (engine.endpoint_.WantsTime() || engine.united_ != nullptr) [[unlikely]]
        engine.SetTime();
    }
    ~Verb() UROCE_RELEASE() { engine_.FinishVerb(); }
    Verb(const Verb&) = delete;
    Verb& operator=(const Verb&) = delete;

   private:
    Engine& engine_;
  };

  // A verb that works on the endpoint itself: returns what `f(endpoint)` returns.
  template <class F>
  auto WithEndpoint(F&& f) {
    const Verb verb(*this);
    return f(endpoint_);
  }

  // QueuePair::PostSend, within a verb. A request that nothing keeps from going out is sent at
  // once, and seen by the peer when the verb ends; others are sent at the end of the verb, or
  // later.
  transport::Status PostSend(const Verb& /*verb*/, transport::QueuePair& qp,
                             const auto& request) UROCE_NO_THREAD_SAFETY_ANALYSIS {
    const transport::Status status = qp.QueueSend(request);
    if (status == transport::Status::kOk && !SendAtOnce(qp)) qp.SendsPosted();
    return status;
  }

  // Flows of raw packet queue pairs, within a verb.
  FrameWatch& frame_watch(const Verb&) UROCE_NO_THREAD_SAFETY_ANALYSIS { return watch_; }

  // The time of completions: CLOCK_MONOTONIC, within a microsecond.
  transport::Time Now();

  // Runs `f(connection_manager, now)` (transport/cm/connection_manager.h) under the lock, then
  // sends what became ready and delivers events. Not to be called from a sink. In a forked child
  // nothing is sent and no event comes any more.
  template <class F>
  auto WithConnectionManager(F&& f) {
    const Verb verb(*this);
    const ManagementEnd end{*this, clock_.Now()};
    return f(endpoint_.UseGeneralServices().connection_manager(), end.now);
  }

  // Reserves a service among the processes of the fabric (PacketPort::Service), again to change
  // `shares`; kPending: no answer in time. One release is enough. Not within a verb: they block.
  PacketPort::ServiceState ReserveService(const PacketPort::Service& service,
                                          transport::Duration timeout);
  void ReleaseService(const PacketPort::Service& service);

  // For what needs no lock: the configuration, and to make large objects (see Endpoint).
  const transport::Endpoint& endpoint() const { return endpoint_; }

  // One pass if nobody else is driving: what ibv_poll_cq does on an empty queue. Returns whether
  // anything was done. Yields the processor by itself after some fruitless passes.
  bool TryRunOnce();

  // The Ethernet address that frames to `gid` go to: asks the neighbours for as long as `timeout`.
  std::optional<transport::MacAddress> ResolveNeighbor(const transport::Gid& gid,
                                                       transport::Duration timeout);

  // Has the port make the way ready that a queue pair is about to use, or have it receive what goes
  // to a multicast group; `timeout` bounds the wait.
  PacketPort::PathState PreparePath(const PacketPort::Path& path, transport::Duration timeout);
  PacketPort::PathState JoinGroup(const transport::Gid& group, transport::Duration timeout);
  uint32_t PathMtu(const PacketPort::Path& path);
  // The other way round; the group is left when it has no members any more.
  void ForgetPath(transport::Qpn local);
  void LeaveGroup(const transport::Gid& group);
  // Whether ibv_query_port is to call the port active.
  bool port_active();
  PacketPort::Counters port_counters();
  bool in_forked_child() const { return in_forked_child_.load(std::memory_order_relaxed); }

 private:
  friend class EngineGroup;
  friend class Progress;
  friend class ForkHandler;

  // Ends the use of the connection manager; the end of the verb sends what is to be sent.
  struct ManagementEnd {
    Engine& engine;
    const transport::Time now;
    ~ManagementEnd() UROCE_REQUIRES(engine.lock_) { engine.UpdateManagement(now); }
  };

  // Asks under the lock, and runs a pass that sends the question, until `ask(now)` returns true or
  // the timeout ends. Sleeps in between: the helper, or a thread that drives, takes what comes.
  void AskUntilAnswered(transport::Duration timeout, auto ask);
  PacketPort::PathState AskPort(transport::Duration timeout, auto ask);

  // Who makes a pass: an application thread may not come back for what is left to be done.
  enum class Driver { kApplication, kHelper };
  // One pass: how many frames and deadlines there were; nullopt if another thread makes one.
  std::optional<int> RunIfFree(Driver driver);
  int RunOnce(transport::Time now, Driver driver) UROCE_REQUIRES(lock_);
  int ReceiveBurst(transport::Time now) UROCE_REQUIRES(lock_);
  void Accept(transport::Time now, const PacketPort::ReceivedFrame& frame) UROCE_REQUIRES(lock_);
  void FollowNeighbors() UROCE_REQUIRES(lock_);
  std::optional<transport::MacAddress> NeighborNow(transport::Time now, const transport::Gid& gid)
      UROCE_REQUIRES(lock_);
  void ResolveForManagement(transport::Time now) UROCE_REQUIRES(lock_);
  void UpdateManagement(transport::Time now) UROCE_REQUIRES(lock_);
  // Ends a pass or a verb; what was sent may wait for others (flush_plan_).
  void Flush(transport::Time now) UROCE_REQUIRES(lock_);
  int RunDeadlines(transport::Time now) UROCE_REQUIRES(lock_);
  int TransmitBurst(transport::Time now) UROCE_REQUIRES(lock_);
  int TransmitToPort(transport::Time now) UROCE_REQUIRES(lock_);
  // Sends until there is no frame, the port takes none or `most` have gone; returns how many.
  int Transmit(transport::Time now, transport::Route route, int most, auto has_frame,
               auto poll_frame) UROCE_REQUIRES(lock_);
  int TransmitFromLinkLayer(transport::Time now) UROCE_REQUIRES(lock_);
  int TransmitTo(transport::Route route, transport::Time now, int most) UROCE_REQUIRES(lock_);
  void Commit(transport::Time now, transport::Route route, std::span<const uint8_t> frame,
              transport::IcrcUse icrc) UROCE_REQUIRES(lock_);
  int LoopBack(transport::Time now) UROCE_REQUIRES(lock_);
  bool SendAtOnce(transport::QueuePair& qp) UROCE_REQUIRES(lock_);
  void EndPass() UROCE_REQUIRES(lock_);
  bool HasTransmit() const UROCE_REQUIRES(lock_);
  transport::Time NextDeadline() const UROCE_REQUIRES(lock_);
  void SetTime() UROCE_REQUIRES(lock_);
  bool OwesWakeUp() UROCE_REQUIRES(lock_);
  void FinishVerb() UROCE_RELEASE(lock_);
  void UnlockAndWakeHelper() UROCE_RELEASE(lock_);
  void UnlockAndTell() UROCE_RELEASE(lock_);
  void Unlock() UROCE_RELEASE(lock_);
  SleepPlan PlanSleep(transport::Time latest);
  void EndSleep();
  // An answer that a thread waits for cannot wait until an application that drives looks for it.
  bool answers_awaited() const { return news_.has_waiters(); }
  void MarkForked() UROCE_REQUIRES(lock_);

  EngineLock lock_;
  EngineGroup* united_ UROCE_GUARDED_BY(lock_) = nullptr;  // with the others of its device
  std::unique_ptr<PacketPort> port_ UROCE_PT_GUARDED_BY(lock_);
  const bool port_loops_back_;  // what the process sends to itself
  const int wait_fd_;           // of the port
  std::unique_ptr<LinkLayer> link_layer_ UROCE_PT_GUARDED_BY(lock_);
  FrameWatch watch_ UROCE_GUARDED_BY(lock_);
  const EngineOptions::EventSink event_sink_;
  const EngineOptions::ConnectionSink connection_sink_;
  const EngineOptions::NeighborSink neighbor_sink_;
  const ProgressMode mode_;
  const std::unique_ptr<PublishedState> published_state_;
  transport::Endpoint endpoint_ UROCE_GUARDED_BY(lock_);
  EngineClock clock_ UROCE_GUARDED_BY(lock_);
  AnswerHold answer_hold_ UROCE_GUARDED_BY(lock_);
  transport::Time next_link_service_ UROCE_GUARDED_BY(lock_);
  transport::Route next_route_ UROCE_GUARDED_BY(lock_) = transport::Route::kWire;  // sends next
  // The helper sleeps until then and has to be woken for anything earlier; 0: it need not be woken.
  transport::Time helper_sleeps_until_ UROCE_GUARDED_BY(lock_);
  bool port_active_ UROCE_GUARDED_BY(lock_);              // what the endpoint was told last
  bool port_failed_ UROCE_GUARDED_BY(lock_) = false;      // the endpoint was told
  transport::Time sent_at_once_ UROCE_GUARDED_BY(lock_);  // the last frame in this verb; 0: none
  FlushPlan flush_plan_ UROCE_GUARDED_BY(lock_);
  bool verb_awaits_answers_ UROCE_GUARDED_BY(lock_) = false;  // to what earlier ones sent
  bool has_news_ UROCE_GUARDED_BY(lock_) = false;             // for those that wait for answers
  EventCount news_;
  std::string sentence_ UROCE_GUARDED_BY(lock_);  // of the port, to be printed without the lock
  std::atomic<bool> in_forked_child_{false};
  DrivingNotes notes_;
  alignas(64) std::array<uint8_t, transport::kMaxFrameBytes> loopback_frame_
      UROCE_GUARDED_BY(lock_);
  std::unique_ptr<Progress> progress_;
};

}  // namespace uroce::nic
