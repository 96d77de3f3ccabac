#include "dpdk_nic/port/fabric/fabric_links.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "dpdk_nic/base/clock.h"

namespace uroce::nic {
namespace {

using control::Block;
using transport::Duration;
using transport::Milliseconds;
using transport::Route;
using transport::Time;

static_assert(kSlotBytes - SlotWord::kAlignedOffset >= transport::kMaxFrameBytes);

// Longer than uroced takes to answer when the host is loaded, shorter than what a queue pair waits
// for its retries.
constexpr Duration kAnswerPatience = Milliseconds(1'000);
// How often frames alone ask for a link that could not be had or that ended: whoever wants to be
// connected asks at once.
constexpr Duration kAskAgain = Milliseconds(1'000);
// How long "nobody is there" is the answer to whoever prepares a path and looks again and again.
constexpr Duration kFailureIsFresh = Milliseconds(10);
// Without a frame for so long a link is idle.
constexpr Duration kIdle = Milliseconds(10);

Block BlockOfLink(Route route) {
  return route == Route::kWire ? control::kSwitchBlock : transport::BlockOf(route);
}
Route RouteOfLink(Block block) {
  return block == control::kSwitchBlock ? Route::kWire : transport::RouteToBlock(block);
}

PacketPort::PathState ToPathState(control::ErrnoValue error) {
  return error == EHOSTUNREACH ? PacketPort::PathState::kUnreachable
                               : PacketPort::PathState::kRefused;
}

// What the user of the program should know, and no return value can tell.
void Say(Route route, const std::string& what) {
  const std::string other = route == Route::kWire
                                ? "uroced"
                                : "the process with block " + std::to_string(BlockOfLink(route));
  std::fprintf(stderr, "uroce: the link to %s %s.\n", other.c_str(), what.c_str());
}

}  // namespace

FabricLinks::FabricLinks(control::ControlClient& client, const UniqueFd& epoll)
    : client_(client), epoll_(epoll), nudge_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  // No allocation later, whatever happens.
  active_.reserve(links_.size());
  idle_.reserve(links_.size());
  asked_.reserve(links_.size());
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = kNudgeEvent;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, nudge_.get(), &event);
}

std::span<uint8_t> FabricLinks::AcquireWithoutLink(Route route) {
  Link& link = LinkOf(route);
  if (link.state == State::kDown) {
    const Time now = Now();
    if (now - link.since >= kAskAgain) Ask(route, now);
  }
  if (link.state == State::kAsked) return {};
  return discarded_frame_;
}

void FabricLinks::TransmitOn(Route route) {
  if (transmitting_ != nullptr) transmitting_->Flush();
  Link& link = LinkOf(route);
  transmitting_ = link.ring.get();
  if (!link.is_active) Activate(route);
}

void FabricLinks::LookAtAnIdleLink() {
  if (++idle_turn_ >= idle_.size()) idle_turn_ = 0;
  const Polled& polled = idle_[idle_turn_];
  if (!polled.ring->Receive().empty()) Activate(polled.route);
}

bool FabricLinks::BeginSleep() {
  Serve(Now());
  for (const std::vector<Polled>* list : {&active_, &idle_}) {
    for (const Polled& polled : *list) {
      if (polled.ring->BeginSleep()) continue;
      if (!LinkOf(polled.route).is_active) Activate(polled.route);
      EndSleep();
      return false;
    }
  }
  is_asleep_ = true;
  return true;
}

void FabricLinks::EndSleep() {
  is_asleep_ = false;
  for (const Polled& polled : active_) polled.ring->EndSleep();
  for (const Polled& polled : idle_) polled.ring->EndSleep();
}

PacketPort::PathState FabricLinks::Prepare(Route route) {
  if (!IsToSomebody(route)) return PathState::kUnreachable;
  Link& link = LinkOf(route);
  if (link.state == State::kDown) {
    const Time now = Now();
    if (now - link.since < kFailureIsFresh) return link.failure;
    Ask(route, now);
    if (link.state == State::kDown) return link.failure;
  }
  return link.state == State::kUp ? PathState::kReady : PathState::kPending;
}

bool FabricLinks::IsToSomebody(Route route) const {
  const Block block = BlockOfLink(route);
  return route == Route::kWire ||
         (block >= control::kFirstBlock && block <= control::kLastBlock &&
          (client_.attachments() == 0 || block != client_.welcome().block));
}

void FabricLinks::Ask(Route route, Time now) {
  Link& link = LinkOf(route);
  link.state = State::kAsked;
  link.since = now;
  asked_.push_back(route);
  if (route == Route::kWire) {
    wants_uplink_ = true;
    restores_uplink_ = false;
  }
  SendRequest(route, now);
}

// Without an uroced the request waits for one. The ring is polled at once, as the other process may
// send before we hear that it has it.
void FabricLinks::SendRequest(Route route, Time now) {
  if (client_.state() == control::ControlClient::State::kRefused || !IsToSomebody(route)) {
    return Fail(route, PathState::kRefused, now);
  }
  if (client_.state() != control::ControlClient::State::kAttached) return;
  auto offer = RingLink::Create();
  if (!offer) {
    Complain(route, "cannot be made", strerror(errno));
    return Fail(route, PathState::kRefused, now);
  }
  const std::array<int, control::LinkRequest::kDescriptors> fds = {offer->memory.get(),
                                                                   offer->socket.get()};
  if (!client_.Send(control::LinkRequest{BlockOfLink(route), offers_received_}, fds)) return;
  ++LinkOf(route).unanswered;
  Use(route, std::move(offer->link), State::kAsked, LinkOf(route).since);
}

void FabricLinks::OnAnswer(const control::LinkAnswer& answer) {
  if (answer.block > control::kLastBlock) return;
  const Route route = RouteOfLink(answer.block);
  Link& link = LinkOf(route);
  if (link.unanswered == 0 || --link.unanswered != 0) return;  // of a request before the last
  if (link.state != State::kAsked) return;  // an offer came instead, or our patience has ended
  const Time now = Now();
  if (answer.error != 0) return Fail(route, ToPathState(answer.error), now);
  std::erase(asked_, route);
  link.state = State::kUp;
  link.since = now;
  if (!link.ring->peer_alive()) End(route);
}

void FabricLinks::OnOffer(const control::LinkOffer& offer, UniqueFd memory, UniqueFd socket) {
  ++offers_received_;
  if (offer.block == control::kSwitchBlock || offer.block > control::kLastBlock) return;
  const Route route = RouteOfLink(offer.block);
  if (!IsToSomebody(route)) return;
  std::unique_ptr<RingLink> ring = RingLink::Accept(std::move(memory), std::move(socket));
  if (ring == nullptr) {
    if (errno == EPROTO) ++counters_.receive_malformed;
    return Complain(route, "is refused", strerror(errno));
  }
  const Time now = Now();
  if (LinkOf(route).state != State::kDown) Close(route, now);
  Use(route, std::move(ring), State::kUp, now);
}

// To the uroced that is there now nothing was said yet. Links between processes go on.
void FabricLinks::OnReattached() {
  offers_received_ = 0;
  for (Link& link : links_) link.unanswered = 0;
  if (LinkOf(Route::kWire).state == State::kUp) End(Route::kWire);
  restores_uplink_ = wants_uplink_;
  const std::vector<Route> asked = asked_;
  for (const Route route : asked) {
    const Time asked_at = LinkOf(route).since;
    Close(route, asked_at);
    Ask(route, asked_at);
  }
}

void FabricLinks::OnReadable(uint32_t event) {
  if (event == kNudgeEvent) {
    if (is_asleep_) return;
    eventfd_t nudges;
    [[maybe_unused]] const int result = eventfd_read(nudge_.get(), &nudges);
    return;
  }
  const auto route = static_cast<Route>(event);
  const Link& link = LinkOf(route);
  if (link.ring == nullptr) return;
  WakeSleeper();
  if (!link.ring->peer_alive()) {
    // End of file stays, and would wake every sleeper.
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link.ring->socket(), nullptr);
    // Who asked hears from uroced why, or whether that was the life of the other process.
    if (link.state == State::kUp) End(route);
  } else if (!link.is_active && !link.ring->Receive().empty()) {
    Activate(route);
  }
}

void FabricLinks::Serve(Time now) {
  // From the end: a link that goes away is replaced by one that was looked at.
  for (size_t i = active_.size(); i-- > 0;) Tend(active_[i].route, now);
  for (size_t i = asked_.size(); i-- > 0;) {
    const Route route = asked_[i];
    if (now - LinkOf(route).since >= kAnswerPatience) {
      Fail(route, PathState::kUnreachable, now);
    } else if (LinkOf(route).ring == nullptr) {
      SendRequest(route, now);
    }
  }
  if (restores_uplink_ && LinkOf(Route::kWire).state == State::kDown) Ask(Route::kWire, now);
}

void FabricLinks::Tend(Route route, Time now) {
  Link& link = LinkOf(route);
  if (link.ring->broken()) {
    ++counters_.receive_malformed;
    Complain(route, "is closed", "what came by it makes no sense");
    return Close(route, now);
  }
  if (link.state == State::kEnded) {
    if (link.ring->Receive().empty()) Close(route, now);
    return;
  }
  if (link.state != State::kUp) return;
  link.ring->WakePeerIfBehind();
  const uint64_t frames = link.ring->frames();
  // After a sleep the frame that ended it may not have been received yet.
  if (frames != link.frames || !link.ring->Receive().empty()) {
    link.frames = frames;
    link.since = now;
  } else if (now - link.since >= kIdle) {
    Deactivate(route);
  }
}

void FabricLinks::Fail(Route route, PathState failure, Time now) {
  LinkOf(route).failure = failure;
  Close(route, now);
}

void FabricLinks::Use(Route route, std::unique_ptr<RingLink> ring, State state, Time now) {
  Link& link = LinkOf(route);
  link.ring = std::move(ring);
  link.state = state;
  link.since = now;
  link.frames = 0;
  link.failure = PathState::kUnreachable;
  AddTo(active_, route);
  link.is_active = true;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = static_cast<uint32_t>(route);
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, link.ring->socket(), &event);
  WakeSleeper();  // to be woken by this link from now on, as by all others
}

// The other end was closed. What it sent is still to be received.
void FabricLinks::End(Route route) {
  Link& link = LinkOf(route);
  link.state = State::kEnded;
  if (!link.is_active) Activate(route);
}

void FabricLinks::Close(Route route, Time now) {
  Link& link = LinkOf(route);
  if (link.state == State::kAsked) std::erase(asked_, route);
  link.state = State::kDown;
  link.since = now;
  if (link.ring == nullptr) return;
  RemoveFrom(link.is_active ? active_ : idle_, route);
  if (receiving_ == link.ring.get()) receiving_ = nullptr;
  if (transmitting_ == link.ring.get()) transmitting_ = nullptr;
  // Not left to close(): a child between fork and exec may hold the descriptor open a little
  // longer.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link.ring->socket(), nullptr);
  link.ring.reset();
}

void FabricLinks::Activate(Route route) {
  RemoveFrom(idle_, route);
  AddTo(active_, route);
  LinkOf(route).is_active = true;
  LinkOf(route).since = Now();
}

void FabricLinks::Deactivate(Route route) {
  Link& link = LinkOf(route);
  if (transmitting_ == link.ring.get()) transmitting_ = nullptr;  // so that it comes back
  RemoveFrom(active_, route);
  AddTo(idle_, route);
  link.is_active = false;
}

void FabricLinks::AddTo(std::vector<Polled>& list, Route route) {
  Link& link = LinkOf(route);
  link.place = static_cast<uint32_t>(list.size());
  list.push_back({link.ring.get(), route});
}

void FabricLinks::RemoveFrom(std::vector<Polled>& list, Route route) {
  const uint32_t place = LinkOf(route).place;
  list[place] = list.back();
  LinkOf(list[place].route).place = place;
  list.pop_back();
}

// To standard error, and not for ever: somebody may offer us nonsense again and again.
void FabricLinks::Complain(Route route, const char* what, const char* why) {
  if (complaints_left_ == 0) return;
  --complaints_left_;
  Say(route, std::string(what) + ": " + why);
}

void FabricLinks::Nudge() {
  // Fails only if the counter is full, and then the sleeper is awake.
  [[maybe_unused]] const int result = eventfd_write(nudge_.get(), 1);
}

void FabricLinks::AbandonAfterFork() {
  for (Link& link : links_) {
    if (link.ring != nullptr) link.ring->Abandon();
  }
  nudge_.reset();
}

}  // namespace uroce::nic
