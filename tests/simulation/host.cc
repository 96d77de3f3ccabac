#include "tests/simulation/host.h"

#include <utility>

#include "tests/simulation/event_listener.h"
#include "transport/wire/frame_builder.h"

namespace uroce::transport::simulation {

namespace {

EndpointConfig MakeConfig(const Context& context, int index, bool ipv6) {
  const auto number = static_cast<uint8_t>(index + 1);
  EndpointConfig config;
  config.mac = MacAddress{0x02, 0, 0, 0, 0, number};
  config.gids = {Gid::LinkLocal(config.mac),
                 ipv6 ? Gid{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number}}
                      : Gid::FromIpv4({10, 0, 0, number})};
  // No other host uses these numbers, so a number names one queue pair in the whole simulation.
  config.first_qpn = Qpn{0x1000u * number};
  config.qpn_count = 256;
  config.probes = index % 2 == 0;
  config.congestion = index % 3 == 0 ? Congestion::kModel : Congestion::kNone;
  // Some keep no early packets, and some run out of room for them.
  constexpr uint32_t kReorderPackets[] = {200, 0, 12};
  config.reorder_packets = kReorderPackets[index % 3];
  config.uses_prediction = context.uses_prediction;
  config.seed = {static_cast<uint64_t>(index) + 1, 77};
  return config;
}

}  // namespace

Host::Host(Context& context, int index, bool ipv6, Duration pacing, Random random,
           std::function<void(Frame, Route)> send)
    : context_(context),
      index_(index),
      pacing_(pacing),
      send_(std::move(send)),
      endpoint_(MakeConfig(context, index, ipv6)),
      counters_(endpoint_.memory(), kPd, random),
      frame_buffer_(kMaxFrameBytes) {}

void Host::Receive(const Frame& frame, Route from) {
  context_.trace.OnFrame(context_.simulator.now(), "receives", index_, frame);
  context_.monitor.OnDelivered(frame);
  endpoint_.OnFrame(context_.simulator.now(), frame, from);
  UpdateAfterEvent();
}

void Host::UpdateAfterEvent() {
  Transmit();
  TakeEvents();
  for (Process* process : processes_) process->OnActivity();
  ScheduleDeadline();
}

void Host::Transmit() {
  if (paced_transmit_scheduled_) return;
  // A datagram queue pair alternates between routes.
  while (TransmitOne(Route::kLoopback) || TransmitOne(Route::kWire)) {
    if (pacing_.ns == 0) continue;
    paced_transmit_scheduled_ = true;
    context_.simulator.After(pacing_, [this] {
      paced_transmit_scheduled_ = false;
      UpdateAfterEvent();
    });
    return;
  }
}

Status Host::PostSend(QueuePair& qp, const SendWorkRequest& request) {
  const Status status = qp.QueueSend(request);
  if (status == Status::kOk && !SendAtOnce(qp)) qp.SendsPosted();
  return status;
}

bool Host::SendAtOnce(QueuePair& qp) {
  if (!context_.sends_at_once || !endpoint_.MaySendAtOnce(qp)) return false;
  const Route route = qp.route();
  return SendFrame(endpoint_.BuildAtOnce(context_.simulator.now(), qp, frame_buffer_), route);
}

bool Host::TransmitOne(Route route) {
  if (!endpoint_.HasTransmit(route)) return false;
  return SendFrame(endpoint_.PollTransmit(context_.simulator.now(), route, frame_buffer_), route);
}

bool Host::SendFrame(size_t length, Route route) {
  if (length == 0) return false;
  if (length > frame_buffer_.size()) {
    context_.verdict.Fail("a frame of ", length, " bytes");
    return false;
  }
  const auto end = frame_buffer_.begin() + static_cast<std::ptrdiff_t>(length);
  Frame frame(frame_buffer_.begin(), end);
  context_.trace.OnFrame(context_.simulator.now(), "sends", index_, frame);
  context_.monitor.OnSent(frame);
  send_(std::move(frame), route);
  return !context_.verdict.failed();
}

void Host::TakeEvents() {
  while (const auto event = endpoint_.TakeEvent()) {
    context_.trace.OnEvent(
        context_.simulator.now(), "event",
        {{"host", static_cast<uint64_t>(index_)}, {"type", static_cast<uint64_t>(event->type)}});
    if (event->context != nullptr) EventListener::From(event->context)->OnEvent(event->type);
  }
}

void Host::ScheduleDeadline() {
  const Time deadline = endpoint_.NextDeadline();
  if (deadline >= wakeup_at_) return;  // the simulator calls before that anyway
  wakeup_at_ = deadline;
  context_.simulator.At(deadline, [this, deadline] {
    if (wakeup_at_ == deadline) OnDeadline();
  });
}

void Host::OnDeadline() {
  const Time now = context_.simulator.now();
  wakeup_at_ = kNever;
  if (endpoint_.NextDeadline() <= now) {
    endpoint_.OnDeadline(now);
    if (endpoint_.NextDeadline() <= now) {
      context_.verdict.Fail("host ", index_, " has a deadline in the past after OnDeadline");
    }
  }
  UpdateAfterEvent();
}

}  // namespace uroce::transport::simulation
