#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace uroce::transport {

// A number that identifies an object. Ids of different kinds do not convert into each other.
template <class Tag>
struct Id {
  uint32_t value = 0;

  constexpr auto operator<=>(const Id&) const = default;
};

using Qpn = Id<struct QpnTag>;                  // queue pair number, 24 bits
using Srqn = Id<struct SrqnTag>;                // XRC: number of a shared receive queue, 24 bits
using PdId = Id<struct PdIdTag>;                // protection domain
using XrcDomainId = Id<struct XrcDomainIdTag>;  // XRC domain; 0: none
using LKey = Id<struct LKeyTag>;                // local key of a memory region
using RKey = Id<struct RKeyTag>;                // remote key of a memory region or window

// Proves to a process of the host that another one has opened the same XRC domain; not guessable.
struct XrcKey {
  std::array<uint8_t, 16> bytes{};

  constexpr auto operator<=>(const XrcKey&) const = default;
  constexpr bool IsZero() const { return *this == XrcKey{}; }
};

inline constexpr uint32_t kMaxQpn = 0xff'ffff;
inline constexpr Qpn kMulticastQpn{0xff'ffff};  // destination of every multicast datagram

using MacAddress = std::array<uint8_t, 6>;

// A global identifier: an IPv6 address, or an IPv4 address mapped as ::ffff:a.b.c.d.
// Network byte order.
struct Gid {
  std::array<uint8_t, 16> bytes{};

  constexpr auto operator<=>(const Gid& other) const { return bytes <=> other.bytes; }
  // Compares 64-bit words, which is fast: received packets are matched by it.
  constexpr bool operator==(const Gid& other) const {
    return ((Word(0) ^ other.Word(0)) | (Word(8) ^ other.Word(8))) == 0;
  }

  constexpr bool IsIpv4Mapped() const {
    return Word(0) == 0 && (Word(8) & 0xffff'ffff) == 0xffff'0000;
  }
  constexpr bool IsZero() const { return *this == Gid{}; }
  // An IPv6 multicast address, or a mapped IPv4 one.
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

 private:
  // Eight bytes as a little-endian number, by one load. (g++ 10 has no std::bit_cast.)
  constexpr uint64_t Word(size_t offset) const {
    if (!std::is_constant_evaluated() && std::endian::native == std::endian::little) {
      uint64_t word = 0;
      __builtin_memcpy(&word, &bytes[offset], sizeof word);
      return word;
    }
    uint64_t word = 0;
    for (size_t i = 0; i < sizeof word; ++i) word |= uint64_t{bytes[offset + i]} << (8 * i);
    return word;
  }
};

}  // namespace uroce::transport
