#include "dpdk_nic/engine/engine.h"

#include <algorithm>
#include <utility>

#include "dpdk_nic/base/cancellation_guard.h"
#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/base/log.h"
#include "dpdk_nic/engine/engine_group.h"
#include "dpdk_nic/engine/fork_handler.h"
#include "dpdk_nic/engine/polling_pause.h"
#include "dpdk_nic/engine/progress.h"
#include "transport/wire/bare_frame.h"
#include "transport/wire/encapsulation.h"

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::Gid;
using transport::IcrcUse;
using transport::kNever;
using transport::MacAddress;
using transport::Route;
using transport::Time;

// Frames that a pass receives before it answers: their acknowledgements are sent together.
constexpr int kReceiveBurst = 64;
// If a peer waits for an ACK, it is sent in the middle of a burst, but not before so many frames.
// With 8 of them a program that waits for every ACK was slower than without such early ACKs.
constexpr int kAckWorthwhile = 16;
// Frames that a pass sends before it receives again.
constexpr int kTransmitBurst = 64;
constexpr int kLoopbackBurst = 64;
// Frames that a pass receives, burst after burst, while a timer has run out: the response that it
// misses may be among them. As many as a link holds.
constexpr int kMostBeforeTimers = 512;

constexpr char kOverrunSentence[] =
    "a completion queue of this program was full when one more completion came (CQ overrun): the "
    "completion is lost, and its queue pair goes to the error state; create the queue for as many "
    "completions as may wait in it, or poll it sooner";

constexpr Duration kLinkServiceInterval = transport::Milliseconds(1);

// Decides only whether the transport or the link layer looks at a frame first.
bool MayBeRoce(std::span<const uint8_t> frame) {
  return transport::IsBareFrame(frame) || transport::IsUdp(frame);
}

// A port that carries loopback also returns multicast frames to own members, so that its faults
// apply to them, too.
transport::EndpointConfig ForPort(transport::EndpointConfig config, PacketPort& port) {
  config.copies_to_own_members = !port.carries_loopback();
  config.peer_progress = &port;
  return config;
}

}  // namespace

Engine::Engine(std::unique_ptr<PacketPort> port, const transport::EndpointConfig& config,
               Options options)
    : port_(std::move(port)),
      port_loops_back_(port_->carries_loopback()),
      wait_fd_(port_->wait_fd()),
      link_layer_(options.link_layer ? std::move(options.link_layer)
                                     : std::make_unique<StaticNeighbors>()),
      watch_(std::move(options.tap), port_->carries_ethernet()),
      event_sink_(std::move(options.event_sink)),
      connection_sink_(std::move(options.connection_sink)),
      neighbor_sink_(std::move(options.neighbor_sink)),
      mode_(options.mode),
      published_state_(std::move(options.published_state)),
      port_notice_(std::move(options.port_notice)),
      endpoint_(ForPort(config, *port_),
                published_state_ == nullptr ? nullptr : published_state_->endpoint()),
      port_active_(port_->active()),
      progress_(std::make_unique<Progress>(*this, options)) {
  ForkHandler::Add(*this);
}

Engine::~Engine() {
  progress_.reset();
  if (!in_forked_child()) port_->Flush();
  ForkHandler::RemoveAndClosePort(*this);
}

// A pass receives first and sends last, so that frames that arrived together are acknowledged
// together.
int Engine::RunOnce(Time now, Driver driver) {
  if (united_ != nullptr) [[unlikely]]
    united_->SetTime(now);
  int received = 0;
  int burst = 0;
  do {
    burst = ReceiveBurst(now);
    received += burst;
  } while (burst == kReceiveBurst && received < kMostBeforeTimers &&
           endpoint_.NextDeadline() <= now);
  const int due = RunDeadlines(now);
  // Held answers count as work: the progress thread makes another pass at once.
  const bool holds = frame_policy_.HoldsAnswers(now, driver, received);
  const int sent = holds ? 1 : TransmitBurst(now);
  Flush(frame_policy_.AfterPass(now, driver, received != 0, sent != 0, notes_.is_watched()));
  if (!holds) linked_peers_.TellAnswered(endpoint_, *port_);
  EndPass();
  return received + due + sent;
}

void Engine::Flush(FramePolicy::Flush flush) {
  if (flush == FramePolicy::Flush::kSoon) port_->FlushSoon();
  if (flush == FramePolicy::Flush::kNow) port_->Flush();
}

int Engine::ReceiveBurst(Time now) {
  frame_policy_.ReceiveBegins();
  if (now >= next_link_service_) ServeLink(now);
  port_->BeginReceiveBurst();
  int received = 0;
  int unanswered = 0;
  while (received < kReceiveBurst) {
    const PacketPort::ReceivedFrame frame =
        watch_.is_on() ? port_->ReceiveEthernet(spare_frame_) : port_->Receive();
    if (frame.bytes.empty()) break;
    linked_peers_.NoteFrame(frame.from);
    Accept(now, frame);
    port_->ReleaseReceived();
    ++received;
    if (++unanswered >= kAckWorthwhile && endpoint_.is_ack_wanted()) {
      TransmitBurst(now);
      unanswered = 0;
    }
  }
  return received;
}

FrameWatch& Engine::frame_watch(const Verb&) {
  lock_.AssertHeld();
  return watch_;
}

void Engine::ServeLink(Time now) {
  const CancellationGuard guard;
  next_link_service_ = now + kLinkServiceInterval;
  port_->ServeLink();
  if (published_state_ != nullptr && published_state_->are_port_counters_due(now)) {
    published_state_->SetPortCounters(now, port_->counters());
  }
  has_news_ = true;
  if (sentence_.empty()) sentence_ = port_->TakeNotice().sentence;
  if (sentence_.empty()) sentence_ = watch_.TakeNotice();
  const std::string ends = LinkedPeers::FollowEnds(endpoint_, *port_);
  if (sentence_.empty()) sentence_ = ends;
  FollowNeighbors();
  FollowPort();
  if (!port_failed_ && port_->failed()) {
    port_failed_ = true;
    endpoint_.Fail();
  }
}

void Engine::FollowPort() {
  const bool is_changed = port_active_ != port_->active();
  if (is_changed) {
    port_active_ = !port_active_;
    endpoint_.TellPortState(port_active_);
  }
  const auto gids = port_->TakeGids();
  if (gids) endpoint_.FollowGids(*gids);
  if (port_notice_ != nullptr && (is_changed || gids)) {
    port_notice_->SetPort(endpoint_.config().gids, port_active_);
  }
}

void Engine::Accept(Time now, const PacketPort::ReceivedFrame& frame) {
  auto receiver = FrameWatch::Receiver::kEndpoint;
  if (watch_.is_on()) [[unlikely]]
    receiver = watch_.OnReceived(now, frame, endpoint_);
  if (frame.packet != nullptr) {
    endpoint_.OnPacket(now, *frame.packet);
    return;
  }
  if (MayBeRoce(frame.bytes) || !link_layer_->OnFrame(now, frame.bytes)) {
    if (receiver == FrameWatch::Receiver::kEndpoint) [[likely]] {
      endpoint_.OnFrame(now, frame.bytes, frame.from, frame.icrc);
    } else if (receiver == FrameWatch::Receiver::kNobody) {
      endpoint_.OnRawFrame(now, frame.bytes, {});
    }
    return;
  }
  FollowNeighbors();
}

void Engine::FollowNeighbors() {
  while (const auto neighbor = link_layer_->TakeChange()) {
    has_news_ = true;
    endpoint_.UpdateNeighbor(neighbor->gid, neighbor->mac);
    if (neighbor_sink_) neighbor_sink_(neighbor->gid, neighbor->mac);
  }
}

// nullopt if the address is not known; the link layer then asks for it.
std::optional<MacAddress> Engine::NeighborNow(Time now, const Gid& gid) {
  const bool is_own = endpoint_.config().FindGid(gid) >= 0;
  return is_own ? endpoint_.config().mac : link_layer_->Resolve(now, gid);
}

// Resolves the neighbours that datagrams of the connection manager wait for.
void Engine::ResolveForManagement(Time now) {
  transport::GeneralServices* const services = endpoint_.general_services();
  if (services == nullptr || !services->WantsNeighbors()) return;
  services->Resolve(now, [&](const Gid& gid) {
    lock_.AssertHeld();
    return NeighborNow(now, gid);
  });
}

Engine::ManagementEnd::~ManagementEnd() {
  engine.lock_.AssertHeld();
  engine.UpdateManagement(now);
}

void Engine::UpdateManagement(Time now) {
  endpoint_.UseGeneralServices().Update(now);
  if (!in_forked_child()) ResolveForManagement(now);
}

int Engine::RunDeadlines(Time now) {
  int done = 0;
  if (endpoint_.NextDeadline() <= now) {
    endpoint_.OnDeadline(now);
    ++done;
  }
  if (link_layer_->NextDeadline() <= now) {
    link_layer_->OnDeadline(now);
    ++done;
  }
  return done;
}

int Engine::TransmitBurst(Time now) {
  endpoint_.TellAcksSent();
  ResolveForManagement(now);
  const int sent = TransmitToPort(now);
  return port_loops_back_ ? sent : sent + LoopBack(now);
}

// Routes take turns: a route with more to send than a burst does not keep the others waiting.
int Engine::TransmitToPort(Time now) {
  int sent = TransmitFromLinkLayer(now);
  Route from = next_route_;
  next_route_ = Route::kWire;
  while (const auto route = endpoint_.FirstTransmit(from)) {
    const auto next = static_cast<Route>(static_cast<uint16_t>(*route) + 1);
    if (sent == kTransmitBurst) {
      next_route_ = *route;
      break;
    }
    const bool by_port = *route != Route::kLoopback || port_loops_back_;
    if (by_port) sent += TransmitTo(*route, now, kTransmitBurst - sent);
    from = next;
  }
  return sent;
}

int Engine::Transmit(Time now, Route route, int most, auto has_frame, auto poll_frame,
                     auto turns_back) {
  int sent = 0;
  while (sent < most && has_frame()) {
    const transport::FrameRoom room = port_->AcquireTransmit(route);
    if (room.empty()) break;  // back-pressure
    const size_t frame_bytes = poll_frame(room);
    if (frame_bytes == 0) break;
    ++sent;
    if (turns_back(room, frame_bytes)) [[unlikely]]
      continue;
    Commit(now, route, room, frame_bytes);
  }
  return sent;
}

int Engine::TransmitFromLinkLayer(Time now) {
  LinkLayer& link_layer = *link_layer_;
  return Transmit(
      now, Route::kWire, kTransmitBurst, [&] { return link_layer.HasTransmit(); },
      [&](std::span<uint8_t> room) { return link_layer.PollTransmit(now, room); },
      [](const transport::FrameRoom&, size_t) { return false; });
}

int Engine::TransmitTo(Route route, Time now, int most) {
  transport::Endpoint* const endpoint = &endpoint_;
  return Transmit(
      now, route, most, [&] { return endpoint->HasTransmit(route); },
      [&](const transport::FrameRoom& room) { return endpoint->PollTransmit(now, route, room); },
      [&](const transport::FrameRoom& built, size_t frame_bytes) {
        lock_.AssertHeld();
        return watch_.is_on() && route == Route::kWire && built.flow == nullptr &&
               watch_.TurnsBack(now, built.first(frame_bytes), *endpoint);
      });
}

void Engine::Commit(Time now, Route route, const transport::FrameRoom& built, size_t frame_bytes) {
  if (watch_.is_on()) [[unlikely]] {
    using Direction = FrameTap::Direction;
    const bool is_looped_back = route == Route::kLoopback;
    watch_.OnSent(now, is_looped_back ? Direction::kLoopedBack : Direction::kSent,
                  transport::BuiltFrame(built, frame_bytes, spare_frame_), built.icrc, endpoint_);
  }
  port_->CommitTransmit(frame_bytes);
  frame_policy_.FrameGiven();
}

// No other process can change these packets between building and reading: they need no ICRC.
int Engine::LoopBack(Time now) {
  transport::Flow flow;
  transport::FrameRoom room(spare_frame_, IcrcUse::kWaived);
  room.flow = &flow;
  int looped = 0;
  while (looped < kLoopbackBurst && endpoint_.HasTransmit(Route::kLoopback)) {
    const size_t frame_bytes = endpoint_.PollTransmit(now, Route::kLoopback, room);
    if (frame_bytes == 0) break;
    if (watch_.is_on()) [[unlikely]]
      TapLoopedBack(now, room, frame_bytes);
    const size_t around = transport::NetworkHeaderBytes(flow) + transport::kIcrcBytes;
    endpoint_.OnPacket(now, {.flow = &flow,
                             .bytes = room.first(frame_bytes - around),
                             .from = Route::kLoopback,
                             .frame_bytes = frame_bytes});
    ++looped;
  }
  return looped;
}

void Engine::TapLoopedBack(Time now, const transport::FrameRoom& built, size_t frame_bytes) {
  std::array<uint8_t, transport::kMaxFrameBytes> copy;
  watch_.OnSent(now, FrameTap::Direction::kLoopedBack,
                transport::BuiltFrame(built, frame_bytes, copy), built.icrc, endpoint_);
}

void Engine::EndPass() {
  watch_.EndBurst();
  while (const auto event = endpoint_.TakeEvent()) {
    const CancellationGuard guard;
    if (event->type == transport::EventType::kCqError && sentence_.empty()) {
      sentence_ = kOverrunSentence;
    }
    if (event_sink_) event_sink_(*event);
  }
  transport::GeneralServices* const services = endpoint_.general_services();
  if (services == nullptr) [[likely]]
    return;
  if (!connection_sink_ || !services->connection_manager().HasEvent()) return;
  const CancellationGuard guard;
  connection_sink_();
}

bool Engine::HasTransmit() const { return endpoint_.HasTransmit() || link_layer_->HasTransmit(); }

Time Engine::NextDeadline() const {
  return std::min(endpoint_.NextDeadline(), link_layer_->NextDeadline());
}

Time Engine::Now() {
  const Verb verb(*this);
  return clock_.Now();
}

void Engine::FinishVerb() {
  if (in_forked_child()) [[unlikely]] {
    lock_.Unlock();
    return;
  }
  Time now = frame_policy_.sent_at_once();
  int sent = now != Time{0} ? 1 : 0;
  const bool has_left = HasTransmit();
  if (has_left) {
    now = clock_.Now();
    sent += TransmitBurst(now);
  }
  if (sent != 0) notes_.CountApplicationWork(sent);
  if (sent != 0 || has_left) {
    Flush(frame_policy_.AfterVerb(now, static_cast<uint32_t>(sent), notes_.is_watched()));
  }
  if (frame_policy_.IsPassDue()) [[unlikely]] {
    RunOnce(clock_.Now(), Driver::kApplication);
  } else {
    EndPass();
  }
  UnlockAndWake();
}

// False if the request has to take its turn: another frame waits, or the port takes none now.
bool Engine::SendAtOnce(transport::QueuePair& qp) {
  const Route route = qp.route();
  if (route == Route::kLoopback && !port_loops_back_) return false;
  if (!endpoint_.MaySendAtOnce(qp) || in_forked_child()) return false;
  const bool awaits_answers = frame_policy_.is_first_of_verb() && qp.AwaitsResponses();
  const transport::FrameRoom room = port_->AcquireTransmit(route);
  if (room.empty()) return false;
  const Time now = clock_.Now();
  const size_t frame_bytes = endpoint_.BuildAtOnce(now, qp, room);
  if (frame_bytes == 0) return false;
  Commit(now, route, room, frame_bytes);
  frame_policy_.SentAtOnce(now, awaits_answers);
  return true;
}

void Engine::UnlockAndWake() {
  const bool nobody_to_tell = !wake_policy_.is_asleep() && sentence_.empty() && !has_news_ &&
                              united_ == nullptr &&
                              endpoint_.is_event_awaited() == wake_policy_.application_waits();
  if (nobody_to_tell) [[likely]]
    return lock_.Unlock();
  UnlockAndTell();
}

void Engine::SetTime() {
  const Time now = clock_.Now();
  endpoint_.SetTime(now);
  if (united_ != nullptr) united_->SetTime(now);
}

bool Engine::OwesWakeUp() {
  const bool wakes = wake_policy_.Wakes({.has_frames = HasTransmit() || port_->keeps_frames(),
                                         .next_deadline = NextDeadline(),
                                         .is_event_awaited = endpoint_.is_event_awaited(),
                                         .is_watched = notes_.is_watched()});
  notes_.SetApplicationWaits(wake_policy_.application_waits());
  return wakes;
}

// Logs without the lock: a message costs system calls.
void Engine::UnlockAndTell() {
  if (united_ != nullptr) united_->TellOthers(*this);
  const bool wake = OwesWakeUp();
  const std::string sentence = std::exchange(sentence_, {});
  Unlock();
  if (!sentence.empty()) Log(LogLevel::kWarning, sentence);
  if (wake) progress_->Wake();
}

// Wakes threads that wait for answers without the lock, which they take.
void Engine::Unlock() {
  const bool has_news = std::exchange(has_news_, false);
  if (has_news) news_.Count();
  lock_.Unlock();
  if (has_news) news_.Wake();
}

std::optional<int> Engine::RunIfFree(Driver driver) {
  if (!lock_.TryLock()) return std::nullopt;
  const Time now = clock_.Now();
  int done = RunOnce(now, driver);
  if (united_ != nullptr) [[unlikely]]
    done += united_->RunOthers(*this, now, driver);
  UnlockAndWake();
  return done;
}

bool Engine::TryRunOnce() {
  static constinit thread_local PollingPause pause;
  if (in_forked_child()) [[unlikely]]
    return false;
  PrepareThread();

  // A dedicated thread is faster than this one would be: it has the engine's data in its cache.
  const std::optional<int> done =
      mode_ == ProgressMode::kAuto ? RunIfFree(Driver::kApplication) : 0;
  notes_.CountApplicationWork(static_cast<int>(drive::kWorkOfAPass) + done.value_or(0));
  if (!done) {
    pause.PollRefused();
  } else if (*done == 0) {
    pause.PollFailed();
  } else {
    pause.PollWorked();
    return true;
  }
  return false;
}

bool Engine::port_active() {
  const Verb verb(*this);
  return port_->active();
}

PacketPort::Counters Engine::port_counters() {
  const Verb verb(*this);
  return port_->counters();
}

// Called by the progress thread when it found nothing to do.
SleepPlan Engine::PlanSleep(Time latest) {
  using Kind = SleepPlan::Kind;
  lock_.Lock();
  SleepPlan plan{Kind::kSleep, std::min(NextDeadline(), latest)};
  // EndSleep served the link, and its news waits for a pass: other threads held the lock since.
  const bool owes_pass = next_link_service_ == Time{0};
  if (wait_fd_ < 0 || HasTransmit() || owes_pass) {
    plan.kind = Kind::kNap;
  } else if (!port_->BeginSleep()) {
    plan.kind = Kind::kNone;
  } else {
    plan.fds[0] = wait_fd_;
    wake_policy_.SleepBegins(plan.until);
  }
  Unlock();
  return plan;
}

void Engine::EndSleep() {
  lock_.Lock();
  wake_policy_.SleepEnds();
  next_link_service_ = Time{0};
  port_->EndSleep();
  lock_.Unlock();
}

void Engine::MarkForked() {
  in_forked_child_.store(true, std::memory_order_relaxed);
  lock_.ForgetWaiters();
  port_->AbandonAfterFork();
  if (published_state_ != nullptr) published_state_->AbandonAfterFork();
}

}  // namespace uroce::nic
