#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstdint>

namespace uroce::transport {

// A number that names something. Ids of different kinds do not mix.
template <class Tag>
struct Id {
  uint32_t value = 0;

  constexpr auto operator<=>(const Id&) const = default;
};

using Qpn = Id<struct QpnTag>;    // queue pair number, 24 bits
using PdId = Id<struct PdIdTag>;  // protection domain
using LKey = Id<struct LKeyTag>;  // local key of a memory region
using RKey = Id<struct RKeyTag>;  // remote key of a memory region or window

inline constexpr uint32_t kMaxQpn = 0xff'ffff;
inline constexpr Qpn kMulticastQpn{0xff'ffff};  // of every datagram to a multicast group

using MacAddress = std::array<uint8_t, 6>;

// A global identifier: an IPv6 address, or an IPv4 address mapped as ::ffff:a.b.c.d.
// Network byte order.
struct Gid {
  std::array<uint8_t, 16> bytes{};

  constexpr auto operator<=>(const Gid& other) const { return bytes <=> other.bytes; }
  // Two words: packets are compared by it.
  constexpr bool operator==(const Gid& other) const {
    const auto ours = std::bit_cast<std::array<uint64_t, 2>>(bytes);
    const auto theirs = std::bit_cast<std::array<uint64_t, 2>>(other.bytes);
    return ((ours[0] ^ theirs[0]) | (ours[1] ^ theirs[1])) == 0;
  }

  constexpr bool IsIpv4Mapped() const {
    constexpr std::array<uint8_t, 12> kPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    constexpr auto kWords = std::bit_cast<std::array<uint32_t, 3>>(kPrefix);
    const auto words = std::bit_cast<std::array<uint32_t, 4>>(bytes);
    return (words[0] | words[1]) == 0 && words[2] == kWords[2];
  }
  constexpr bool IsZero() const { return *this == Gid{}; }
  // An IPv6 multicast address, or an IPv4 one mapped.
  constexpr bool IsMulticast() const {
    return bytes[0] == 0xff || (IsIpv4Mapped() && (bytes[12] & 0xf0) == 0xe0);
  }

  static constexpr Gid FromIpv4(const std::array<uint8_t, 4>& address) {
    return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff,  //
             address[0], address[1], address[2], address[3]}};
  }
  // The link-local GID of a port: fe80::/64 and the modified EUI-64 of its MAC address (RFC 4291).
  static constexpr Gid LinkLocal(const MacAddress& mac) {
    return {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, static_cast<uint8_t>(mac[0] ^ 2), mac[1], mac[2], 0xff,
             0xfe, mac[3], mac[4], mac[5]}};
  }
};

}  // namespace uroce::transport
