#include "dpdk_nic/port/fabric/fabric_port.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/control/control_address.h"
#include "dpdk_nic/link_layer/link_layer.h"

namespace uroce::nic {
namespace {

using control::ControlClient;
using transport::Duration;
using transport::Milliseconds;
using transport::Route;
using transport::Time;

// Attach waits this long for a uroced that is being started, or that died a moment ago and is
// started anew; not longer, as an error should come soon.
constexpr Duration kNoDaemonTimeout = Milliseconds(500);

constexpr uint32_t kClientEvent = FabricLinks::kFirstEventOfOthers;
constexpr uint32_t kWireEvent = kClientEvent - 1;

// Bounds the work in one pass that other processes cause: sockets looked at, and messages from
// uroced that pass on their requests. Work that is left keeps wait_fd readable.
constexpr size_t kSocketsAPass = 64;
constexpr int kMessagesAPass = 32;
// Hosts and groups that a new uroced is asked for again. uroced has room for as many questions of a
// process.
constexpr size_t kMaxNamed = 1'024;
static_assert(LocalGids::kEntries <= control::kMaxGids);
// How often uroced is told what the process's own sockets lost.
constexpr Duration kReportInterval = Milliseconds(500);

}  // namespace

FabricPort::FabricPort(Options options)
    : options_(std::move(options)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      client_({.fabric = options_.fabric,
               .mtu_bytes = options_.mtu_bytes,
               .ip = options_.needs_ip ? options_.ip : transport::Gid{},
               .published_state_fd = options_.published_state_fd}),
      links_(client_, epoll_, options_.link_thread, options_.icrc),
      connections_(client_),
      groups_(client_),
      services_(client_),
      xrc_domains_(client_) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = kClientEvent;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, client_.wait_fd(), &event);
}

std::optional<Error> FabricPort::Attach() {
  const Time began = Now();
  while (true) {
    client_.Serve();
    if (client_.state() == ControlClient::State::kAttached) break;
    if (client_.state() == ControlClient::State::kRefused) {
      return Error{client_.refusal().sentence.data()};
    }
    const bool is_detached = client_.state() == ControlClient::State::kDetached;
    const int error = is_detached ? client_.connect_error() : 0;
    const bool has_no_daemon = error != 0 && error != EAGAIN;
    const Duration timeout = has_no_daemon ? kNoDaemonTimeout : control::kQueueTimeout;
    const Duration left = timeout - (Now() - began);
    if (left <= Duration{0}) {
      if (error != 0) return Error{control::WhyNotConnected(options_.fabric, error)};
      return Error{"uroced does not answer: end it and start it again"};
    }
    pollfd poll_fd{client_.wait_fd(), POLLIN, 0};
    poll(&poll_fd, 1, static_cast<int>(left.ns / 1'000'000) + 1);
  }
  served_attachments_ = client_.attachments();
  fabric_ = client_.welcome();
  gids_ = LocalGids(std::span(fabric_.gids).first(fabric_.gid_count));
  is_up_ = !fabric_.has_wire || fabric_.wire_is_up;
  ServeControl();
  return std::nullopt;
}

transport::MacAddress FabricPort::mac() const {
  return fabric_.has_wire ? fabric_.mac : MacAddressFor(options_.ip);
}

bool FabricPort::IsLocal(const transport::Gid& gid) const {
  const auto* end = fabric_.gids.data() + fabric_.gid_count;
  const bool is_own = !gid.IsZero() && std::find(fabric_.gids.data(), end, gid) != end;
  return is_own || !fabric_.has_wire;
}

PacketPort::ReceivedFrame FabricPort::ReceiveFromAny() {
  if (is_turn_of_wire_) {
    const ReceivedFrame frame = ReceiveFromWire();
    return frame.bytes.empty() ? links_.Receive() : frame;
  }
  const ReceivedFrame frame = links_.Receive();
  return frame.bytes.empty() ? ReceiveFromWire() : frame;
}

PacketPort::ReceivedFrame FabricPort::ReceiveFromWire() {
  if (!looks_at_wire_) return {};
  const ReceivedFrame frame = wire_.Receive();
  is_received_from_wire_ = !frame.bytes.empty();
  looks_at_wire_ = is_received_from_wire_;
  return frame;
}

PacketPort::PathState FabricPort::PreparePath(const Path& path) {
  if (path.route == Route::kLoopback) return PathState::kReady;
  if (path.route != Route::kWire) return links_.Prepare(path.route);
  const bool is_connection = path.remote.value != 0;
  const bool has_wire = fabric_.has_wire && !is_other_fabric_;
  if (is_connection && !has_wire) return PathState::kUnreachable;
  if (has_wire) OpenWire();
  const PathState uplink = links_.Prepare(path.route);
  // Without a wire, datagrams can do without the uplink: they wait for a link.
  if (uplink == PathState::kRefused && !has_wire) return PathState::kUnreachable;
  if (uplink != PathState::kReady || !has_wire) return uplink;
  return connections_.Request(
      path.local, {path.local, path.remote, path.remote_gid, path.alternate_gid}, Now());
}

void FabricPort::ForgetPath(transport::Qpn local) {
  connections_.Drop(local);
  path_mtus_.erase(local);
}

uint32_t FabricPort::PathMtu(const Path& path) const {
  const auto known = path_mtus_.find(path.local);
  const bool is_known = path.route == Route::kWire && known != path_mtus_.end();
  return is_known ? std::min(known->second, mtu()) : mtu();
}

void FabricPort::OpenWire() {
  if (wire_.is_open() || client_.welcome().by_own_sockets == 0 || is_other_fabric_) return;
  wire_.Open(fabric_);
  if (!wire_.is_open()) return;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = kWireEvent;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wire_.wait_fd(), &event);
  links_.WakeSleeper();  // the sleeper checks the sockets, too, before it sleeps again
}

void FabricPort::AskForNeighbor(const transport::Gid& gid) {
  if (named_.size() >= kMaxNamed) named_.clear();
  named_.insert(gid);
  client_.Send(control::Resolve{gid});
}

void FabricPort::NameGroup(const transport::Gid& group) {
  if (fabric_.has_wire && !named_.contains(group)) AskForNeighbor(group);
}

// For requests that wait for uroced: one that was lost a moment ago, or that is busy, comes back.
PacketPort::PathState FabricPort::PrepareUplink() {
  const PathState uplink = links_.Prepare(Route::kWire);
  return uplink == PathState::kUnreachable ? PathState::kPending : uplink;
}

PacketPort::PathState FabricPort::JoinGroup(const transport::Gid& group) {
  const PathState uplink = PrepareUplink();
  if (uplink != PathState::kReady) return uplink;
  return groups_.Request(group, {group}, Now());
}

void FabricPort::LeaveGroup(const transport::Gid& group) { groups_.Drop(group); }

PacketPort::ServiceState FabricPort::ReserveService(const Service& service) {
  const PathState uplink = PrepareUplink();
  if (uplink == PathState::kPending) return ServiceState::kPending;
  if (uplink != PathState::kReady) return ServiceState::kNoRoom;
  const std::vector<control::ServiceClaim> claims = ClaimsOf(service);
  bool are_answered = true;
  for (const control::ServiceClaim& claim : claims) {
    are_answered &= services_.IsAnswered(claim, {claim, service.shares, service.listens}, Now());
  }
  if (!are_answered) return ServiceState::kPending;
  control::ErrnoValue error = 0;
  for (const control::ServiceClaim& claim : claims) services_.TakeAnswer(claim, &error);
  if (error == 0) return ServiceState::kReserved;
  // A service that was reserved before stays so.
  const auto is_granted = [&](const auto& claim) { return services_.IsGranted(claim); };
  if (!std::all_of(claims.begin(), claims.end(), is_granted)) ReleaseService(service);
  if (error == EADDRINUSE) return ServiceState::kInUse;
  links_.Say("uroced has no room for another port of this program (" +
             std::string(strerror(error)) + "): close some, or use several processes");
  return ServiceState::kNoRoom;
}

// Without a NIC each process has addresses of its own, like a host: "all addresses" means those.
std::vector<control::ServiceClaim> FabricPort::ClaimsOf(const Service& service) const {
  const bool is_all_of_ipv4 = service.address == transport::Gid::FromIpv4({});
  const bool is_wildcard = is_all_of_ipv4 || service.address.IsZero();
  if (fabric_.has_wire || !is_wildcard) {
    return {{service.id.value, service.address, service.only_ipv6}};
  }
  std::vector<control::ServiceClaim> claims;
  for (const transport::Gid& own : {options_.ip, transport::Gid::LinkLocal(mac())}) {
    const bool is_other_version = own.IsIpv4Mapped() ? service.only_ipv6 : is_all_of_ipv4;
    if (!is_other_version) claims.push_back({service.id.value, own, 0});
  }
  return claims;
}

void FabricPort::ReleaseService(const Service& service) {
  for (const control::ServiceClaim& claim : ClaimsOf(service)) ReleaseClaim(claim);
}

void FabricPort::ReleaseClaim(const control::ServiceClaim& claim) {
  if (services_.Drop(claim)) releases_.insert(claim);
}

bool FabricPort::IsReleased(const Service& service) const {
  const std::vector<control::ServiceClaim> claims = ClaimsOf(service);
  return std::none_of(claims.begin(), claims.end(),
                      [&](const auto& claim) { return releases_.contains(claim); });
}

void FabricPort::EndSleep() {
  links_.EndSleep();
  if (wire_.is_open()) wire_.EndSleep();
  ServeLink();
}

void FabricPort::ServeLink() {
  ServeSockets();
  const Time now = Now();
  links_.Serve(now);
  if (wire_.is_open()) wire_.ServeLink();
  ReportDrops(now);
  connections_.Serve(now);
  groups_.Serve(now);
  services_.Serve(now);
  xrc_domains_.Serve();
}

void FabricPort::ReportDrops(Time now) {
  if (!wire_.is_open() || now < next_report_) return;
  next_report_ = now + kReportInterval;
  const PortDrops drops = wire_.counters().drops;
  if (drops.by_reason == reported_drops_.by_reason) return;
  if (client_.Send(control::WireDrops{drops})) reported_drops_ = drops;
}

void FabricPort::OnWireSocket(UniqueFd socket) {
  OpenWire();
  if (!wire_.AddReceiver(std::move(socket))) return;
  links_.WakeSleeper();
}

void FabricPort::ServeSockets() {
  std::array<epoll_event, kSocketsAPass> events;
  const int ready = epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  const auto count = static_cast<size_t>(std::max(ready, 0));
  for (size_t i = 0; i < count; ++i) {
    if (events[i].data.u32 == kClientEvent) {
      links_.WakeSleeper();
      ServeControl();
    } else if (events[i].data.u32 == kWireEvent) {
      wire_.OnReadable();
    } else {
      links_.OnReadable(events[i].data.u32);
    }
  }
}

void FabricPort::ServeControl() {
  client_.Serve();
  if (client_.attachments() != served_attachments_) OnReattached();
  control::MessageChannel::Incoming message;
  for (int left = kMessagesAPass; left != 0 && client_.Take(message); --left) OnMessage(message);
}

void FabricPort::OnReattached() {
  served_attachments_ = client_.attachments();
  const control::Welcome& now = client_.welcome();
  is_other_fabric_ = now.has_wire != fabric_.has_wire || now.mac != fabric_.mac;
  if (is_other_fabric_) {
    links_.Say(
        "uroced was started anew with another NIC: this program reaches nobody beyond this host "
        "until it is started anew, too");
  }
  is_up_ = !fabric_.has_wire || (now.wire_is_up && !is_other_fabric_);
  // The process must not send from addresses that are not the fabric's, nor past a uroced that has
  // to check what processes send.
  wire_.DropReceivers();
  if (now.by_own_sockets == 0 || is_other_fabric_) wire_.Close();
  if (!is_other_fabric_) FollowAddresses(std::span(now.gids).first(now.gid_count));
  reported_drops_ = {};
  links_.OnReattached();
  connections_.OnReattached();
  groups_.OnReattached();
  services_.OnReattached();
  xrc_domains_.OnReattached();
  releases_.clear();
  // uroced opens its way out of the host only when a process names a host beyond.
  for (const transport::Gid& gid : named_) client_.Send(control::Resolve{gid});
}

void FabricPort::FollowAddresses(std::span<const transport::Gid> now) {
  if (!fabric_.has_wire || !gids_.Follow(now)) return;
  has_new_gids_ = true;
  fabric_.gid_count = static_cast<uint32_t>(gids_.gids().size());
  std::copy(gids_.gids().begin(), gids_.gids().end(), fabric_.gids.begin());
  if (wire_.is_open()) wire_.Follow(fabric_);
}

std::optional<std::vector<transport::Gid>> FabricPort::TakeGids() {
  if (!std::exchange(has_new_gids_, false)) return std::nullopt;
  return gids_.gids();
}

void FabricPort::OnMessage(control::MessageChannel::Incoming& message) {
  if (const auto link = message.As<control::LinkAnswer>()) {
    links_.OnAnswer(*link);
  } else if (const auto offer = message.As<control::LinkOffer>()) {
    links_.OnOffer(*offer, std::move(message.fds[0]), std::move(message.fds[1]));
  } else if (const auto connection = message.As<control::DeclareAnswer>()) {
    const bool is_asked = connections_.OnAnswer(connection->local, connection->error);
    if (is_asked && connection->path_mtu_bytes != 0) {
      path_mtus_[connection->local] = connection->path_mtu_bytes;
    }
  } else if (const auto group = message.As<control::GroupAnswer>()) {
    groups_.OnAnswer(group->group, group->error);
  } else if (const auto service = message.As<control::ListenAnswer>()) {
    services_.OnAnswer(service->claim, service->error);
  } else if (const auto unlisten = message.As<control::UnlistenAnswer>()) {
    releases_.erase(unlisten->claim);
  } else if (const auto opened = message.As<control::XrcDomainAnswer>()) {
    xrc_domains_.OnAnswer(*opened);
  } else if (const auto closed = message.As<control::XrcDomainClosed>()) {
    xrc_domains_.OnClosed(*closed);
  } else if (const auto neighbor = message.As<control::Neighbor>()) {
    if (neighbor_sink_) neighbor_sink_(*neighbor);
  } else if (const auto port = message.As<control::PortState>()) {
    is_up_ = !fabric_.has_wire || (port->is_up != 0 && !is_other_fabric_);
  } else if (const auto addresses = message.As<control::Addresses>()) {
    if (!is_other_fabric_) FollowAddresses(addresses->gids);
  } else if (message.As<control::WireSocket>()) {
    OnWireSocket(std::move(message.fds[0]));
  } else if (const auto notice = message.As<control::Notice>()) {
    links_.Say(
        {notice->sentence.data(), strnlen(notice->sentence.data(), notice->sentence.size())});
  }
}

PacketPort::Counters FabricPort::counters() const {
  Counters counters = links_.counters();
  if (!wire_.is_open()) return counters;
  const Counters wire = wire_.counters();
  counters.transmit_dropped_no_link += wire.transmit_dropped_no_link;
  counters.receive_malformed += wire.receive_malformed;
  counters.drops = wire.drops;
  return counters;
}

void FabricPort::AbandonAfterFork() {
  epoll_.reset();
  if (wire_.is_open()) wire_.AbandonAfterFork();
  client_.Abandon();
  links_.AbandonAfterFork();
}

}  // namespace uroce::nic
