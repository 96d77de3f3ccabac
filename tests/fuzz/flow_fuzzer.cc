// Any program can call ibv_create_flow, and any frame can reach the port. The input is some rules,
// as the bytes of a struct ibv_flow_attr and its specifications, and a frame. Checks: a rule is
// accepted, or refused with an errno that verbs promise; no byte outside the frame is read; and the
// table gives the frame to the flows that a walk through all rules finds, also after any of them
// was removed.
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <span>
#include <vector>

#include "dpdk_nic/steering/flow_table.h"
#include "tests/fuzz/require.h"
#include "verbs_provider/base/flow_specs.h"

namespace uroce::verbs {
namespace {

using nic::FlowRule;
using nic::FlowTable;
using nic::FrameFields;
using Bytes = std::span<const uint8_t>;

constexpr size_t kMaxRules = 4;
constexpr size_t kMaxSpecs = 10;

struct Rule {
  uint64_t id;
  FlowRule rule;
  bool is_removed = false;  // rules with the same fields keep its age
};

// The table never dereferences the queue pair.
FlowTable::Target TargetOf(uint64_t id) { return reinterpret_cast<FlowTable::Target>(id << 8); }

// A byte with the number of bytes that follow, and these bytes.
Bytes TakeField(Bytes& input) {
  if (input.empty()) return {};
  const size_t bytes = std::min<size_t>(input[0], input.size() - 1);
  const Bytes field = input.subspan(1, bytes);
  input = input.subspan(1 + bytes);
  return field;
}

// The input as a program lays it out, zero beyond its end: memory for num_of_specs exists.
bool ToRule(Bytes input, FlowRule& rule) {
  struct {
    ibv_flow_attr attr;
    ibv_flow_spec specs[kMaxSpecs];
  } flow = {};
  std::copy_n(input.begin(), std::min(input.size(), sizeof flow),
              reinterpret_cast<uint8_t*>(&flow));
  const int error = ToFlowRule(flow.attr, rule);
  UROCE_REQUIRE(error == 0 || error == EINVAL || error == EOPNOTSUPP);
  return error == 0;
}

bool Matches(const FlowRule& rule, const FrameFields& frame) {
  if (rule.kind == FlowRule::Kind::kAllDefault) return true;
  if (rule.kind == FlowRule::Kind::kMulticastDefault) return (frame.destination_mac[0] & 1) != 0;
  const auto* const value = reinterpret_cast<const uint8_t*>(&rule.value);
  const auto* const mask = reinterpret_cast<const uint8_t*>(&rule.mask);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&frame);
  for (size_t i = 0; i < sizeof frame; ++i) {
    if (((bytes[i] ^ value[i]) & mask[i]) != 0) return false;
  }
  return true;
}

// The order in which rules are tried. Rules of equal urgency are tried together if they look at the
// same fields, and otherwise by age.
uint32_t UrgencyOf(const FlowRule& rule) {
  if (rule.kind != FlowRule::Kind::kNormal) return UINT32_MAX;
  return uint32_t{rule.priority} * 2 + (rule.lets_pass ? 0 : 1);
}

bool LooksAtTheSame(const FlowRule& a, const FlowRule& b) {
  if (UrgencyOf(a) != UrgencyOf(b)) return false;
  return a.kind != FlowRule::Kind::kNormal || a.mask == b.mask;
}

std::vector<FlowTable::Target> Expected(std::vector<Rule> rules, const FrameFields& frame) {
  std::erase_if(rules, [](const Rule& r) { return r.rule.kind == FlowRule::Kind::kSniffer; });
  std::stable_sort(rules.begin(), rules.end(), [](const Rule& a, const Rule& b) {
    return UrgencyOf(a.rule) < UrgencyOf(b.rule);
  });
  std::vector<FlowTable::Target> targets;
  while (!rules.empty()) {
    const FlowRule first = rules.front().rule;
    const size_t before = targets.size();
    for (const Rule& r : rules) {
      const bool is_taken =
          !r.is_removed && LooksAtTheSame(first, r.rule) && Matches(r.rule, frame);
      if (is_taken) targets.push_back(TargetOf(r.id));
    }
    if (targets.size() != before && !first.lets_pass) break;
    std::erase_if(rules, [&](const Rule& r) { return LooksAtTheSame(first, r.rule); });
  }
  std::sort(targets.begin(), targets.end());
  return targets;
}

void Check(FlowTable& table, const std::vector<Rule>& rules, const FrameFields& frame) {
  const auto found = table.Find(frame);
  std::vector<FlowTable::Target> targets(found.begin(), found.end());
  std::sort(targets.begin(), targets.end());
  UROCE_REQUIRE(targets == Expected(rules, frame));
  const auto is_removed = [](const Rule& r) { return r.is_removed; };
  UROCE_REQUIRE(table.empty() == std::all_of(rules.begin(), rules.end(), is_removed));
}

void Run(Bytes input) {
  FlowTable table;
  std::vector<Rule> rules;
  for (uint64_t id = 1; id <= kMaxRules; ++id) {
    FlowRule rule;
    if (!ToRule(TakeField(input), rule)) continue;
    UROCE_REQUIRE(table.Add(id, rule, TargetOf(id)));
    rules.push_back({id, rule});
  }
  const std::vector<uint8_t> frame(input.begin(), input.end());  // the sanitizer guards its end
  const FrameFields fields = nic::ReadFrameFields(frame);
  Check(table, rules, fields);
  for (Rule& r : rules) {
    table.Remove(r.id, r.rule);
    r.is_removed = true;
    Check(table, rules, fields);
  }
}

}  // namespace
}  // namespace uroce::verbs

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uroce::verbs::Run({data, size});
  return 0;
}
