#include "dpdk_nic/port/udp/udp_port.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "dpdk_nic/base/cancellation_guard.h"
#include "dpdk_nic/base/clock.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/icrc.h"
#include "transport/wire/udp.h"

namespace uroce::nic {
namespace {

using transport::Gid;

// The largest IP packet that uroce sends.
constexpr uint32_t kUsefulMtuBytes = transport::kMaxFrameBytes - transport::EthernetHeader::kBytes;
// The other sockets are polled after every so many empty polls of the busy one.
constexpr uint32_t kReceivesBetweenOthers = 8;
constexpr int kMaxErrorsPerLook = 16;
// How many errors a frame may meet that are about other packets.
constexpr int kMaxRetries = 8;
constexpr size_t kMaxUnsegmented = 64;
constexpr transport::Duration kOverflowInterval = transport::Milliseconds(100);
// For how long the same error is not reported again.
constexpr transport::Duration kSentenceInterval = transport::Milliseconds(10'000);

// Errors by which the kernel says that it cannot cut a message into datagrams: the device cannot,
// or a datagram would be longer than the path's MTU.
bool IsAboutSegments(int error) {
  return error == EIO || error == EINVAL || error == EMSGSIZE || error == EOPNOTSUPP;
}

}  // namespace

ErrorOr<std::unique_ptr<UdpPort>> UdpPort::Open(const std::vector<Gid>& addresses,
                                                uint32_t mtu_bytes) {
  const auto found = addresses.empty() ? DefaultAddresses() : FindAddresses(addresses);
  if (!found.ok()) return Error{found.error()};
  std::unique_ptr<UdpPort> port(new UdpPort);
  port->addresses_ = found.value();
  port->mac_ = MacOf(port->addresses_);
  port->gids_ = LocalGids(GidsOf(port->addresses_));
  if (auto error = port->OpenSockets(port->addresses_, UdpSocket::Use::kAll)) return *error;
  if (auto error = port->ChooseMtu(mtu_bytes)) return *error;
  if (addresses.empty()) port->FollowNews();
  return port;
}

ErrorOr<std::unique_ptr<UdpPort>> UdpPort::OpenWildcard(const std::vector<HostAddress>& addresses,
                                                        uint32_t mtu_bytes) {
  return OpenForAll(addresses, mtu_bytes, UdpSocket::Use::kAll);
}

ErrorOr<std::unique_ptr<UdpPort>> UdpPort::OpenSender(const std::vector<HostAddress>& addresses,
                                                      uint32_t mtu_bytes) {
  return OpenForAll(addresses, mtu_bytes, UdpSocket::Use::kSending);
}

ErrorOr<std::unique_ptr<UdpPort>> UdpPort::OpenForAll(const std::vector<HostAddress>& addresses,
                                                      uint32_t mtu_bytes, UdpSocket::Use use) {
  std::vector<HostAddress> wildcards;
  for (const Gid& wildcard : {Gid::FromIpv4({}), Gid{}}) {
    const bool is_needed = std::any_of(addresses.begin(), addresses.end(), [&](const auto& own) {
      return own.gid.IsIpv4Mapped() == wildcard.IsIpv4Mapped();
    });
    if (is_needed) wildcards.push_back({.gid = wildcard});
  }
  std::unique_ptr<UdpPort> port(new UdpPort);
  port->addresses_ = addresses;
  port->mac_ = MacOf(addresses);
  port->mtu_bytes_ = mtu_bytes;
  port->only_sends_ = use == UdpSocket::Use::kSending;
  if (auto error = port->OpenSockets(wildcards, use)) return *error;
  return port;
}

std::optional<Error> UdpPort::OpenSockets(const std::vector<HostAddress>& bound,
                                          UdpSocket::Use use) {
  wait_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  for (const HostAddress& address : bound) {
    auto socket = UdpSocket::Open(address, use);
    if (!socket.ok()) return Error{socket.error()};
    sockets_.push_back(std::move(socket).value());
    if (!Watch(sockets_.back())) {
      return Error{std::string("nothing can be waited for (") + std::strerror(errno) +
                   "): allow this process more open files"};
    }
  }
  return std::nullopt;
}

bool UdpPort::Watch(const UdpSocket& socket) const {
  epoll_event event{.events = EPOLLIN, .data = {}};
  return epoll_ctl(wait_.get(), EPOLL_CTL_ADD, socket.fd(), &event) == 0;
}

bool UdpPort::AddReceiver(UdpSocket socket) {
  if (!Watch(socket)) return false;
  receivers_.push_back(std::move(socket));
  return true;
}

void UdpPort::DropReceivers() {
  run_ = {};
  batch_.Clear();
  has_just_received_ = false;
  busy_socket_ = 0;
  for (const UdpSocket& socket : receivers_) {
    // Not left to close(): a child between fork and exec may hold the descriptor a little longer.
    epoll_ctl(wait_.get(), EPOLL_CTL_DEL, socket.fd(), nullptr);
  }
  receivers_.clear();
}

std::optional<Error> UdpPort::ChooseMtu(uint32_t wished_mtu_bytes) {
  uint32_t own = kUsefulMtuBytes;
  for (const HostAddress& address : addresses_) own = std::min(own, address.mtu_bytes);
  if (wished_mtu_bytes > own) {
    return Error{"the UDP port cannot have an MTU of " + std::to_string(wished_mtu_bytes) +
                 "; the most that its interface can have is " + std::to_string(own)};
  }
  mtu_bytes_ = wished_mtu_bytes != 0 ? wished_mtu_bytes : own;
  return std::nullopt;
}

PacketPort::ReceivedFrame UdpPort::Receive() {
  if (is_blocked_) Transmit();
  while (true) {
    if (const transport::ReceivedPacket* const packet = run_.Next(&peers_, &drops_)) {
      const size_t bytes = packet->bytes.size() + transport::kIcrcBytes;
      return {.bytes = {packet->bytes.data(), bytes}, .packet = packet};
    }
    ReceiveBatch::Message message;
    if (batch_.Next(&message)) {
      DatagramInfo info;
      const size_t bytes = message.bytes.size();
      if (!ReadDatagramInfo(*message.header, bytes, batch_address_, &info, &drops_)) continue;
      if (IsToBeDropped(info)) continue;
      run_ = DatagramRun(message.bytes, info);
    } else if (!ReceiveAny()) {
      return {};
    }
  }
}

// Drops datagrams from the port's own addresses: none comes by the network, but the kernel returns
// what the port sends to a group.
bool UdpPort::IsToBeDropped(const DatagramInfo& info) {
  if (FindOwn(info.flow.source) == addresses_.end()) return false;
  if (!info.flow.destination.IsMulticast()) ++drops_[PortDrop::kOwnAddress];
  return true;
}

const UdpSocket& UdpPort::receiver(size_t index) const {
  const size_t own = receiving().size();
  return index < own ? receiving()[index] : groups_.sockets()[index - own];
}

bool UdpPort::ReceiveAny() {
  const size_t count = receiver_count();
  if (count == 0) return false;
  busy_socket_ %= count;  // sockets may have gone
  // Right after a batch the socket counts as empty once, so that the engine goes on with the batch
  // at once; the next call looks for more.
  const bool has_just_received = std::exchange(has_just_received_, false);
  if (!has_just_received && ReceiveFrom(busy_socket_)) return true;
  const bool look_at_others = ++empty_receives_ % kReceivesBetweenOthers == 0;
  for (size_t i = 1; look_at_others && i < count; ++i) {
    const size_t other = (busy_socket_ + i) % count;
    if (!ReceiveFrom(other)) continue;
    busy_socket_ = other;
    return true;
  }
  return false;
}

// An error here is one that the network reported (ICMP); TakeErrors gets it, too.
bool UdpPort::ReceiveFrom(size_t socket) {
  const CancellationGuard guard;
  batch_address_ = receiver(socket).gid();
  has_just_received_ = batch_.Receive(receiver(socket).fd()) > 0;
  return has_just_received_;
}

transport::FrameRoom UdpPort::AcquireTransmit(transport::Route /*route*/) {
  if (const transport::FrameRoom room = queue_.Room(); !room.empty()) return room;
  Transmit();
  return queue_.Room();
}

void UdpPort::CommitTransmit(size_t frame_bytes) {
  if (!queue_.Commit(frame_bytes)) ++transmit_malformed_;
}

void UdpPort::Flush() {
  if (queue_.size() != 0) Transmit();
}

void UdpPort::Transmit() {
  const CancellationGuard guard;
  is_blocked_ = false;
  while (queue_.size() != 0 && !is_blocked_) is_blocked_ = !TransmitOnce();
}

bool UdpPort::TransmitOnce() {
  const OutgoingPacket& oldest = queue_.packet(0);
  const WayOut way = WayOutOf(oldest.flow.source);
  if (way.socket == nullptr) {
    DropRefused(EADDRNOTAVAIL, 1);
    return true;
  }
  sends_.Clear();
  while (sends_.frames() < queue_.size()) {
    const size_t index = sends_.frames();
    const OutgoingPacket& next = queue_.packet(index);
    if (next.flow.source != oldest.flow.source) break;
    const size_t frames = queue_.RunAt(index, MaySegment(next.flow.destination));
    queue_.Seal(index, frames, way.socket->port());
    sends_.Add(queue_, frames, *way.socket, way.interface_index);
  }
  const int sent = sends_.Send(*way.socket);
  if (sent < 0) return OnRefused(errno, sends_.frames(0));
  size_t frames = 0;
  for (int message = 0; message < sent; ++message) {
    frames += sends_.frames(static_cast<size_t>(message));
  }
  queue_.Drop(frames);
  retries_ = 0;
  return true;
}

bool UdpPort::OnRefused(int error, size_t frames) {
  if (error == EAGAIN || error == ENOBUFS || error == ENOMEM) return false;
  if (error == EINTR) return true;
  if (frames > 1 && IsAboutSegments(error)) {
    if (unsegmented_.size() == kMaxUnsegmented) unsegmented_.clear();
    unsegmented_.push_back(queue_.packet(0).flow.destination);
    return true;
  }
  // A socket reports an ICMP error by refusing the next message, whichever that is.
  TakeErrors();
  if (++retries_ > kMaxRetries) DropRefused(error, frames);
  return true;
}

void UdpPort::DropRefused(int error, size_t frames) {
  Say({.destination = queue_.packet(0).flow.destination, .error = error});
  drops_[PortDrop::kNotSent] += frames;
  queue_.Drop(frames);
  retries_ = 0;
}

bool UdpPort::MaySegment(const Gid& destination) const {
  return std::find(unsegmented_.begin(), unsegmented_.end(), destination) == unsegmented_.end();
}

std::vector<HostAddress>::const_iterator UdpPort::FindOwn(const Gid& gid) const {
  return std::find_if(addresses_.begin(), addresses_.end(),
                      [&](const HostAddress& address) { return address.gid == gid; });
}

UdpPort::WayOut UdpPort::WayOutOf(const Gid& source) const {
  const auto own = FindOwn(source);
  if (own == addresses_.end()) return {};
  const auto socket =
      std::find_if(sockets_.begin(), sockets_.end(), [&](const UdpSocket& candidate) {
        const bool has_all =
            IsWildcard(candidate.gid()) && candidate.gid().IsIpv4Mapped() == source.IsIpv4Mapped();
        return has_all || candidate.gid() == source;
      });
  if (socket == sockets_.end()) return {};
  return {&*socket, own->interface_index};
}

// A received datagram keeps its socket readable, so no wake-up is lost. An error keeps it readable,
// too, and would wake every sleeper: EndSleep takes it.
bool UdpPort::BeginSleep() { return run_.empty() && batch_.empty() && queue_.size() == 0; }

void UdpPort::ServeLink() {
  if (news_ && news_->Take()) FollowAddresses();
  TakeErrors();
  LookForOverflow();
}

// Reports overflow once only.
void UdpPort::LookForOverflow() {
  const transport::Time now = Now();
  if (told_of_overflow_ || !notice_.sentence.empty() || now < next_look_for_overflow_) return;
  next_look_for_overflow_ = now + kOverflowInterval;
  for (size_t i = 0; i < receiver_count(); ++i) {
    const UdpSocket& socket = receiver(i);
    if (socket.CountOverflow() == 0) continue;
    notice_ = {.sentence = ExplainOverflow(socket.gid(), socket.receive_buffer_bytes()),
               .about = {}};
    told_of_overflow_ = true;
    return;
  }
}

uint64_t UdpPort::CountOverflow() const {
  uint64_t count = 0;
  for (size_t i = 0; i < receiver_count(); ++i) count += receiver(i).CountOverflow();
  return count;
}

void UdpPort::TakeErrors() {
  for (const UdpSocket& socket : sockets_) TakeErrorsOf(socket);
  for (const UdpSocket& socket : receivers_) TakeErrorsOf(socket);
}

void UdpPort::TakeErrorsOf(const UdpSocket& socket) {
  for (int errors = 0; errors < kMaxErrorsPerLook; ++errors) {
    const auto error = socket.TakeError();
    if (!error) break;
    Say(*error);
  }
}

void UdpPort::Say(const UdpSocket::NetworkError& error) {
  const transport::Time now = Now();
  const bool is_same = said_.destination == error.destination && said_.error == error.error;
  if (!notice_.sentence.empty() || (is_same && now < said_until_)) return;
  notice_ = {.sentence = Explain(error), .about = error.destination};
  said_ = error;
  said_until_ = now + kSentenceInterval;
}

void UdpPort::AbandonAfterFork() {
  for (UdpSocket& socket : sockets_) socket.Close();
  for (UdpSocket& socket : receivers_) socket.Close();
  groups_.AbandonAfterFork();
  news_.reset();
  wait_.reset();
}

PacketPort::Counters UdpPort::counters() const {
  PortDrops drops = drops_;
  drops[PortDrop::kOverflow] = CountOverflow();
  const uint64_t malformed =
      drops_.total() - drops_[PortDrop::kNotSent] - drops_[PortDrop::kBadIcrc];
  return {.transmit_dropped_no_link = drops_[PortDrop::kNotSent],
          .receive_malformed = malformed + transmit_malformed_,
          .drops = drops};
}

}  // namespace uroce::nic
