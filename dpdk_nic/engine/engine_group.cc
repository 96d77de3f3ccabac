#include "dpdk_nic/engine/engine_group.h"

#include <utility>

#include "dpdk_nic/engine/progress.h"

namespace uroce::nic {

EngineGroup::EngineGroup(std::unique_ptr<Engine> first) : first_(*first) {
  engines_.push_back(std::move(first));
}

// The first engine is destroyed last: the others use its memory table, and may use its lock.
EngineGroup::~EngineGroup() {
  if (engines_.size() > 1) {
    const Hold hold(*this);
    for (const auto& engine : engines_) engine->united_ = nullptr;
  }
  while (!engines_.empty()) engines_.pop_back();
}

transport::MemoryTable& EngineGroup::memory() { return first_.endpoint_.memory(); }

Engine& EngineGroup::Add(std::unique_ptr<Engine> engine) {
  const Hold hold(*this);
  // The end of `hold` unlocks the new engine, too, which its constructor did not lock.
  engine->lock_.Lock();
  engines_.push_back(std::move(engine));
  return *engines_.back();
}

void EngineGroup::Unite() {
  const Hold hold(*this);
  if (engines_.size() == 1 || first_.united_ != nullptr) return;
  for (const auto& engine : engines_) {
    engine->united_ = this;
    if (engine.get() != &first_) engine->lock_.Join(first_.lock_);
  }
}

// Locks join under the first engine's lock: its holder knows which locks are left to take.
EngineGroup::Hold::Hold(EngineGroup& group) : group_(group) {
  group.first_.lock_.Lock();
  for (const auto& engine : group.engines_) {
    const bool is_held = engine.get() == &group.first_ || engine->lock_.has_joined();
    if (!is_held) engine->lock_.Lock();
  }
}

EngineGroup::Hold::~Hold() {
  for (const auto& engine : group_.engines_) {
    const bool is_first = engine.get() == &group_.first_;
    if (!is_first && !engine->lock_.has_joined()) engine->lock_.Unlock();
  }
  group_.first_.lock_.Unlock();
}

transport::Endpoint& EngineGroup::Hold::endpoint(Engine& engine) const { return engine.endpoint_; }

void EngineGroup::SetTime(transport::Time now) {
  for (const auto& engine : engines_) engine->endpoint_.SetTime(now);
}

int EngineGroup::RunOthers(const Engine& driving, transport::Time now, Driver driver) {
  int done = 0;
  for (const auto& other : engines_) {
    if (other.get() != &driving) done += other->RunOnce(now, driver);
  }
  return done;
}

// The sentences of other engines are logged by their threads, without the lock.
void EngineGroup::TellOthers(const Engine& telling) {
  for (const auto& other : engines_) {
    if (other.get() == &telling) continue;
    other->EndPass();
    if (std::exchange(other->has_news_, false)) {
      other->news_.Count();
      other->news_.Wake();
    }
    if (other->OwesWakeUp() || !other->sentence_.empty()) other->progress_->Wake();
  }
}

std::vector<Engine*> EngineGroup::All() {
  const EngineLockGuard lock(first_.lock_);
  std::vector<Engine*> all;
  for (const auto& engine : engines_) all.push_back(engine.get());
  return all;
}

}  // namespace uroce::nic
