#pragma once

#include <array>
#include <cstdint>
#include <istream>
#include <map>
#include <ostream>
#include <queue>
#include <span>
#include <string>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "tests/system/network/bottleneck.h"
#include "tests/system/network/traffic.h"

namespace uroce::network {

// A switch with one slow port, over tap devices: all that the senders send goes through one
// Bottleneck to the receiver, and what the receiver sends through another one to the sender with
// the destination MAC address.
class Emulator {
 public:
  // Opens the taps, which it creates: the first one is the receiver's. Throws std::system_error.
  explicit Emulator(std::span<const std::string> taps);

  // Carries frames and obeys the commands on `commands_fd`, a line each, until it ends. Writes one
  // line for each to `answers`:
  //
  //   set [forward|backward] KEY VALUE ...   "ok"; keys as in PathSettings::Set, both directions by
  //                                          default
  //   down SECONDS                           "ok"; nothing arrives for so long
  //   reset                                  "ok"; all counters are 0
  //   stats                                  a JSON object: seconds since reset, forward, backward
  //
  // Any other line is answered with "wrong SENTENCE".
  void Run(int commands_fd, std::ostream& answers);

 private:
  enum Direction : size_t { kForward, kBackward, kDirections };

  // A frame on its way.
  struct InFlight {
    Time arrival;
    uint64_t number;  // of equal times, the first that entered is the first to arrive
    size_t port;
    std::vector<uint8_t> frame;

    bool operator>(const InFlight& other) const {
      return arrival != other.arrival ? arrival > other.arrival : number > other.number;
    }
  };

  void Obey(const std::string& line, std::ostream& answers);
  void Set(std::istream& words);
  void DeliverDue();
  void Receive(size_t port);
  void Forward(size_t from, std::span<const uint8_t> frame);
  void Carry(Direction direction, size_t host, size_t to, std::span<const uint8_t> frame);
  // The frame's own memory is used again when it has arrived.
  std::vector<uint8_t> Copy(std::span<const uint8_t> frame);

  std::vector<nic::UniqueFd> taps_;
  std::array<Bottleneck, kDirections> paths_{Bottleneck(1), Bottleneck(2)};
  std::array<TrafficCounters, kDirections> counters_;
  Time reset_at_;
  std::map<uint64_t, size_t> ports_;  // by MAC address
  std::priority_queue<InFlight, std::vector<InFlight>, std::greater<>> in_flight_;
  std::vector<std::vector<uint8_t>> free_frames_;
  uint64_t frames_taken_ = 0;
};

}  // namespace uroce::network
