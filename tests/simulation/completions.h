#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "tests/simulation/context.h"
#include "tests/simulation/event_listener.h"
#include "tests/simulation/random.h"
#include "transport/completion_queue.h"
#include "transport/endpoint.h"

namespace uroce::transport::simulation {

// A completion queue as an application uses it: polled to the end, armed now and then, resized
// while completions come. Checks the events of the queue.
class Completions : public EventListener {
 public:
  struct Config {
    uint32_t entries = 0;      // most completions there may be at once
    bool may_overrun = false;  // there may be more than `entries`
    bool lenient = false;      // any completion may come
  };
  // Returns whether the completion counts as solicited.
  using Handler = std::function<bool(const Completion&)>;

  Completions(Context& context, Endpoint& endpoint, const Config& config, Random random);
  ~Completions() override;

  void Poll(const Handler& handler);
  // Makes the queue larger or smaller, but never too small.
  void Resize();

  void OnEvent(EventType type) override;

  CompletionQueue* queue() { return queue_.get(); }
  bool empty() const { return queue_->empty(); }
  // A completion was lost.
  bool overran() const { return overran_; }

 private:
  using NotifyOn = CompletionQueue::NotifyOn;

  void CheckNotification(bool any, bool solicited);

  Context& context_;
  Endpoint& endpoint_;
  Config config_;
  Random random_;
  std::unique_ptr<CompletionQueue> queue_;
  NotifyOn armed_ = NotifyOn::kNothing;
  bool event_came_ = false;
  bool overran_ = false;
};

}  // namespace uroce::transport::simulation
