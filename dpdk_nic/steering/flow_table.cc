#include "dpdk_nic/steering/flow_table.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace uroce::nic {
namespace {

// The lowest bit of a rank: whether the search ends with a match.
constexpr uint32_t kEndsSearch = 1;
constexpr uint32_t kDefaultRank = (uint32_t{UINT16_MAX} + 1) << 1 | kEndsSearch;

constexpr uint8_t kGroupBit = 1;  // of the first byte of an Ethernet address

FrameFields Masked(const FrameFields& fields, const FrameFields& mask) {
  std::array<uint8_t, sizeof(FrameFields)> bytes;
  std::array<uint8_t, sizeof(FrameFields)> mask_bytes;
  std::memcpy(bytes.data(), &fields, sizeof fields);
  std::memcpy(mask_bytes.data(), &mask, sizeof mask);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] &= mask_bytes[i];
  FrameFields masked;
  std::memcpy(&masked, bytes.data(), sizeof masked);
  return masked;
}

}  // namespace

size_t FlowTable::Hash::operator()(const FrameFields& fields) const {
  return std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(&fields), sizeof(FrameFields)});
}

FlowTable::Place FlowTable::PlaceOf(const FlowRule& rule) {
  if (rule.kind == FlowRule::Kind::kNormal) {
    const uint32_t ends = rule.lets_pass ? 0 : kEndsSearch;
    return {uint32_t{rule.priority} << 1 | ends, rule.mask, {Masked(rule.value, rule.mask)}};
  }
  FrameFields group_bit;
  group_bit.destination_mac[0] = kGroupBit;
  Place place = {kDefaultRank, group_bit, {group_bit}};
  if (rule.kind == FlowRule::Kind::kAllDefault) place.values.push_back({});
  return place;
}

bool FlowTable::Add(uint64_t id, const FlowRule& rule, Target target) {
  const size_t count = steering_flows_ + sniffers_.size();
  if (count == kMaxFlows) return false;
  if (rule.kind == FlowRule::Kind::kSniffer) {
    sniffer_targets_.reserve(sniffers_.size() + 1);
    sniffers_.push_back({id, target});
    sniffer_targets_.push_back(target);
    return true;
  }
  if (found_.capacity() <= count) found_.reserve(2 * count + 1);
  const Place place = PlaceOf(rule);
  try {
    for (const FrameFields& value : place.values) Insert(place, value, {id, target});
  } catch (...) {
    for (const FrameFields& value : place.values) Erase(place, value, id);
    throw;
  }
  ++steering_flows_;
  return true;
}

void FlowTable::Insert(const Place& place, const FrameFields& value, const Flow& flow) {
  const auto is_same = [&](const Group& g) { return g.rank == place.rank && g.mask == place.mask; };
  auto group = std::find_if(groups_.begin(), groups_.end(), is_same);
  if (group == groups_.end()) {
    const auto later = [&](const Group& g) { return g.rank > place.rank; };
    group = groups_.insert(std::find_if(groups_.begin(), groups_.end(), later),
                           Group{place.rank, place.mask, {}});
  }
  group->flows[value].push_back(flow);
}

void FlowTable::Remove(uint64_t id, const FlowRule& rule) {
  if (rule.kind == FlowRule::Kind::kSniffer) {
    const auto is_it = [&](const Flow& flow) { return flow.id == id; };
    const auto flow = std::find_if(sniffers_.begin(), sniffers_.end(), is_it);
    sniffer_targets_.erase(sniffer_targets_.begin() + (flow - sniffers_.begin()));
    sniffers_.erase(flow);
    return;
  }
  const Place place = PlaceOf(rule);
  for (const FrameFields& value : place.values) Erase(place, value, id);
  --steering_flows_;
}

// Undoes Insert, also one that failed halfway.
void FlowTable::Erase(const Place& place, const FrameFields& value, uint64_t id) {
  const auto is_same = [&](const Group& g) { return g.rank == place.rank && g.mask == place.mask; };
  const auto group = std::find_if(groups_.begin(), groups_.end(), is_same);
  if (group == groups_.end()) return;
  if (const auto found = group->flows.find(value); found != group->flows.end()) {
    std::erase_if(found->second, [&](const Flow& flow) { return flow.id == id; });
    if (found->second.empty()) group->flows.erase(found);
  }
  if (group->flows.empty()) groups_.erase(group);
}

std::span<const FlowTable::Target> FlowTable::Find(const FrameFields& fields) {
  found_.clear();
  for (const Group& group : groups_) {
    const auto flows = group.flows.find(Masked(fields, group.mask));
    if (flows == group.flows.end()) continue;
    for (const Flow& flow : flows->second) found_.push_back(flow.target);
    if ((group.rank & kEndsSearch) != 0) break;
  }
  return found_;
}

bool FlowTable::HasNormalRuleFor(const FrameFields& fields) const {
  return std::any_of(groups_.begin(), groups_.end(), [&](const Group& group) {
    return group.rank != kDefaultRank && group.flows.contains(Masked(fields, group.mask));
  });
}

bool FlowTable::NamesDestination(const FrameFields& fields) const {
  constexpr std::array<uint8_t, 6> kWhole = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  return std::any_of(groups_.begin(), groups_.end(), [&](const Group& group) {
    return group.mask.destination_mac == kWhole && group.flows.contains(Masked(fields, group.mask));
  });
}

}  // namespace uroce::nic
