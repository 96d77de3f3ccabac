#pragma once

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "dpdk_nic/base/unique_fd.h"
#include "transport/ids.h"

namespace uroce::nic {

// A question or an order to the kernel's network configuration (rtnetlink(7)).
class RtnetlinkRequest {
 public:
  // `body` is the structure that goes with `type`: rtmsg, ndmsg, ifaddrmsg ...
  template <class Body>
  RtnetlinkRequest(uint16_t type, uint16_t flags, const Body& body) {
    static_assert(NLMSG_LENGTH(sizeof(Body)) <= kHeaderBytes);
    header()->nlmsg_type = type;
    header()->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
    header()->nlmsg_len = NLMSG_LENGTH(sizeof body);
    memcpy(NLMSG_DATA(header()), &body, sizeof body);
  }

  void Add(uint16_t attribute, std::span<const uint8_t> value);
  void Add(uint16_t attribute, int value);
  // Adds 4 bytes of an IPv4 address, or 16 of an IPv6 address.
  void AddAddress(uint16_t attribute, const transport::Gid& address);

  std::span<const uint8_t> bytes() const {
    return std::span(bytes_).first(reinterpret_cast<const nlmsghdr*>(bytes_.data())->nlmsg_len);
  }

 private:
  static constexpr size_t kHeaderBytes = 64;
  static constexpr size_t kAttributeBytes = 64;

  nlmsghdr* header() { return reinterpret_cast<nlmsghdr*>(bytes_.data()); }

  alignas(nlmsghdr) std::array<uint8_t, kHeaderBytes + kAttributeBytes> bytes_{};
};

// The address family that the kernel gives a GID.
inline uint8_t FamilyOf(const transport::Gid& gid) {
  return gid.IsIpv4Mapped() ? AF_INET : AF_INET6;
}

// A message of the kernel, which stays valid until the socket it came from is used again.
class RtnetlinkMessage {
 public:
  explicit RtnetlinkMessage(const nlmsghdr* header) : header_(header) {}

  uint16_t type() const { return header_->nlmsg_type; }
  // The structure in front of the attributes; nullptr if the message is too short for it.
  template <class Body>
  const Body* body() const {
    if (header_->nlmsg_len < NLMSG_LENGTH(sizeof(Body))) return nullptr;
    return static_cast<const Body*>(NLMSG_DATA(header_));
  }
  // The value of an attribute behind `Body`; empty if there is none.
  template <class Body>
  std::span<const uint8_t> Find(uint16_t attribute) const {
    return FindBehind(NLMSG_ALIGN(sizeof(Body)), attribute);
  }
  // The address in an attribute behind `Body`.
  template <class Body>
  std::optional<transport::Gid> FindAddress(uint16_t attribute) const {
    return AddressOf(Find<Body>(attribute));
  }
  // The address of 4 or 16 bytes; nullopt if there are as many as no address has.
  static std::optional<transport::Gid> AddressOf(std::span<const uint8_t> value);
  // The errno value of an error message; 0 for an acknowledgement or any other message.
  int error() const;

 private:
  std::span<const uint8_t> FindBehind(size_t body_bytes, uint16_t attribute) const;

  const nlmsghdr* header_;
};

// A netlink socket. Where the system gives us no netlink it is invalid, and never receives an
// answer. No call blocks: the kernel answers a request before Send returns.
class RtnetlinkSocket {
 public:
  // `groups`: the changes that the kernel reports to the socket (RTMGRP_*).
  explicit RtnetlinkSocket(uint32_t groups = 0);

  bool Send(const RtnetlinkRequest& request);
  // The next message, if there is one. Call it until there is none: an answer can have several.
  std::optional<RtnetlinkMessage> Receive();
  // Readable when there is a message, or when one was lost.
  int fd() const { return fd_.get(); }
  // Whether messages were lost since the last call, because the socket was full.
  bool TakeOverflow();

 private:
  bool ReceiveDatagram();

  UniqueFd fd_;
  bool overflowed_ = false;
  size_t position_ = 0;
  size_t received_bytes_ = 0;
  alignas(nlmsghdr) std::array<uint8_t, 16'384> buffer_;
};

}  // namespace uroce::nic
