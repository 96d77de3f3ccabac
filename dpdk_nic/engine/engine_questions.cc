// Questions of threads to the engine's port: paths, groups, services, neighbours.
#include <algorithm>
#include <optional>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/engine/engine.h"
#include "dpdk_nic/engine/progress.h"

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::Gid;
using transport::MacAddress;
using transport::Time;

// A healthy uroced confirms a release within this time. After it the caller stops waiting; the
// release still reaches uroced later.
constexpr Duration kReleaseTimeout = transport::Milliseconds(1'000);
// A port whose link to uroced is lost asks for another when it is asked, and brings no news itself.
constexpr Duration kAskAgain = transport::Milliseconds(10);

}  // namespace

void Engine::AskUntilAnswered(Duration timeout, auto ask) {
  const EventCount::Waiter waiter(news_);
  const Time give_up = Now() + timeout;
  PrepareThread();
  for (bool is_first = true;; is_first = false) {
    lock_.Lock();
    const Time now = clock_.Now();
    const bool answered = ask(now, *port_);
    if (!in_forked_child()) {
      if (is_first) next_link_service_ = now;
      RunOnce(now, Driver::kApplication);
    }
    const uint32_t seen = news_.now();
    UnlockAndWake();
    if (answered || in_forked_child() || Now() >= give_up) return;
    if (is_first) progress_->Wake();  // it may be standing by
    news_.Wait(seen, std::min(give_up, Now() + kAskAgain));
  }
}

std::optional<MacAddress> Engine::ResolveNeighbor(const Gid& gid, Duration timeout) {
  std::optional<MacAddress> mac;
  AskUntilAnswered(timeout, [&](Time now, PacketPort&) {
    lock_.AssertHeld();
    mac = NeighborNow(now, gid);
    return mac.has_value();
  });
  return mac;
}

PacketPort::PathState Engine::AskPort(Duration timeout, auto ask) {
  auto state = PacketPort::PathState::kReady;
  AskUntilAnswered(timeout, [&](Time, PacketPort& port) {
    if (!in_forked_child()) state = ask(port);
    return state != PacketPort::PathState::kPending;
  });
  return state;
}

PacketPort::PathState Engine::PreparePath(const PacketPort::Path& path, Duration timeout) {
  return AskPort(timeout, [&](PacketPort& port) { return port.PreparePath(path); });
}

uint32_t Engine::PathMtu(const PacketPort::Path& path) {
  const Verb verb(*this);
  return in_forked_child() ? port_->mtu() : port_->PathMtu(path);
}

PacketPort::PathState Engine::JoinGroup(const Gid& group, Duration timeout) {
  return AskPort(timeout, [&](PacketPort& port) { return port.JoinGroup(group); });
}

PacketPort::ServiceState Engine::ReserveService(const PacketPort::Service& service,
                                                Duration timeout) {
  auto state = PacketPort::ServiceState::kReserved;
  AskUntilAnswered(timeout, [&](Time, PacketPort& port) {
    if (!in_forked_child()) state = port.ReserveService(service);
    return state != PacketPort::ServiceState::kPending;
  });
  return state;
}

void Engine::ReleaseService(const PacketPort::Service& service) {
  {
    const Verb verb(*this);
    if (!in_forked_child()) port_->ReleaseService(service);
  }
  AskUntilAnswered(kReleaseTimeout, [&](Time, PacketPort& port) {
    return in_forked_child() || port.IsReleased(service);
  });
}

PacketPort::XrcOpening Engine::OpenXrcDomain(const PacketPort::XrcDomain& domain,
                                             Duration timeout) {
  PacketPort::XrcOpening opening;
  AskUntilAnswered(timeout, [&](Time, PacketPort& port) {
    if (!in_forked_child()) opening = port.OpenXrcDomain(domain);
    return opening.is_answered;
  });
  if (!opening.is_answered) CloseXrcDomain(domain.handle);
  return opening;
}

void Engine::CloseXrcDomain(uint64_t handle) {
  {
    const Verb verb(*this);
    if (!in_forked_child()) port_->CloseXrcDomain(handle);
  }
  AskUntilAnswered(kReleaseTimeout, [&](Time, PacketPort& port) {
    return in_forked_child() || port.IsXrcDomainClosed(handle);
  });
}

void Engine::ForgetPath(transport::Qpn local) {
  const Verb verb(*this);
  if (!in_forked_child()) port_->ForgetPath(local);
}

void Engine::LeaveGroup(const Gid& group) {
  const Verb verb(*this);
  if (!in_forked_child() && !endpoint_.HasMulticastMembers(group)) port_->LeaveGroup(group);
}

}  // namespace uroce::nic
