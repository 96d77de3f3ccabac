#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/wire/bth.h"
#include "transport/wire/byte_order.h"

// A frame of a connection between two processes that share memory. Each knows its peer, so the
// frame has neither network headers nor ICRC:
//
//   mark (4) | BTH (12) | extension headers | payload | pad
//
// A WRITE of 64 bytes fills two cache lines of the ring in this form, and three as it is on a wire.
// The mark is the start of an Ethernet multicast address that no group has.
namespace uroce::transport {

struct BareFrame {
  static constexpr size_t kMarkBytes = 4;
  static constexpr uint32_t kMark = 0x0100'0000;
  static constexpr size_t kHeaderBytes = kMarkBytes + Bth::kBytes;
};

inline bool IsBareFrame(std::span<const uint8_t> frame) {
  return frame.size() >= BareFrame::kHeaderBytes && Load32(frame.data()) == BareFrame::kMark;
}

}  // namespace uroce::transport
