#pragma once

#include <cstdint>
#include <span>

#include "transport/time.h"
#include "transport/wire/icrc.h"

namespace uroce::nic {

// Sees every frame of an engine: capture. Called under the engine's lock.
class FrameTap {
 public:
  enum class Direction : uint8_t {
    kReceived,
    kSent,
    kLoopedBack,  // from one queue pair of the engine to another; never on a wire. With faults
                  // it may be lost or doubled, and what arrives is told as kReceived
  };

  virtual ~FrameTap() = default;

  // With `icrc` kWaived the frame carries none; it is to be shown as if it did.
  virtual void OnFrame(transport::Time now, Direction direction, std::span<const uint8_t> frame,
                       transport::IcrcUse icrc) = 0;
  // A pass of the engine is over: a good moment to write out what was collected.
  virtual void EndBurst() {}
};

}  // namespace uroce::nic
