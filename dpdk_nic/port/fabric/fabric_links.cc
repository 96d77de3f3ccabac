#include "dpdk_nic/port/fabric/fabric_links.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/base/memory_file.h"

namespace uroce::nic {
namespace {

using control::Block;
using transport::Duration;
using transport::Milliseconds;
using transport::Route;
using transport::Time;

static_assert(kSlotBytes - SlotWord::kAlignedOffset >= transport::kMaxFrameBytes);

// How long frames wait for a link while no uroced is attached that could answer.
constexpr Duration kAnswerTimeout = Milliseconds(1'000);
// How often frames ask again for a link that could not be had or that ended. A queue pair that is
// being connected asks at once.
constexpr Duration kAskAgain = Milliseconds(1'000);
// For how long Prepare repeats a failure, without asking uroced again.
constexpr Duration kFailureIsFresh = Milliseconds(10);

// Wake-ups in a row without a frame that a process may send. A correct peer wakes us for a frame
// only; another of our threads may have taken the frame already, but not again and again.
constexpr uint8_t kMaxIdleWakes = 64;
// How long after its end a process is reported as gone. Programs often end while a peer has further
// requests under way, and the peer has to see the completions of earlier ones first. A NIC reports
// the others when its retries are used up, after half a second.
constexpr Duration kUntilGone = Milliseconds(20);
// For how long offers of a process that broke the rules are ignored.
constexpr Duration kCutOff = Milliseconds(1'000);

Block BlockOfLink(Route route) {
  return route == Route::kWire ? control::kSwitchBlock : transport::BlockOf(route);
}
Route RouteOfLink(Block block) {
  return block == control::kSwitchBlock ? Route::kWire : transport::RouteToBlock(block);
}

PacketPort::PathState ToPathState(control::ErrnoValue error) {
  // EAGAIN: too many offers are pending, ours to that process or those of all processes. A link may
  // be had later.
  return error == EHOSTUNREACH || error == EAGAIN ? PacketPort::PathState::kUnreachable
                                                  : PacketPort::PathState::kRefused;
}

bool Watch(const UniqueFd& epoll, int fd, uint32_t what) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = what;
  return epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

FabricLinks::FabricLinks(control::ControlClient& client, const UniqueFd& epoll,
                         LinkThread::Mode mode, transport::IcrcUse icrc)
    : client_(client),
      epoll_(epoll),
      icrc_(icrc),
      polled_(links_),
      transmitter_(*this, links_, polled_, counters_),
      thread_(mode) {
  asked_.reserve(transport::kRoutes);  // so that nothing allocates later
  gone_.reserve(transport::kRoutes);
  Watch(epoll_, polled_.wakeup_fd(), kWakeupEvent);
  Watch(epoll_, thread_.results_fd(), kThreadEvent);
}

bool FabricLinks::BeginSleep() {
  Serve(Now());
  return gone_.empty() && polled_.BeginSleep();
}

// While uroced lives it answers, and frames wait for the link. A link that the other process has
// not opened yet has lost nothing, whatever that process will do to frames.
bool FabricLinks::HasAnswered(Route route, Time sent, Time now) {
  Link& link = links_[route];
  if (!transport::IsLink(route)) return true;
  if (link.state == State::kAsked) {
    return client_.state() != control::ControlClient::State::kAttached;
  }
  if (link.state != State::kUp || !LosesNothing(link)) return true;
  if (!link.ring->Receive().empty()) return false;
  link.answered.Update(now, link.ring->sent(), link.ring->answered());
  return link.answered.Covers(sent);
}

void FabricLinks::TellAnswered(Route route) {
  if (RingLink* const ring = links_[route].ring.get()) ring->TellAnswered();
}

std::optional<Route> FabricLinks::TakeGonePeer() {
  if (gone_.empty()) return std::nullopt;
  const Gone first = gone_.front();
  // A link of another process may take the route.
  const bool is_taken = links_[first.route].ring != nullptr;
  if (Now() < first.due && !is_taken) return std::nullopt;
  gone_.erase(gone_.begin());
  return first.route;
}

bool FabricLinks::IsOpen(Link& link) {
  link.is_open = link.is_open || link.ring->IsOpen();
  return link.is_open;
}

bool FabricLinks::LosesNothing(Link& link) {
  return !IsOpen(link) || link.ring->icrc_use() != transport::IcrcUse::kCarried;
}

void FabricLinks::AskIfDue(Route route, Time now) {
  const Link& link = links_[route];
  if (link.state == State::kDown && now - link.since >= kAskAgain) Ask(route, now);
}

PacketPort::PathState FabricLinks::Prepare(Route route) {
  if (!HasDestination(route)) return PathState::kUnreachable;
  Link& link = links_[route];
  if (link.state == State::kDown) {
    const Time now = Now();
    if (now - link.since < kFailureIsFresh) return link.failure;
    Ask(route, now);
    if (link.state == State::kDown) return link.failure;
  }
  return link.state == State::kUp ? PathState::kReady : PathState::kPending;
}

bool FabricLinks::HasDestination(Route route) const {
  const Block block = BlockOfLink(route);
  return route == Route::kWire ||
         (block >= control::kFirstBlock && block <= control::kLastBlock &&
          (client_.attachments() == 0 || block != client_.welcome().block));
}

void FabricLinks::Ask(Route route, Time now) {
  Link& link = links_[route];
  link.state = State::kAsked;
  link.since = now;
  asked_.push_back(route);
  if (route == Route::kWire) {
    wants_uplink_ = true;
    restores_uplink_ = false;
  }
  SendRequests(now);
}

// Sends requests for all links that are asked for and have no ring yet.
void FabricLinks::SendRequests(Time now) {
  size_t missing = 0;
  for (size_t i = asked_.size(); i-- > 0;) {
    const Route route = asked_[i];
    if (links_[route].ring != nullptr || links_[route].is_accepting) continue;
    SendRequest(route, now);
    if (links_[route].state == State::kAsked && links_[route].ring == nullptr) ++missing;
  }
  for (; missing > spares_.size() + making_; ++making_) thread_.Make();
  if (making_ != 0) TakeResults(now);
}

// While no uroced is attached the request waits. The ring is polled at once, as the other process
// may send before uroced's answer comes.
void FabricLinks::SendRequest(Route route, Time now) {
  const bool is_refused = client_.state() == control::ControlClient::State::kRefused;
  if (is_refused && !std::exchange(said_refusal_, true)) Say(client_.refusal().sentence.data());
  if (is_refused || !HasDestination(route)) return Fail(route, PathState::kRefused, now);
  if (client_.state() != control::ControlClient::State::kAttached || spares_.empty()) return;
  RingLink::Offer& offer = spares_.back();
  const std::array<int, control::LinkRequest::kDescriptors> fds = {offer.memory.get(),
                                                                   offer.socket.get()};
  if (!client_.Send(control::LinkRequest{BlockOfLink(route), offers_received_}, fds)) return;
  ++links_[route].unanswered;
  std::unique_ptr<RingLink> ring = std::move(offer.link);
  spares_.pop_back();
  Use(route, std::move(ring), State::kAsked, links_[route].since);
}

void FabricLinks::TakeResults(Time now) {
  bool any_made = false;
  while (auto made = thread_.TakeMade()) {
    --making_;
    if (made->offer) {
      spares_.push_back(std::move(*made->offer));
      any_made = true;
      continue;
    }
    const auto waits = std::find_if(asked_.begin(), asked_.end(), [&](Route route) {
      return links_[route].ring == nullptr && !links_[route].is_accepting;
    });
    if (waits == asked_.end()) continue;
    const Route route = *waits;
    LogLink(route, "cannot be made", WhyNoSharedMemory(made->error).c_str());
    Fail(route, PathState::kRefused, now);
  }
  while (auto accepted = thread_.TakeAccepted()) OnAccepted(std::move(*accepted), now);
  if (any_made) SendRequests(now);
}

void FabricLinks::OnAnswer(const control::LinkAnswer& answer) {
  if (answer.block > control::kLastBlock) return;
  const Route route = RouteOfLink(answer.block);
  Link& link = links_[route];
  if (link.unanswered == 0 || --link.unanswered != 0) return;  // it answers an earlier request
  if (link.state != State::kAsked) return;  // an offer came instead, or the request timed out
  if (link.is_accepting) return;            // the offer is used
  const Time now = Now();
  if (answer.error != 0) {
    const PathState failure = ToPathState(answer.error);
    const bool is_lost = route == Route::kWire && failure == PathState::kRefused;
    if (is_lost) LogLink(route, "is refused", strerror(answer.error));
    return Fail(route, failure, now);
  }
  if (link.ring == nullptr) return;
  std::erase(asked_, route);
  link.state = State::kUp;
  link.since = now;
  transmitter_.OnUp(route);
  if (!link.ring->peer_alive()) End(route);
}

void FabricLinks::OnOffer(const control::LinkOffer& offer, UniqueFd memory, UniqueFd socket) {
  ++offers_received_;
  if (offer.block == control::kSwitchBlock || offer.block > control::kLastBlock) return;
  const Route route = RouteOfLink(offer.block);
  if (!HasDestination(route)) return;
  Link& link = links_[route];
  const Time now = Now();
  if (now < link.cut_off_until) return;
  if (link.state == State::kDown) {
    link.state = State::kAsked;
    link.since = now;
    asked_.push_back(route);
  }
  link.is_accepting = true;
  link.offer = ++last_offer_;
  thread_.Accept({route, link.offer, std::move(memory), std::move(socket)});
  TakeResults(now);
}

// The link in use until now stays in use if the offer was nonsense.
void FabricLinks::OnAccepted(LinkThread::Accepted accepted, Time now) {
  const Route route = accepted.route;
  Link& link = links_[route];
  if (!link.is_accepting || accepted.number != link.offer) {
    if (accepted.link != nullptr) thread_.Destroy(std::move(accepted.link));
    return;
  }
  link.is_accepting = false;
  if (accepted.link == nullptr) {
    if (accepted.error == EPROTO || accepted.error == EPERM) ++counters_.receive_malformed;
    LogLink(route, "is refused", strerror(accepted.error));
    const bool waits_for_an_answer = link.ring != nullptr && link.unanswered != 0;
    if (link.state == State::kAsked && !waits_for_an_answer) {
      Fail(route, PathState::kUnreachable, now);
    }
    return;
  }
  if (link.state != State::kDown) DiscardRing(route, now);
  Use(route, std::move(accepted.link), State::kUp, now);
  if (link.state == State::kUp) transmitter_.OnUp(route);
}

// The new uroced has received no request yet. Links between processes go on.
void FabricLinks::OnReattached() {
  offers_received_ = 0;
  for (Link& link : links_) link.unanswered = 0;
  if (links_[Route::kWire].state == State::kUp) End(Route::kWire);
  restores_uplink_ = wants_uplink_;
  const std::vector<Route> asked = asked_;
  for (const Route route : asked) {
    const Time asked_at = links_[route].since;
    Close(route, asked_at);
    Ask(route, asked_at);
  }
}

void FabricLinks::OnReadable(uint32_t event) {
  if (event == kWakeupEvent) return polled_.DrainWakeup();
  if (event == kThreadEvent) {
    WakeSleeper();
    thread_.DrainResultsFd();
    return TakeResults(Now());
  }
  const auto route = static_cast<Route>(event);
  Link& link = links_[route];
  if (link.ring == nullptr) return;
  WakeSleeper();
  if (WakesUsForNothing(link)) {
    return CutOff(route, "it woke this process again and again, and sent nothing", Now());
  }
  if (!link.ring->peer_alive()) {
    // The socket stays readable at end of file, and would wake every sleeper.
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link.ring->socket(), nullptr);
    // In state kAsked uroced's answer decides: a refusal, or a link that has ended already.
    if (link.state == State::kUp) End(route);
  } else if (!link.ring->Receive().empty()) {
    polled_.Activate(route);
  }
}

bool FabricLinks::WakesUsForNothing(Link& link) {
  if (link.ring->frames() != link.woken_at_frame || !link.ring->Receive().empty()) {
    link.woken_at_frame = link.ring->frames();
    link.idle_wakes = 0;
  } else {
    ++link.idle_wakes;
  }
  return link.idle_wakes > kMaxIdleWakes;
}

void FabricLinks::Serve(Time now) {
  // Backwards: the last link, served already, takes the place of one that is removed.
  for (size_t i = polled_.active().size(); i-- > 0;) Service(polled_.active()[i].route, now);
  const bool is_attached = client_.state() == control::ControlClient::State::kAttached;
  for (size_t i = asked_.size(); i-- > 0;) {
    const Route route = asked_[i];
    const bool is_late = now - links_[route].since >= kAnswerTimeout;
    if (is_late && !is_attached) Fail(route, PathState::kUnreachable, now);
  }
  if (!asked_.empty()) SendRequests(now);
  if (restores_uplink_ && links_[Route::kWire].state == State::kDown) Ask(Route::kWire, now);
}

void FabricLinks::Service(Route route, Time now) {
  Link& link = links_[route];
  if (link.ring->broken()) return CutOff(route, "what came by it makes no sense", now);
  if (link.state == State::kEnded) {
    if (!link.ring->Receive().empty()) return;
    const bool is_gone =
        IsLink(route) && IsOpen(link) && LosesNothing(link) && link.ring->has_peer_died();
    Close(route, now);
    if (is_gone) gone_.push_back({route, now + kUntilGone});
    return;
  }
  if (link.state != State::kUp) return;
  if (!IsOpen(link) && link.ring->HasHoles()) {
    return CutOff(route, "the other process took pages out of its memory", now);
  }
  link.ring->WakePeerIfBehind();
  if (polled_.IsUnused(route, now) && link.is_open) {
    polled_.Deactivate(route);
    transmitter_.OnIdle(route);
  }
}

void FabricLinks::Fail(Route route, PathState failure, Time now) {
  links_[route].failure = failure;
  Close(route, now);
}

void FabricLinks::Use(Route route, std::unique_ptr<RingLink> ring, State state, Time now) {
  Link& link = links_[route];
  link.ring = std::move(ring);
  link.state = state;
  link.since = now;
  link.woken_at_frame = 0;
  link.idle_wakes = 0;
  link.is_open = false;
  link.answered = AnsweredTime(link.answered.until());
  link.failure = PathState::kUnreachable;
  // Frames on the uplink leave the host or pass the switch: they keep their ICRC.
  if (route != Route::kWire) link.ring->Waive(icrc_);
  polled_.Add(route, now);
  if (!Watch(epoll_, link.ring->socket(), static_cast<uint32_t>(route))) {
    LogLink(route, "cannot be watched", strerror(errno));
    return Fail(route, PathState::kRefused, now);  // the link would never wake us
  }
  WakeSleeper();  // the sleeper has to ask this link for a wake-up, too
}

// The other end was closed. Frames that it sent are still received.
void FabricLinks::End(Route route) {
  links_[route].state = State::kEnded;
  transmitter_.OnIdle(route);
  polled_.Activate(route);
}

// Closes the link of a process that broke the rules, and ignores its offers for a while: its next
// link would cost us as much.
void FabricLinks::CutOff(Route route, const char* why, Time now) {
  ++counters_.receive_malformed;
  LogLink(route, "is closed", why);
  links_[route].cut_off_until = now + kCutOff;
  Close(route, now);
}

void FabricLinks::Close(Route route, Time now) {
  DiscardRing(route, now);
  transmitter_.DropWaiting(route);
}

void FabricLinks::DiscardRing(Route route, Time now) {
  Link& link = links_[route];
  if (link.state == State::kAsked) std::erase(asked_, route);
  // Frames in the ring of an established link are lost. Frames for other links wait elsewhere.
  if (link.state != State::kAsked) link.answered = AnsweredTime(now);
  link.state = State::kDown;
  link.since = now;
  if (link.ring == nullptr) return;
  link.ring->Leave();
  transmitter_.OnIdle(route);
  polled_.Remove(route);
  // Removed here, not by close(): a child between fork and exec may hold the descriptor open a
  // little longer.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link.ring->socket(), nullptr);
  link.ring->Abandon();  // the other process sees end of file now
  thread_.Destroy(std::move(link.ring));
}

// Logs a bounded number of times, as a process may offer us nonsense again and again.
void FabricLinks::LogLink(Route route, const char* what, const char* why) {
  if (link_logs_left_ == 0) return;
  --link_logs_left_;
  const std::string other = route == Route::kWire
                                ? "uroced"
                                : "the process with block " + std::to_string(BlockOfLink(route));
  Say("the link to " + other + " " + what + ": " + why);
}

void FabricLinks::AbandonAfterFork() {
  for (Link& link : links_) {
    if (link.ring != nullptr) link.ring->Abandon();
  }
  for (RingLink::Offer& spare : spares_) {
    spare.link->Abandon();
    spare.memory.reset();
    spare.socket.reset();
  }
  thread_.AbandonAfterFork();
  polled_.AbandonAfterFork();
}

}  // namespace uroce::nic
