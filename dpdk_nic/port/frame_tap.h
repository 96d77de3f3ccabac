#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "transport/time.h"
#include "transport/wire/icrc.h"

namespace uroce::nic {

// Sees every frame of an engine, to capture it. Called under the engine's lock.
class FrameTap {
 public:
  enum class Direction : uint8_t {
    kReceived,
    kSent,
    kLoopedBack,  // from one queue pair of the engine to another; never on a wire. With faults
                  // it may be lost or doubled; each frame that arrives is shown as kReceived
  };

  virtual ~FrameTap() = default;

  // With `icrc` kWaived the frame carries no ICRC; the tap shows it with one.
  virtual void OnFrame(transport::Time now, Direction direction, std::span<const uint8_t> frame,
                       transport::IcrcUse icrc) = 0;
  // Called at the end of a pass of the engine: a good moment to write out the collected frames.
  virtual void EndBurst() {}
  // A sentence for the user that came up since the last call, or "".
  virtual std::string TakeNotice() { return {}; }
};

}  // namespace uroce::nic
