#include "verbs_provider/device/engine_choice.h"

#include <vector>

#include "dpdk_nic/base/log.h"
#include "transport/endpoint.h"
#include "verbs_provider/objects/async_events.h"
#include "verbs_provider/objects/completion_queue.h"

namespace uroce::verbs {
namespace {

// The event sink of all engines but the first: only the first reports the port and its addresses.
void DeliverEventOfAnother(const transport::Event& event) {
  switch (event.type) {
    case transport::EventType::kPortActive:
    case transport::EventType::kPortError:
    case transport::EventType::kGidChange:
      return;
    default:
      DeliverEvent(event);
  }
}

}  // namespace

EngineChoice::EngineChoice(nic::Device& device, uint32_t most) : device_(device), most_(most) {}

nic::Engine& EngineChoice::ForConnection(std::span<CompletionQueue* const> queues) {
  const nic::MutexLock lock(lock_);
  nic::Engine* engine = nullptr;
  for (const CompletionQueue* cq : queues) {
    if (engine == nullptr && cq->is_settled) engine = &cq->engine();
  }
  if (engine == nullptr) engine = &Next();
  Settle(queues, *engine);
  return *engine;
}

nic::Engine& EngineChoice::ForOther(std::span<CompletionQueue* const> queues) {
  const nic::MutexLock lock(lock_);
  nic::Engine& first = device_.engines().first();
  Settle(queues, first);
  return first;
}

nic::Engine& EngineChoice::Next() {
  const uint32_t turn = turn_++ % most_;
  const std::vector<nic::Engine*> engines = device_.engines().All();
  if (turn < engines.size()) return *engines[turn];
  const auto added = device_.AddEngine(DeliverEventOfAnother);
  if (!added.ok()) {
    most_ = static_cast<uint32_t>(engines.size());
    nic::Log(nic::LogLevel::kWarning,
             "there are fewer engines than UROCE_ENGINES says: " + added.error());
    return *engines.front();
  }
  return *added.value();
}

void EngineChoice::Settle(std::span<CompletionQueue* const> queues, nic::Engine& engine) {
  for (CompletionQueue* cq : queues) {
    const bool is_elsewhere = &cq->engine() != &engine;
    if (is_elsewhere && cq->is_settled) UniteLocked();
    if (is_elsewhere && !cq->is_settled) MoveTo(*cq, engine);
    cq->is_settled = true;
  }
}

void EngineChoice::Unite() {
  const nic::MutexLock lock(lock_);
  UniteLocked();
}

void EngineChoice::UniteLocked() {
  device_.engines().Unite();
  most_ = 1;
}

}  // namespace uroce::verbs
