#include "dpdk_nic/link_layer/rtnetlink.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dpdk_nic/base/cancellation_guard.h"

namespace uroce::nic {

using transport::Gid;

void RtnetlinkRequest::Add(uint16_t attribute, std::span<const uint8_t> value) {
  const size_t offset = NLMSG_ALIGN(header()->nlmsg_len);
  const rtattr head{.rta_len = static_cast<uint16_t>(RTA_LENGTH(value.size())),
                    .rta_type = attribute};
  memcpy(&bytes_.at(offset), &head, sizeof head);
  std::copy(value.begin(), value.end(), std::span(bytes_).subspan(offset + RTA_LENGTH(0)).begin());
  header()->nlmsg_len = static_cast<uint32_t>(offset + RTA_ALIGN(head.rta_len));
}

void RtnetlinkRequest::Add(uint16_t attribute, int value) {
  Add(attribute, {reinterpret_cast<const uint8_t*>(&value), sizeof value});
}

void RtnetlinkRequest::AddAddress(uint16_t attribute, const Gid& address) {
  Add(attribute, std::span(address.bytes).subspan(address.IsIpv4Mapped() ? 12 : 0));
}

int RtnetlinkMessage::error() const {
  const auto* error = body<nlmsgerr>();
  return type() == NLMSG_ERROR && error != nullptr ? -error->error : 0;
}

std::span<const uint8_t> RtnetlinkMessage::FindBehind(size_t body_bytes, uint16_t attribute) const {
  if (header_->nlmsg_len < NLMSG_HDRLEN + body_bytes) return {};
  auto bytes = static_cast<int>(header_->nlmsg_len - NLMSG_HDRLEN - body_bytes);
  const auto* found = reinterpret_cast<const rtattr*>(
      static_cast<const uint8_t*>(NLMSG_DATA(header_)) + body_bytes);
  for (; RTA_OK(found, bytes); found = RTA_NEXT(found, bytes)) {
    if (found->rta_type != attribute) continue;
    return {static_cast<const uint8_t*>(RTA_DATA(found)), RTA_PAYLOAD(found)};
  }
  return {};
}

std::optional<Gid> RtnetlinkMessage::AddressOf(std::span<const uint8_t> value) {
  if (value.size() == 4) return Gid::FromIpv4({value[0], value[1], value[2], value[3]});
  Gid gid;
  if (value.size() != gid.bytes.size()) return std::nullopt;
  std::copy(value.begin(), value.end(), gid.bytes.begin());
  return gid;
}

RtnetlinkSocket::RtnetlinkSocket(uint32_t groups)
    : fd_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)) {
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = groups;
  if (fd_ && bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    fd_.reset();
  }
}

bool RtnetlinkSocket::Send(const RtnetlinkRequest& request) {
  const CancellationGuard guard;
  // Drops answers to earlier requests that were given up.
  while (Receive().has_value()) {
  }
  const auto bytes = request.bytes();
  return send(fd_.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
}

std::optional<RtnetlinkMessage> RtnetlinkSocket::Receive() {
  while (true) {
    const auto* header = reinterpret_cast<const nlmsghdr*>(buffer_.data() + position_);
    if (NLMSG_OK(header, received_bytes_ - position_)) {
      position_ = std::min(received_bytes_, position_ + NLMSG_ALIGN(header->nlmsg_len));
      return RtnetlinkMessage(header);
    }
    if (!ReceiveDatagram()) return std::nullopt;
  }
}

// Other processes can send to the socket, too: only messages of the kernel are kept.
bool RtnetlinkSocket::ReceiveDatagram() {
  const CancellationGuard guard;
  position_ = 0;
  received_bytes_ = 0;
  sockaddr_nl sender{};
  socklen_t sender_bytes = sizeof sender;
  const ssize_t bytes = recvfrom(fd_.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT,
                                 reinterpret_cast<sockaddr*>(&sender), &sender_bytes);
  if (bytes < 0) {
    if (errno != ENOBUFS) return false;
    overflowed_ = true;
    return true;
  }
  if (sender.nl_pid == 0) received_bytes_ = static_cast<size_t>(bytes);
  return true;
}

bool RtnetlinkSocket::TakeOverflow() { return std::exchange(overflowed_, false); }

}  // namespace uroce::nic
