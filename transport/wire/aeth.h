#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/wire/byte_order.h"

namespace uroce::transport {

// NAK codes (IBA 9.7.5.2.2).
enum class NakCode : uint8_t {
  kPsnSequenceError = 0,
  kInvalidRequest = 1,
  kRemoteAccessError = 2,
  kRemoteOperationalError = 3,
  kInvalidRdRequest = 4,
};

// The syndrome of an AETH (IBA 9.3.5): bits 6:5 are its kind, bits 4:0 its value.
class Syndrome {
 public:
  enum class Kind : uint8_t { kAck = 0, kRnrNak = 1, kReserved = 2, kNak = 3 };
  // The credit code of an ACK without credit information (QPs on a shared receive queue).
  static constexpr uint8_t kNoCreditInformation = 31;

  constexpr Syndrome() = default;
  constexpr explicit Syndrome(uint8_t wire_byte) : byte_(wire_byte) {}
  static constexpr Syndrome Ack(uint8_t credit_code) { return Make(Kind::kAck, credit_code); }
  static constexpr Syndrome RnrNak(uint8_t timer_code) { return Make(Kind::kRnrNak, timer_code); }
  static constexpr Syndrome Nak(NakCode code) {
    return Make(Kind::kNak, static_cast<uint8_t>(code));
  }

  constexpr uint8_t wire_byte() const { return byte_; }
  constexpr Kind kind() const { return static_cast<Kind>((byte_ >> 5) & 3); }
  constexpr uint8_t value() const { return byte_ & 31; }
  constexpr NakCode nak_code() const { return static_cast<NakCode>(value()); }
  constexpr bool operator==(const Syndrome&) const = default;

 private:
  static constexpr Syndrome Make(Kind kind, uint8_t value) {
    return Syndrome(static_cast<uint8_t>(static_cast<uint8_t>(kind) << 5 | (value & 31)));
  }
  uint8_t byte_ = Make(Kind::kAck, kNoCreditInformation).byte_;
};

// ACK extended transport header (IBA 9.3.5), 4 bytes on the wire.
struct Aeth {
  static constexpr size_t kBytes = 4;

  Syndrome syndrome;
  uint32_t msn = 0;  // message sequence number, 24 bits

  constexpr bool operator==(const Aeth&) const = default;
};

inline Aeth ParseAeth(const uint8_t* bytes) {
  const uint32_t word = Load32(bytes);
  return {.syndrome = Syndrome(HighByte(word)), .msn = Low24(word)};
}

inline void EmitAeth(const Aeth& aeth, uint8_t* bytes) {
  Store32(Word(aeth.syndrome.wire_byte(), aeth.msn), bytes);
}

}  // namespace uroce::transport
