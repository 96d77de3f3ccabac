#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "transport/route.h"
#include "transport/time.h"

namespace uroce::nic {

// Frames on one direction of a wire that are held back on purpose: until a time, or until a number
// of later frames have passed them, whichever is first. It has no clock and moves nothing.
class HeldFrames {
 public:
  struct Frame {
    transport::Route route = transport::Route::kWire;
    std::vector<uint8_t> bytes;
  };

  bool empty() const { return held_.empty(); }
  size_t size() const { return held_.size(); }

  // With `others_to_pass` 0 only the time counts.
  void Hold(Frame frame, transport::Time due, uint32_t others_to_pass = 0);
  // A frame passed that is newer than all held frames.
  void Overtaken() { CountPassing(next_number_++); }

  // When the first held frame is due; kNever if none is held.
  transport::Time NextDue() const;
  // The route of the frame that TakeDue would return.
  std::optional<transport::Route> NextRoute(transport::Time now) const;
  // Removes the oldest frame that is due, which thereby passes all older ones; nullopt if none is.
  std::optional<Frame> TakeDue(transport::Time now);

 private:
  struct Entry {
    uint64_t number;  // in the order in which frames came
    transport::Time due;
    uint32_t others_to_pass;
    Frame frame;
  };

  void CountPassing(uint64_t number);

  std::deque<Entry> held_;
  uint64_t next_number_ = 0;
};

}  // namespace uroce::nic
