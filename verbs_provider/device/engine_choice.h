#pragma once

#include <cstdint>
#include <span>

#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/base/thread_annotations.h"
#include "dpdk_nic/device/device.h"

namespace uroce::verbs {

struct CompletionQueue;

// Chooses the engine of each queue pair: with UROCE_ENGINES a device may have several.
//
// Connections that share no completion queue take turns, so that each thread with queues of its own
// has an engine of its own as long as there are enough. Everything else is on the first engine:
// shared receive queues and the queue pairs that use them, datagrams, raw packets, XRC.
class EngineChoice {
 public:
  EngineChoice(nic::Device& device, uint32_t most);

  // Returns the engine for a new queue pair with these completion queues. Moves those to it that no
  // queue pair has used before; if others are on another engine, unites the engines
  // (nic::EngineGroup). May add an engine; where that fails, one sentence on stderr says so, and
  // the first engine takes the queue pair.
  nic::Engine& ForConnection(std::span<CompletionQueue* const> queues);
  // The same for a queue pair that has to be on the first engine.
  nic::Engine& ForOther(std::span<CompletionQueue* const> queues);

  // Unites the engines, because queue pairs are going to change what all engines share.
  void Unite();

 private:
  nic::Engine& Next() UROCE_REQUIRES(lock_);
  void Settle(std::span<CompletionQueue* const> queues, nic::Engine& engine) UROCE_REQUIRES(lock_);
  void UniteLocked() UROCE_REQUIRES(lock_);

  nic::Device& device_;
  nic::Mutex lock_;
  uint32_t most_ UROCE_GUARDED_BY(lock_);  // engines to choose among; 1 after Unite()
  uint32_t turn_ UROCE_GUARDED_BY(lock_) = 0;
};

}  // namespace uroce::verbs
