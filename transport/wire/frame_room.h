#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/wire/flow.h"
#include "transport/wire/icrc.h"

namespace uroce::transport {

// The memory that the next frame is to be built in, and whether the frame is to carry its ICRC. It
// holds kMaxFrameBytes, or the longest frame that the endpoint's configuration permits if that is
// shorter.
//
// A port that carries packets without the headers of the network gives a place for their flow, too:
// the packet lies at the beginning of the memory then, from its BTH on. Lengths of frames include
// the headers all the same.
struct FrameRoom : std::span<uint8_t> {
  FrameRoom() = default;
  FrameRoom(std::span<uint8_t> bytes, IcrcUse use = IcrcUse::kCarried)
      : std::span<uint8_t>(bytes), icrc(use) {}
  template <size_t kBytes>
  FrameRoom(std::array<uint8_t, kBytes>& bytes, IcrcUse use = IcrcUse::kCarried)
      : std::span<uint8_t>(bytes), icrc(use) {}
  FrameRoom(std::vector<uint8_t>& bytes, IcrcUse use = IcrcUse::kCarried)
      : std::span<uint8_t>(bytes), icrc(use) {}

  IcrcUse icrc = IcrcUse::kCarried;
  Flow* flow = nullptr;  // nullptr: an Ethernet frame is to be built
};

}  // namespace uroce::transport
