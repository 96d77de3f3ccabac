#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "dpdk_nic/port/faults/fault_scenario.h"
#include "transport/wire/bth.h"

namespace uroce::nic {

// Matches frames with the rules of a scenario, and says what to do to them. It neither has a clock
// nor keeps frames: its caller drops, doubles and delays them.
class FaultInjector {
 public:
  explicit FaultInjector(FaultScenario scenario) : scenario_(std::move(scenario)) {}

  // To be called for every frame. Returns the action of the first rule that matches the frame and
  // whose turn it is; nullptr if there is none. Rules behind that one count the frame all the same.
  const FaultAction* OnFrame(FaultDirection direction, std::span<const uint8_t> frame);

 private:
  // Bounds the state of QPNs, which come from the wire. Later flows match no `nth` or `psn_offset`.
  static constexpr size_t kMaxRemembered = 1 << 16;

  static bool Matches(const FaultMatch& match, FaultDirection direction, const transport::Bth& bth,
                      std::optional<uint32_t> offset);
  // How many packets after the first of its flow it is; nullopt if the flow is not remembered.
  std::optional<uint32_t> OffsetInFlow(FaultDirection direction, const transport::Bth& bth);
  bool IsItsTurn(size_t rule, const transport::Bth& bth);

  const FaultScenario scenario_;
  std::unordered_map<uint32_t, transport::Psn> first_psns_;  // by flow
  std::unordered_map<uint64_t, uint32_t> times_seen_;        // by rule and QPN
};

// Carries out kMarkCongestion or kCorrupt. False if the frame lacks the part to be changed: no
// payload, or no byte at that offset.
bool ChangeFrame(const FaultAction& action, std::span<uint8_t> frame);

}  // namespace uroce::nic
