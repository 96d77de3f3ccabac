#pragma once

#include <memory>
#include <vector>

#include "dpdk_nic/base/thread_annotations.h"
#include "dpdk_nic/engine/engine.h"
#include "transport/memory/memory_table.h"

namespace uroce::nic {

// The engines of one device. Each has queue pairs, a port, a progress thread and a lock of its own,
// so that threads whose queue pairs are on different ones do not wait for each other. They share a
// memory table: that of the first engine's endpoint.
//
// If an object belongs to queue pairs of several engines, the device unites its engines: from then
// on they share one lock, and a thread that drives one of them drives all.
//
// Clang's analysis follows neither locks that a loop takes nor a lock that stands for another.
class EngineGroup {
 public:
  explicit EngineGroup(std::unique_ptr<Engine> first);
  ~EngineGroup() UROCE_NO_THREAD_SAFETY_ANALYSIS;
  EngineGroup(const EngineGroup&) = delete;
  EngineGroup& operator=(const EngineGroup&) = delete;

  Engine& first() { return first_; }
  transport::MemoryTable& memory() UROCE_NO_THREAD_SAFETY_ANALYSIS;

  // The endpoint of `engine` has to use memory(). Not to be called after Unite().
  Engine& Add(std::unique_ptr<Engine> engine) UROCE_NO_THREAD_SAFETY_ANALYSIS;
  // A second call changes nothing; nor does a call for a single engine.
  void Unite() UROCE_NO_THREAD_SAFETY_ANALYSIS;

  // Holds the locks of all engines while it lives.
  class Hold {
   public:
    explicit Hold(EngineGroup& group) UROCE_NO_THREAD_SAFETY_ANALYSIS;
    ~Hold() UROCE_NO_THREAD_SAFETY_ANALYSIS;
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    // `engine` belongs to the group.
    transport::Endpoint& endpoint(Engine& engine) const UROCE_NO_THREAD_SAFETY_ANALYSIS;

   private:
    EngineGroup& group_;
  };

  // All engines so far; they last as long as the group.
  std::vector<Engine*> All();

 private:
  friend class Engine;

  // A united engine calls these under the common lock. SetTime tells all engines the time: a queue
  // pair of one may complete into a queue of another.
  void SetTime(transport::Time now) UROCE_NO_THREAD_SAFETY_ANALYSIS;
  // Makes a pass of all other engines; returns the number of frames and deadlines.
  int RunOthers(const Engine& driving, transport::Time now,
                Driver driver) UROCE_NO_THREAD_SAFETY_ANALYSIS;
  // Ends a pass or a verb for all other engines.
  void TellOthers(const Engine& telling) UROCE_NO_THREAD_SAFETY_ANALYSIS;

  std::vector<std::unique_ptr<Engine>> engines_;  // protected by the first one's lock
  Engine& first_;
};

}  // namespace uroce::nic
