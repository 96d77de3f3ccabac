#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <chrono>
#include <functional>

#include "tests/system/verbs/handles.h"

namespace mover {

// The completion queues of one end: one for all sends, one for all receives.
class CompletionSource {
 public:
  using Handler = std::function<void(const ibv_wc&)>;

  // With `use_events` Handle waits on a completion channel while the queues are empty; else it
  // polls. Throws std::runtime_error, as every member does.
  CompletionSource(ibv_context* context, int entries, bool use_events);

  ibv_cq* send_queue() const { return send_queue_.get(); }
  ibv_cq* receive_queue() const { return receive_queue_.get(); }

  // Hands over the completions that are there, or waits up to 0.1 s for some. Returns how many.
  int Handle(const Handler& on_send, const Handler& on_receive);
  // Throws if there is a completion.
  void ExpectNone();

 private:
  int Poll(ibv_cq* queue, const Handler& handler);
  void WaitForEvent();

  bool use_events_;
  system_test::ChannelHandle channel_;
  system_test::QueueHandle send_queue_;
  system_test::QueueHandle receive_queue_;
};

}  // namespace mover
