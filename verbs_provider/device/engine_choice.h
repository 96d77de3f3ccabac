#pragma once

#include <cstdint>
#include <mutex>
#include <span>

#include "dpdk_nic/device/device.h"

namespace uroce::verbs {

struct CompletionQueue;

// Which of a device's engines a queue pair is on: with UROCE_ENGINES there may be several.
//
// Connections that share no completion queue take turns, so that each thread with queues of its own
// has an engine of its own as long as there are enough. All else is on the first engine: shared
// receive queues and what uses them, datagrams, raw packets, XRC.
class EngineChoice {
 public:
  EngineChoice(nic::Device& device, uint32_t most);

  // The engine for a new queue pair with these completion queues; they are on it from then on, if
  // no queue pair has used them before. Engines that a queue pair ties together are united
  // (nic::EngineGroup). May add an engine; where that fails, one sentence on stderr says so, and
  // the first engine takes the queue pair.
  nic::Engine& ForConnection(std::span<CompletionQueue* const> queues);
  // The same for a queue pair that has to be on the first engine.
  nic::Engine& ForOther(std::span<CompletionQueue* const> queues);

  // Queue pairs are going to change what those of all engines use.
  void Unite();

 private:
  nic::Engine& Next();
  void Settle(std::span<CompletionQueue* const> queues, nic::Engine& engine);
  void UniteLocked();

  nic::Device& device_;
  std::mutex lock_;
  uint32_t most_;  // 1: the choice is made
  uint32_t turn_ = 0;
};

}  // namespace uroce::verbs
