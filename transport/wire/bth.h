#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/ids.h"
#include "transport/psn.h"
#include "transport/wire/byte_order.h"

namespace uroce::transport {

// Base transport header (IBA 9.2), 12 bytes on the wire: three words,
//
//   31          24 23 22 21 20 19  16 15                     0
//  +--------------+--+--+-----+------+------------------------+
//  |    opcode    |SE| M| pad | TVer |         P_Key          |
//  |FECN BECN  0  |            destination QPN                |
//  |ack request 0 |                  PSN                      |
//  +--------------+-------------------------------------------+
//
// Reserved bits are sent as zero and ignored on receipt.
struct Bth {
  static constexpr size_t kBytes = 12;

  uint8_t opcode = 0;
  bool solicited = false;
  bool migration_request = false;
  uint8_t pad_count = 0;          // 0..3 bytes between payload and ICRC
  uint8_t transport_version = 0;  // TVer, 4 bits; there is only version 0
  uint16_t pkey = 0;
  bool forward_congestion = false;
  bool backward_congestion = false;
  Qpn destination_qpn{};
  bool ack_request = false;
  Psn psn{};

  constexpr bool operator==(const Bth&) const = default;
};

// Parses the three words of a BTH. Always inlined, so that a caller pays only for fields it uses.
[[gnu::always_inline]] inline Bth ParseBth(uint32_t first, uint32_t second, uint32_t third) {
  const auto bit = [](uint32_t word, int position) { return ((word >> position) & 1) != 0; };
  return {.opcode = HighByte(first),
          .solicited = bit(first, 23),
          .migration_request = bit(first, 22),
          .pad_count = static_cast<uint8_t>((first >> 20) & 3),
          .transport_version = static_cast<uint8_t>((first >> 16) & 15),
          .pkey = static_cast<uint16_t>(first),
          .forward_congestion = bit(second, 31),
          .backward_congestion = bit(second, 30),
          .destination_qpn = Qpn{Low24(second)},
          .ack_request = bit(third, 31),
          .psn = Psn(third)};
}

inline Bth ParseBth(const uint8_t* bytes) {
  return ParseBth(Load32(bytes), Load32(bytes + 4), Load32(bytes + 8));
}

// The three words of a BTH, in host byte order.
struct BthWords {
  uint32_t first;
  uint32_t second;
  uint32_t third;
};

constexpr BthWords WordsOf(const Bth& bth) {
  const auto at = [](uint32_t value, int position) { return value << position; };
  return {.first = at(bth.opcode, 24) | at(bth.solicited, 23) | at(bth.migration_request, 22) |
                   at(bth.pad_count & 3u, 20) | at(bth.transport_version & 15u, 16) | bth.pkey,
          .second = at(bth.forward_congestion, 31) | at(bth.backward_congestion, 30) |
                    Low24(bth.destination_qpn.value),
          .third = at(bth.ack_request, 31) | bth.psn.value()};
}

inline void EmitBth(const BthWords& words, uint8_t* bytes) {
  Store32(words.first, bytes);
  Store32(words.second, bytes + 4);
  Store32(words.third, bytes + 8);
}

inline void EmitBth(const Bth& bth, uint8_t* bytes) { EmitBth(WordsOf(bth), bytes); }

}  // namespace uroce::transport
