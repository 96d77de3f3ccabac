#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "transport/wire/byte_order.h"

namespace uroce::transport {

// IPv4 header without options (RFC 791), 20 bytes on the wire. Never a fragment: RoCEv2 packets are
// not fragmented, so DF is always set on emit (IBA CA17-7).
struct Ipv4Header {
  static constexpr size_t kBytes = 20;
  static constexpr size_t kTotalLengthOffset = 2;
  static constexpr size_t kSourceOffset = 12;
  static constexpr size_t kDestinationOffset = 16;

  uint8_t traffic_class = 0;  // type of service: DSCP and the two ECN bits
  uint16_t total_length = 0;  // of the IP packet, this header included
  uint16_t identification = 0;
  uint8_t time_to_live = 0;
  uint8_t protocol = 0;
  std::array<uint8_t, 4> source{};
  std::array<uint8_t, 4> destination{};

  constexpr bool operator==(const Ipv4Header&) const = default;
};

namespace ipv4_internal {

inline constexpr uint8_t kVersionAndLength = 0x45;  // version 4, five words
inline constexpr uint16_t kDontFragment = 0x4000;
inline constexpr uint16_t kFragment = 0x3fff;  // MF and the fragment offset
inline constexpr size_t kChecksumOffset = 10;

// The sum of the header's five 32-bit words in host byte order; not 0, as the version is not.
// Modulo 2^16 - 1 it is the one's complement sum of RFC 1071, which may be computed in any byte
// order.
inline uint64_t Sum(const uint8_t* bytes) {
  const auto word = [bytes](size_t i) {
    uint32_t value;
    std::memcpy(&value, bytes + 4 * i, sizeof value);
    return uint64_t{value};
  };
  return word(0) + word(1) + word(2) + word(3) + word(4);
}

// One's complement has two zeros; a sum of zero counts as all ones.
inline uint16_t ChecksumOf(const uint8_t* bytes) {
  return static_cast<uint16_t>(~((Sum(bytes) - 1) % 0xffff + 1));
}

// Whether the sum is a multiple of 2^16 - 1. The multiples of an odd number, and they alone, are
// small when multiplied by its inverse modulo 2^64. Written out, because compilers turn `%` into a
// division in code that they take for rarely executed.
inline bool IsChecksumRight(const uint8_t* bytes) {
  constexpr uint64_t kDivisor = 0xffff;
  constexpr uint64_t kInverse = 0xfffe'fffe'fffe'ffff;
  static_assert(kDivisor * kInverse == 1);
  return Sum(bytes) * kInverse <= UINT64_MAX / kDivisor;
}

}  // namespace ipv4_internal

// nullopt if the version is not 4, there are options, it is a fragment or the checksum is wrong
// (IBA CA17-3, CA17-8).
inline std::optional<Ipv4Header> ParseIpv4(const uint8_t* bytes) {
  if (bytes[0] != ipv4_internal::kVersionAndLength) return std::nullopt;
  if ((Load16(bytes + 6) & ipv4_internal::kFragment) != 0) return std::nullopt;
  if (!ipv4_internal::IsChecksumRight(bytes)) return std::nullopt;
  Ipv4Header ip{.traffic_class = bytes[1],
                .total_length = Load16(bytes + 2),
                .identification = Load16(bytes + 4),
                .time_to_live = bytes[8],
                .protocol = bytes[9]};
  std::memcpy(ip.source.data(), bytes + Ipv4Header::kSourceOffset, 4);
  std::memcpy(ip.destination.data(), bytes + Ipv4Header::kDestinationOffset, 4);
  return ip;
}

// Sets the right checksum, whatever it is now.
inline void CorrectIpv4Checksum(uint8_t* bytes) {
  Store16(0, bytes + ipv4_internal::kChecksumOffset);
  const uint16_t checksum = ipv4_internal::ChecksumOf(bytes);
  std::memcpy(bytes + ipv4_internal::kChecksumOffset, &checksum, sizeof checksum);
}

inline void EmitIpv4(const Ipv4Header& ip, uint8_t* bytes) {
  bytes[0] = ipv4_internal::kVersionAndLength;
  bytes[1] = ip.traffic_class;
  Store16(ip.total_length, bytes + 2);
  Store16(ip.identification, bytes + 4);
  Store16(ipv4_internal::kDontFragment, bytes + 6);
  bytes[8] = ip.time_to_live;
  bytes[9] = ip.protocol;
  std::memcpy(bytes + Ipv4Header::kSourceOffset, ip.source.data(), 4);
  std::memcpy(bytes + Ipv4Header::kDestinationOffset, ip.destination.data(), 4);
  CorrectIpv4Checksum(bytes);
}

namespace ipv4_internal {

// Sets a word in a copy of `header`, which was emitted with 0 in its place, and corrects the
// checksum (RFC 1624, equation 3, with an old value of zero: HC' = ~(~HC + m')). The copy is only
// written.
inline void SetWord(size_t offset, uint16_t word, const uint8_t* header, uint8_t* copy) {
  uint32_t sum = static_cast<uint16_t>(~Load16(header + kChecksumOffset));
  sum += word;
  sum = (sum & 0xffff) + (sum >> 16);
  Store16(word, copy + offset);
  Store16(static_cast<uint16_t>(~sum), copy + kChecksumOffset);
}

}  // namespace ipv4_internal

// Set the field in a copy of `header`, which was emitted with 0 in its place.
inline void SetIpv4TotalLength(uint16_t total_length, const uint8_t* header, uint8_t* copy) {
  ipv4_internal::SetWord(Ipv4Header::kTotalLengthOffset, total_length, header, copy);
}
inline void SetIpv4Identification(uint16_t identification, const uint8_t* header, uint8_t* copy) {
  ipv4_internal::SetWord(4, identification, header, copy);
}

}  // namespace uroce::transport
