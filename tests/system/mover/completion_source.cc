#include "tests/system/mover/completion_source.h"

#include <poll.h>

#include <cerrno>
#include <stdexcept>

namespace mover {
namespace {

using system_test::Fail;

constexpr int kTimeoutMs = 100;
constexpr int kAnyCompletion = 0;  // not only those of solicited messages

}  // namespace

CompletionSource::CompletionSource(ibv_context* context, int entries, bool use_events)
    : use_events_(use_events) {
  channel_.reset(ibv_create_comp_channel(context));
  if (channel_ == nullptr) Fail("ibv_create_comp_channel", errno);
  send_queue_.reset(ibv_create_cq(context, entries, nullptr, channel_.get(), 0));
  if (send_queue_ == nullptr) Fail("ibv_create_cq", errno);
  receive_queue_.reset(ibv_create_cq(context, entries, nullptr, channel_.get(), 0));
  if (receive_queue_ == nullptr) Fail("ibv_create_cq", errno);
}

int CompletionSource::Handle(const Handler& on_send, const Handler& on_receive) {
  const auto poll_both = [&] {
    return Poll(send_queue(), on_send) + Poll(receive_queue(), on_receive);
  };
  int count = poll_both();
  if (count > 0 || !use_events_) return count;
  for (ibv_cq* queue : {send_queue(), receive_queue()}) {
    const int error = ibv_req_notify_cq(queue, kAnyCompletion);
    if (error != 0) Fail("ibv_req_notify_cq", error);
  }
  // A completion from before the request causes no event.
  count = poll_both();
  if (count == 0) WaitForEvent();
  return count;
}

int CompletionSource::Poll(ibv_cq* queue, const Handler& handler) {
  std::array<ibv_wc, 16> completions;
  const int count = ibv_poll_cq(queue, completions.size(), completions.data());
  if (count < 0) Fail("ibv_poll_cq", errno);
  for (int i = 0; i < count; ++i) handler(completions[static_cast<size_t>(i)]);
  return count;
}

void CompletionSource::WaitForEvent() {
  pollfd waiting{.fd = channel_->fd, .events = POLLIN, .revents = 0};
  if (poll(&waiting, 1, kTimeoutMs) <= 0) return;
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(channel_.get(), &queue, &context) != 0) Fail("ibv_get_cq_event", errno);
  if (queue != send_queue() && queue != receive_queue()) {
    throw std::runtime_error("an event of an unknown completion queue");
  }
  ibv_ack_cq_events(queue, 1);
}

void CompletionSource::ExpectNone() {
  const auto refuse = [](const ibv_wc&) {
    throw std::runtime_error("a completion after the last one");
  };
  Poll(send_queue(), refuse);
  Poll(receive_queue(), refuse);
}

}  // namespace mover
