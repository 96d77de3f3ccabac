#pragma once

#include <deque>
#include <functional>

#include "dpdk_nic/engine/drive_policy/frame_policy.h"
#include "dpdk_nic/engine/drive_policy/poll_policy.h"
#include "dpdk_nic/engine/drive_policy/progress_policy.h"
#include "dpdk_nic/engine/drive_policy/wake_policy.h"
#include "tests/dpdk_nic/engine/drive_simulation/machine.h"

namespace uroce::nic::simulation {

// The messages of one end. The peer acknowledges each.
struct Messages {
  uint64_t posted = 0;
  uint64_t completed = 0;  // acknowledged by the peer
  uint64_t received = 0;   // in memory
};

// A process with an engine: its progress thread, and a port of system calls to one peer. A pass, a
// verb and the progress thread ask the product's policies as Engine and PollLoop do; protocol and
// port are counters.
class Host {
 public:
  // The costs on the machines of drive_policy/limits.h.
  static constexpr Duration kPassCost{300};
  static constexpr Duration kFrameCost{100};
  static constexpr Duration kFlushCost = transport::Microseconds(2);
  static constexpr Duration kPauseCost{40};
  static constexpr Duration kProgramCost{60};  // between two verbs
  static constexpr Duration kFlight = transport::Microseconds(5);

  Host(Machine& machine, size_t processor);
  void Connect(Host& peer) { peer_ = &peer; }

  // ibv_post_send of one message.
  Task<void> Post(Thread& self);
  // ibv_poll_cq of an empty queue: makes a pass if no other thread does, then pauses.
  Task<void> Poll(Thread& self, PollPolicy& pause);
  // ibv_req_notify_cq, and a wait until something is completed or received.
  Task<void> AwaitEvent(Thread& self);

  const Messages& messages() const { return messages_; }
  Thread& progress_thread() { return *progress_thread_; }
  // The longest time that a frame lay in the port before a pass took it.
  Duration longest_unread() const { return longest_unread_; }
  uint64_t flushes() const { return flushes_; }

 private:
  enum class Kind : uint8_t { kMessage, kAck };
  struct Frame {
    Kind kind;
    uint64_t messages;  // that it acknowledges
    Time arrived;
  };

  Task<void> Drive(Thread& self);
  Task<bool> Pass(Thread& self, Driver driver);
  Task<void> Pause(Thread& self, PollPolicy& policy, PollPolicy::Pause pause);
  Task<void> Flush(Thread& self, FramePolicy::Flush flush);
  Task<bool> Sleep(Thread& self, Time latest, ProgressPolicy::Slept& slept);
  int Receive();
  void Give(const Frame& frame);
  void Deliver(const Frame& frame);
  void EndVerb();
  ProgressPolicy::Company company() const;

  Machine& machine_;
  Host* peer_ = nullptr;
  Messages messages_;
  FramePolicy frames_;
  WakePolicy wakes_;
  bool is_locked_ = false;
  bool is_watched_ = false;
  bool is_armed_ = false;
  Thread* waits_for_event_ = nullptr;
  uint64_t application_work_ = 0;
  uint64_t to_acknowledge_ = 0;
  std::deque<Frame> arrived_;    // at the port, unread
  std::deque<Frame> unflushed_;  // given to the port
  bool wakes_on_arrival_ = false;
  Duration longest_unread_;
  uint64_t flushes_ = 0;
  Thread* progress_thread_;
};

}  // namespace uroce::nic::simulation
