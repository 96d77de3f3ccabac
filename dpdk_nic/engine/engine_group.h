#pragma once

#include <memory>
#include <vector>

#include "dpdk_nic/base/thread_annotations.h"
#include "dpdk_nic/engine/engine.h"
#include "transport/memory/memory_table.h"

namespace uroce::nic {

// The engines of one device. Each has queue pairs, a port, a helper and a lock of its own, so that
// threads whose queue pairs are on different ones do not wait for each other. They share a memory
// table: that of the first engine's endpoint.
//
// Some objects belong to the queue pairs of several engines. Such a device unites its engines: they
// have one lock from then on, and whoever drives one of them drives all.
//
// The analysis of locks follows neither those that a loop takes nor one that stands for another.
class EngineGroup {
 public:
  explicit EngineGroup(std::unique_ptr<Engine> first);
  ~EngineGroup() UROCE_NO_THREAD_SAFETY_ANALYSIS;
  EngineGroup(const EngineGroup&) = delete;
  EngineGroup& operator=(const EngineGroup&) = delete;

  Engine& first() { return first_; }
  transport::MemoryTable& memory() UROCE_NO_THREAD_SAFETY_ANALYSIS;

  // Its endpoint uses memory(). Not once they are united.
  Engine& Add(std::unique_ptr<Engine> engine) UROCE_NO_THREAD_SAFETY_ANALYSIS;
  // A second time changes nothing, and one engine alone is united with nobody.
  void Unite() UROCE_NO_THREAD_SAFETY_ANALYSIS;

  // Holds all engines while it lives: nothing else is done on any of them.
  class Hold {
   public:
    explicit Hold(EngineGroup& group) UROCE_NO_THREAD_SAFETY_ANALYSIS;
    ~Hold() UROCE_NO_THREAD_SAFETY_ANALYSIS;
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    // Of an engine of the group.
    transport::Endpoint& endpoint(Engine& engine) const UROCE_NO_THREAD_SAFETY_ANALYSIS;

   private:
    EngineGroup& group_;
  };

  // The engines that there are now; they last as long as the group.
  std::vector<Engine*> All();

 private:
  friend class Engine;

  // What an engine that is united with the others does with them, under their lock. Completions
  // that a queue pair of one makes may be for a queue of another one: all know the time.
  void SetTime(transport::Time now) UROCE_NO_THREAD_SAFETY_ANALYSIS;
  // Their pass; returns what there was to do.
  int RunOthers(const Engine& driving, transport::Time now,
                Engine::Driver driver) UROCE_NO_THREAD_SAFETY_ANALYSIS;
  // Their end of a pass or a verb.
  void TellOthers(const Engine& telling) UROCE_NO_THREAD_SAFETY_ANALYSIS;

  std::vector<std::unique_ptr<Engine>> engines_;  // protected by the first one's lock
  Engine& first_;
};

}  // namespace uroce::nic
