#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/system/mover/completion_source.h"
#include "tests/system/mover/control_channel.h"
#include "tests/system/mover/initiator.h"
#include "tests/system/mover/round_plan.h"
#include "tests/system/mover/target.h"
#include "tests/system/verbs/device.h"
#include "tests/system/verbs/rc_queue_pair.h"

namespace mover {

struct SessionOptions {
  bool is_client;
  bool use_events;
  system_test::RcSettings rc;
};

// One end of a run: all queue pairs, in both directions.
class Session {
 public:
  // Connects the queue pairs. Throws std::runtime_error, as Run does.
  Session(const system_test::Device& device, ControlChannel* channel, const Workload& workload,
          const SessionOptions& options);

  // Carries out and verifies every round.
  void Run();
  // Counts of this end's operations as an initiator: "bytes=N send=N ...".
  std::string Summary() const;

 private:
  // This end of both streams of one queue pair: an initiator and a target.
  struct Pair {
    std::unique_ptr<system_test::RcQueuePair> queue_pair;
    std::unique_ptr<Initiator> initiator;
    std::unique_ptr<Target> target;
    RoundPlan outgoing;
    RoundPlan incoming;
  };

  void Connect();
  void RunRound(uint32_t round);
  void Prepare(uint32_t round);
  void ExchangeArenas();
  void MoveData();
  void Verify(uint32_t round);
  void InvalidateWindows();
  // Waits for `count` successful completions of window operations.
  void AwaitWindowRequests(uint32_t count);
  [[noreturn]] void GiveUp() const;
  Direction outgoing_direction() const;
  Direction incoming_direction() const;
  Pair& PairOf(const ibv_wc& completion);

  const system_test::Device& device_;
  ControlChannel* channel_;
  Workload workload_;
  SessionOptions options_;
  system_test::DomainHandle domain_;
  std::unique_ptr<CompletionSource> completions_;
  std::vector<Pair> pairs_;
  std::map<uint32_t, size_t> index_of_qp_;
  uint64_t bytes_ = 0;
  std::map<Kind, uint64_t> operations_;
};

}  // namespace mover
