#include "dpdk_nic/port/faults/fault_injector.h"

#include "dpdk_nic/port/faults/roce_frame.h"
#include "transport/wire/opcode.h"

namespace uroce::nic {

using transport::Bth;
using transport::Psn;

const FaultAction* FaultInjector::OnFrame(FaultDirection direction,
                                          std::span<const uint8_t> frame) {
  if (scenario_.empty()) return nullptr;
  const auto roce = FindRoce(frame);
  if (!roce) return nullptr;
  const Bth bth = transport::ParseBth(&frame[roce->bth]);
  const std::optional<uint32_t> offset = OffsetInFlow(direction, bth);
  const FaultAction* action = nullptr;
  for (size_t i = 0; i < scenario_.rules.size(); ++i) {
    const FaultRule& rule = scenario_.rules[i];
    if (!Matches(rule.match, direction, bth, offset) || !IsItsTurn(i, bth)) continue;
    if (action == nullptr) action = &rule.action;
  }
  return action;
}

bool FaultInjector::Matches(const FaultMatch& match, FaultDirection direction, const Bth& bth,
                            std::optional<uint32_t> offset) {
  return match.direction == direction && (!match.qpn || *match.qpn == bth.destination_qpn) &&
         (!match.psn || *match.psn == bth.psn) &&
         (!match.psn_offset || match.psn_offset == offset) && match.opcodes[bth.opcode];
}

std::optional<uint32_t> FaultInjector::OffsetInFlow(FaultDirection direction, const Bth& bth) {
  // Responses are a flow of their own: they carry the PSNs of requests in the other direction.
  const auto opcode = transport::ParseOpcode(bth.opcode);
  const bool is_response = opcode && opcode->IsResponse();
  const uint32_t flow = bth.destination_qpn.value | (is_response ? 1u << 24 : 0u) |
                        (direction == FaultDirection::kSent ? 1u << 25 : 0u);
  auto first = first_psns_.find(flow);
  if (first == first_psns_.end()) {
    if (first_psns_.size() == kMaxRemembered) return std::nullopt;
    first = first_psns_.emplace(flow, bth.psn).first;
  }
  return (bth.psn - first->second.value()).value();  // modulo 2^24: right across the wrap
}

// Counts a packet that the rule matches, and returns whether it is the n-th.
bool FaultInjector::IsItsTurn(size_t rule, const Bth& bth) {
  const auto& nth = scenario_.rules[rule].match.nth;
  if (!nth) return true;
  const uint64_t key = uint64_t{rule} << 24 | bth.destination_qpn.value;
  auto seen = times_seen_.find(key);
  if (seen == times_seen_.end()) {
    if (times_seen_.size() == kMaxRemembered) return false;
    seen = times_seen_.emplace(key, 0).first;
  }
  if (seen->second == *nth) return false;  // had its turn
  return ++seen->second == *nth;
}

bool ChangeFrame(const FaultAction& action, std::span<uint8_t> frame) {
  const auto roce = FindRoce(frame);
  if (!roce) return false;
  if (action.kind == FaultAction::Kind::kMarkCongestion) {
    MarkCongestionExperienced(*roce, frame);
    return true;
  }
  size_t at = action.offset;
  switch (action.part) {
    case FaultAction::Part::kBth:
      at = roce->bth + Bth::kBytes - 1;  // the low byte of the PSN
      break;
    case FaultAction::Part::kPayload:
      if (roce->payload == roce->icrc) return false;
      at = roce->payload;
      break;
    case FaultAction::Part::kIcrc:
      at = roce->end - 1;
      break;
    case FaultAction::Part::kOffset:
      break;
  }
  if (at >= frame.size()) return false;
  frame[at] ^= 1;
  return true;
}

}  // namespace uroce::nic
