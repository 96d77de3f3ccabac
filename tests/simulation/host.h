#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tests/simulation/arena.h"
#include "tests/simulation/context.h"
#include "tests/simulation/shared_counters.h"
#include "tests/simulation/wire.h"
#include "transport/endpoint.h"

namespace uroce::transport::simulation {

// A program of a host that wants to look at its completion queues.
class Process {
 public:
  virtual ~Process() = default;
  // Something may have happened at the endpoint.
  virtual void OnActivity() = 0;
};

// An endpoint and the engine's part for it: frames in, frames out, deadlines.
class Host {
 public:
  static constexpr PdId kPd{1};

  // `pacing` is the time between two frames sent; 0 sends all at once. `send` gets every frame.
  Host(Context& context, int index, bool ipv6, Duration pacing, Random random,
       std::function<void(Frame, Route)> send);

  Endpoint& endpoint() { return endpoint_; }
  SharedCounters& counters() { return counters_; }
  const Gid& gid() const { return endpoint_.config().gids[1]; }
  const MacAddress& mac() const { return endpoint_.config().mac; }
  int index() const { return index_; }

  void AddProcess(Process& process) { processes_.push_back(&process); }
  // Set while a shared receive queue is being filled: activity caused by this frees no room.
  bool& fills_queue() { return fills_queue_; }

  void Receive(const Frame& frame, Route from);
  // Posts a request as an engine does.
  Status PostSend(QueuePair& qp, const SendWorkRequest& request);
  // Call after posting work: sends whatever is ready.
  void UpdateAfterEvent();
  // Hands the endpoint's events to their listeners.
  void TakeEvents();

 private:
  void Transmit();
  bool TransmitOne(Route route);
  bool SendAtOnce(QueuePair& qp);
  // Sends the first `length` bytes of the buffer. False if `length` is 0.
  bool SendFrame(size_t length, Route route);
  void ScheduleDeadline();
  void OnDeadline();

  Context& context_;
  int index_;
  Duration pacing_;
  std::function<void(Frame, Route)> send_;
  Endpoint endpoint_;
  SharedCounters counters_;
  std::vector<Process*> processes_;
  std::vector<uint8_t> frame_buffer_;
  Time wakeup_at_ = kNever;  // the simulator calls OnDeadline then
  bool paced_transmit_scheduled_ = false;
  bool fills_queue_ = false;
};

}  // namespace uroce::transport::simulation
