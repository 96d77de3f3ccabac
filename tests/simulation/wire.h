#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "dpdk_nic/port/faults/fault_injector.h"
#include "dpdk_nic/port/faults/held_frames.h"
#include "tests/simulation/impairments.h"
#include "tests/simulation/random.h"
#include "tests/simulation/simulator.h"

namespace uroce::transport::simulation {

using Frame = std::vector<uint8_t>;

// One direction of a wire with a switch in it. Delivers frames late, twice, out of order, damaged
// or not at all.
class Wire {
 public:
  struct Hooks {
    std::function<void(Frame)> deliver;
    // The wire did something to this frame that a perfect wire would not do: `what`.
    std::function<void(const Frame&, const char* what)> impaired;
    // May tamper with a frame before anything else happens to it (negative controls).
    std::function<void(Frame&)> tamper;
  };

  Wire(Simulator& simulator, Random random, const Impairments& impairments, Hooks hooks);

  void Send(Frame frame);

  // Frames that the scenario of `faults` selects get its faults instead of the random ones.
  // `direction` is the direction of this wire for the end that the scenario is written for.
  void Follow(nic::FaultInjector& faults, nic::FaultDirection direction);

  // When the last frame accepted has been transmitted.
  Time line_free_at() const { return line_free_at_; }

  // Loses every frame until `until`.
  void SilenceUntil(Time until);
  // From now on no frame is lost, damaged, doubled or overtaken.
  void Heal();

 private:
  // Applies the scenario's fault; false if the frame needs nothing more.
  bool MeetFault(const nic::FaultAction& fault, Frame& frame);
  void ReleaseHeld();
  void SendOn(Frame frame);
  void Deliver(Frame frame);
  bool Loses();
  // When a frame that enters the switch now will have left it. `full` if the switch has no room.
  Time Transmit(size_t bytes, bool* full);
  void FlipBits(Frame& frame, size_t first_byte);
  void DeliverAt(Time time, Frame frame);
  void Impaired(const Frame& frame, const char* what);

  Simulator& simulator_;
  Random random_;
  Impairments impairments_;
  Hooks hooks_;
  nic::FaultInjector* faults_ = nullptr;
  nic::FaultDirection direction_ = nic::FaultDirection::kSent;
  nic::HeldFrames held_;  // by the scenario
  Time silent_until_;
  Time line_free_at_;
  Time last_arrival_;  // of a frame that was not held back
  uint32_t frames_queued_ = 0;
  uint64_t burst_left_ = 0;
};

}  // namespace uroce::transport::simulation
