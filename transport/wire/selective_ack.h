#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/wire/byte_order.h"

namespace uroce::transport {

// The payload of a selective acknowledgement, a packet that only devices of uroce exchange: opcode
// 0xde, BTH, AETH (an ACK, for credits and MSN), this. The PSN of the BTH is that of the packet
// that the responder waits for: all before it are acknowledged, as by a NAK.
//
//   0  room: requests from that PSN on are kept, so many at most | reserved, 0
//   4  one bit for each of the packets behind it, most significant bit first: 1, it is kept
//
// The bits are cut behind the last that is 1, to a multiple of 32.
class SelectiveAck {
 public:
  static constexpr size_t kHeaderBytes = 4;
  static constexpr size_t kMaxBits = 4'096;
  static constexpr size_t kMaxBytes = kHeaderBytes + kMaxBits / 8;

  // To be written. `bytes` are kMaxBytes, and are set to 0. A path MTU of 256 bytes leaves room for
  // half of the bits.
  SelectiveAck(std::span<uint8_t, kMaxBytes> bytes, uint32_t room, size_t mtu_bytes)
      : bytes_(bytes), bits_((std::min(mtu_bytes, kMaxBytes) - kHeaderBytes) * 8) {
    std::ranges::fill(bytes, uint8_t{0});
    Store16(static_cast<uint16_t>(std::min<uint32_t>(room, UINT16_MAX)), bytes.data());
  }
  // The packet that lies `distance` behind the missing one is kept; told in ascending order. False
  // if there are too many bits.
  bool Add(uint32_t distance) {
    const size_t bit = distance - 1;
    if (distance == 0 || bit >= bits_) return false;
    bytes_[kHeaderBytes + bit / 8] |= static_cast<uint8_t>(0x80 >> bit % 8);
    length_ = kHeaderBytes + (bit / 32 + 1) * 4;
    return true;
  }
  size_t length() const { return length_; }

 private:
  std::span<uint8_t, kMaxBytes> bytes_;
  size_t bits_;
  size_t length_ = kHeaderBytes;
};

// A selective acknowledgement that was received.
struct SelectiveAckView {
  uint32_t room = 0;
  std::span<const uint8_t> bits;

  // nullopt for a payload that is too short, too long, or no multiple of 4 bytes.
  static std::optional<SelectiveAckView> Parse(std::span<const uint8_t> payload) {
    const bool fits = payload.size() >= SelectiveAck::kHeaderBytes &&
                      payload.size() <= SelectiveAck::kMaxBytes && payload.size() % 4 == 0;
    if (!fits) return std::nullopt;
    return SelectiveAckView{Load16(payload.data()), payload.subspan(SelectiveAck::kHeaderBytes)};
  }
  // Calls visit(distance) for each packet that is kept, in ascending order.
  template <class Visit>
  void ForEach(Visit visit) const {
    constexpr uint32_t kFirst = 1u << 31;
    for (uint32_t i = 0; i < bits.size(); i += 4) {
      for (uint32_t word = Load32(&bits[i]); word != 0;) {
        const auto bit = static_cast<uint32_t>(std::countl_zero(word));
        visit(i * 8 + bit + 1);
        word &= ~(kFirst >> bit);
      }
    }
  }
};

}  // namespace uroce::transport
