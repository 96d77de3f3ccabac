#include "tests/simulation/completions.h"

#include <array>
#include <utility>

namespace uroce::transport::simulation {

Completions::Completions(Context& context, Endpoint& endpoint, const Config& config, Random random)
    : context_(context),
      endpoint_(endpoint),
      config_(config),
      random_(random),
      queue_(endpoint.CreateCompletionQueue(config.entries, EventListener::context())) {}

Completions::~Completions() { endpoint_.DestroyCompletionQueue(std::move(queue_)); }

void Completions::Poll(const Handler& handler) {
  std::array<Completion, 8> completions;
  bool any = false;
  bool solicited = false;
  while (const uint32_t count = queue_->Poll(completions)) {
    any = true;
    for (uint32_t i = 0; i < count; ++i) solicited |= handler(completions[i]);
  }
  CheckNotification(any, solicited);
}

// A queue is armed only when it is empty, so all completions polled later also came later.
void Completions::CheckNotification(bool any, bool solicited) {
  const bool due = armed_ == NotifyOn::kAny ? any : armed_ == NotifyOn::kSolicited && solicited;
  if (!config_.lenient && due != event_came_) {
    context_.verdict.Fail("a completion queue ", due ? "misses an" : "has an undue", " event");
  }
  if (event_came_) armed_ = NotifyOn::kNothing;
  event_came_ = false;
  if (armed_ == NotifyOn::kNothing && random_.Percent(20)) {
    armed_ = random_.Pick({NotifyOn::kAny, NotifyOn::kSolicited});
    queue_->Arm(armed_);
  }
}

void Completions::Resize() {
  if (queue_->Resize(0) != Status::kInvalidArgument) {
    context_.verdict.Fail("a completion queue takes a size of 0");
  }
  const auto entries = static_cast<uint32_t>(config_.entries + random_.Below(config_.entries + 1));
  if (queue_->Resize(entries) != Status::kOk || queue_->capacity() < entries) {
    context_.verdict.Fail("a completion queue does not take a size of ", entries);
  }
}

void Completions::OnEvent(EventType type) {
  if (type == EventType::kCqError) {
    if (overran_ || !config_.may_overrun) context_.verdict.Fail("a completion queue overran");
    overran_ = true;
    return;
  }
  if (type != EventType::kCompletion || armed_ == NotifyOn::kNothing || event_came_) {
    context_.verdict.Fail("a completion event that nobody asked for");
  }
  event_came_ = true;
}

}  // namespace uroce::transport::simulation
