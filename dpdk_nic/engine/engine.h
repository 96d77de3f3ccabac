#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "dpdk_nic/base/thread_annotations.h"
#include "dpdk_nic/engine/drive_policy/frame_policy.h"
#include "dpdk_nic/engine/drive_policy/wake_policy.h"
#include "dpdk_nic/engine/driving_notes.h"
#include "dpdk_nic/engine/engine_clock.h"
#include "dpdk_nic/engine/engine_lock.h"
#include "dpdk_nic/engine/engine_options.h"
#include "dpdk_nic/engine/event_count.h"
#include "dpdk_nic/engine/frame_watch.h"
#include "dpdk_nic/engine/linked_peers.h"
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
  // and all of its objects. The destructor sends what became ready and delivers events.
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

  // Runs `f(endpoint)` as a verb; returns its result.
  template <class F>
  auto WithEndpoint(F&& f) {
    const Verb verb(*this);
    return f(endpoint_);
  }

  // QueuePair::PostSend within a verb. The frame of a request that need not wait is built at once;
  // the peer sees it when the verb ends. Other requests are sent at the end of the verb or later.
  transport::Status PostSend(const Verb& /*verb*/, transport::QueuePair& qp, const auto& request) {
    lock_.AssertHeld();
    const transport::Status status = qp.QueueSend(request);
    if (status == transport::Status::kOk && !SendAtOnce(qp)) qp.SendsPosted();
    return status;
  }

  // The flows of raw packet queue pairs; to be used within a verb.
  FrameWatch& frame_watch(const Verb&);
  transport::Time Now();  // of completions: CLOCK_MONOTONIC, within a microsecond
  // Runs `f(connection_manager, now)` (transport/cm/connection_manager.h) as a verb. Not to be
  // called from a sink.
  template <class F>
  auto WithConnectionManager(F&& f) {
    const Verb verb(*this);
    const ManagementEnd end{*this, clock_.Now()};
    return f(endpoint_.UseGeneralServices().connection_manager(), end.now);
  }

  // Reserves a service among the processes of the fabric (PacketPort::Service); again to change
  // `shares`. kPending: no answer in time. One release is enough. Both block: not within a verb.
  PacketPort::ServiceState ReserveService(const PacketPort::Service& service,
                                          transport::Duration timeout);
  void ReleaseService(const PacketPort::Service& service);
  // The same for an XRC domain, which is closed if there was no answer.
  PacketPort::XrcOpening OpenXrcDomain(const PacketPort::XrcDomain& domain,
                                       transport::Duration timeout);
  void CloseXrcDomain(uint64_t handle);

  // For calls that need no lock: reading the configuration, making large objects (see Endpoint).
  const transport::Endpoint& endpoint() const { return endpoint_; }

  // Makes a pass if no other thread makes one and the mode is kAuto. Returns whether there was
  // anything to do. Yields the processor after some fruitless passes.
  bool TryRunOnce();

  // The Ethernet address for frames to `gid`; asks the neighbours until `timeout`, then nullopt.
  std::optional<transport::MacAddress> ResolveNeighbor(const transport::Gid& gid,
                                                       transport::Duration timeout);

  // Prepare the path that a queue pair is about to use, or the reception of a multicast group.
  PacketPort::PathState PreparePath(const PacketPort::Path& path, transport::Duration timeout);
  PacketPort::PathState JoinGroup(const transport::Gid& group, transport::Duration timeout);
  uint32_t PathMtu(const PacketPort::Path& path);
  // Undo PreparePath and JoinGroup. LeaveGroup does nothing while the group has members here.
  void ForgetPath(transport::Qpn local);
  void LeaveGroup(const transport::Gid& group);
  bool port_active();  // as ibv_query_port reports it
  PacketPort::Counters port_counters();
  bool in_forked_child() const { return in_forked_child_.load(std::memory_order_relaxed); }

 private:
  friend class EngineGroup;
  friend class Progress;
  friend class ForkHandler;

  // Updates the connection manager after its use; the end of the verb sends its datagrams.
  struct ManagementEnd {
    Engine& engine;
    const transport::Time now;
    ~ManagementEnd();
  };

  // Calls `ask` under the lock, then makes a pass that sends the question, until `ask` returns true
  // or the timeout ends. Sleeps in between: another thread receives the answer.
  void AskUntilAnswered(transport::Duration timeout, auto ask);
  PacketPort::PathState AskPort(transport::Duration timeout, auto ask);

  // Makes a pass; returns its frames and deadlines, or nullopt if another thread makes a pass.
  std::optional<int> RunIfFree(Driver driver);
  int RunOnce(transport::Time now, Driver driver) UROCE_REQUIRES(lock_);
  int ReceiveBurst(transport::Time now) UROCE_REQUIRES(lock_);
  void ServeLink(transport::Time now) UROCE_REQUIRES(lock_);
  void Accept(transport::Time now, const PacketPort::ReceivedFrame& frame) UROCE_REQUIRES(lock_);
  void FollowPort() UROCE_REQUIRES(lock_);
  void FollowNeighbors() UROCE_REQUIRES(lock_);
  std::optional<transport::MacAddress> NeighborNow(transport::Time now, const transport::Gid& gid)
      UROCE_REQUIRES(lock_);
  void ResolveForManagement(transport::Time now) UROCE_REQUIRES(lock_);
  void UpdateManagement(transport::Time now) UROCE_REQUIRES(lock_);
  void Flush(FramePolicy::Flush flush) UROCE_REQUIRES(lock_);
  int RunDeadlines(transport::Time now) UROCE_REQUIRES(lock_);
  int TransmitBurst(transport::Time now) UROCE_REQUIRES(lock_);
  int TransmitToPort(transport::Time now) UROCE_REQUIRES(lock_);
  // Sends until no frame is left, the port is full or `most` are sent; returns how many.
  int Transmit(transport::Time now, transport::Route route, int most, auto has_frame,
               auto poll_frame, auto turns_back) UROCE_REQUIRES(lock_);
  int TransmitFromLinkLayer(transport::Time now) UROCE_REQUIRES(lock_);
  int TransmitTo(transport::Route route, transport::Time now, int most) UROCE_REQUIRES(lock_);
  void Commit(transport::Time now, transport::Route route, const transport::FrameRoom& built,
              size_t frame_bytes) UROCE_REQUIRES(lock_);
  int LoopBack(transport::Time now) UROCE_REQUIRES(lock_);
  void TapLoopedBack(transport::Time now, const transport::FrameRoom& built, size_t frame_bytes)
      UROCE_REQUIRES(lock_);
  bool SendAtOnce(transport::QueuePair& qp) UROCE_REQUIRES(lock_);
  void EndPass() UROCE_REQUIRES(lock_);
  bool HasTransmit() const UROCE_REQUIRES(lock_);
  transport::Time NextDeadline() const UROCE_REQUIRES(lock_);
  void SetTime() UROCE_REQUIRES(lock_);
  bool OwesWakeUp() UROCE_REQUIRES(lock_);
  void FinishVerb() UROCE_RELEASE(lock_);
  void UnlockAndWake() UROCE_RELEASE(lock_);
  void UnlockAndTell() UROCE_RELEASE(lock_);
  void Unlock() UROCE_RELEASE(lock_);
  SleepPlan PlanSleep(transport::Time latest);
  void EndSleep();
  // Whether a thread waits for an answer. The progress thread then polls: a driving application may
  // stop.
  bool answers_awaited() const { return news_.has_waiters(); }
  void MarkForked() UROCE_REQUIRES(lock_);

  EngineLock lock_;
  EngineGroup* united_ UROCE_GUARDED_BY(lock_) = nullptr;  // set once its device unites the engines
  std::unique_ptr<PacketPort> port_ UROCE_PT_GUARDED_BY(lock_);
  const bool port_loops_back_;  // frames that the process sends to itself
  const int wait_fd_;           // of the port
  std::unique_ptr<LinkLayer> link_layer_ UROCE_PT_GUARDED_BY(lock_);
  FrameWatch watch_ UROCE_GUARDED_BY(lock_);
  const EngineOptions::EventSink event_sink_;
  const EngineOptions::ConnectionSink connection_sink_;
  const EngineOptions::NeighborSink neighbor_sink_;
  const ProgressMode mode_;
  const std::unique_ptr<PublishedState> published_state_;
  const std::unique_ptr<PortNotice> port_notice_;
  transport::Endpoint endpoint_ UROCE_GUARDED_BY(lock_);
  EngineClock clock_ UROCE_GUARDED_BY(lock_);
  FramePolicy frame_policy_ UROCE_GUARDED_BY(lock_);
  WakePolicy wake_policy_ UROCE_GUARDED_BY(lock_);
  transport::Time next_link_service_ UROCE_GUARDED_BY(lock_);
  transport::Route next_route_ UROCE_GUARDED_BY(lock_) = transport::Route::kWire;  // sends next
  bool port_active_ UROCE_GUARDED_BY(lock_);          // as last told to the endpoint
  bool port_failed_ UROCE_GUARDED_BY(lock_) = false;  // as told to the endpoint
  LinkedPeers linked_peers_ UROCE_GUARDED_BY(lock_);
  bool has_news_ UROCE_GUARDED_BY(lock_) = false;  // for AskUntilAnswered
  EventCount news_;
  std::string sentence_ UROCE_GUARDED_BY(lock_);  // the port's, logged without the lock
  std::atomic<bool> in_forked_child_{false};
  DrivingNotes notes_;
  // Room for a frame that the port has no room for.
  alignas(64) std::array<uint8_t, transport::kMaxFrameBytes> spare_frame_ UROCE_GUARDED_BY(lock_);
  std::unique_ptr<Progress> progress_;
};

}  // namespace uroce::nic
