#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "dpdk_nic/port/faults/fault_scenario.h"
#include "transport/wire/bth.h"

namespace uroce::nic {

// Finds the frames that a scenario means as they come by, and says what is to be done to them. It
// neither has a clock nor keeps frames: its caller drops, doubles and delays them.
class FaultInjector {
 public:
  explicit FaultInjector(FaultScenario scenario) : scenario_(std::move(scenario)) {}

  // A RoCEv2 frame comes by, for the n-th time. The action of the first rule that means it; nullptr
  // if none does. Rules behind that one count the frame all the same.
  const FaultAction* OnFrame(FaultDirection direction, std::span<const uint8_t> frame);

 private:
  // QPNs come from the wire: what is remembered of them is bounded. Later flows meet no faults.
  static constexpr size_t kMaxRemembered = 1 << 16;

  static bool Matches(const FaultMatch& match, FaultDirection direction, const transport::Bth& bth,
                      std::optional<uint32_t> offset);
  // How many packets after the first of its flow it is.
  std::optional<uint32_t> OffsetInFlow(FaultDirection direction, const transport::Bth& bth);
  bool IsItsTurn(size_t rule, const transport::Bth& bth);

  const FaultScenario scenario_;
  std::unordered_map<uint32_t, transport::Psn> first_psns_;  // by flow
  std::unordered_map<uint64_t, uint32_t> times_seen_;        // by rule and QPN
};

// Carries out kMarkCongestion or kCorrupt. False if the frame has not got what is to be changed: no
// payload, or no byte at that offset.
bool ChangeFrame(const FaultAction& action, std::span<uint8_t> frame);

}  // namespace uroce::nic
