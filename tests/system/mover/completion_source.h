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

  // With `use_events` an empty queue is waited for on a completion channel, else it is polled.
  // Throws std::runtime_error, as every member does.
  CompletionSource(ibv_context* context, int entries, bool use_events);

  ibv_cq* send_queue() const { return send_queue_.get(); }
  ibv_cq* receive_queue() const { return receive_queue_.get(); }

  // Hands over what is there, or waits some milliseconds for it. Returns how many there were.
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
