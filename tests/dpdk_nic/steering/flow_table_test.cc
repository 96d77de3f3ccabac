#include "dpdk_nic/steering/flow_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace uroce::nic {
namespace {

using Kind = FlowRule::Kind;
using Target = FlowTable::Target;
using Targets = std::vector<Target>;

// The table never looks into a queue pair.
Target QueuePairNumber(uintptr_t number) { return reinterpret_cast<Target>(number << 8); }
const Target kA = QueuePairNumber(1);
const Target kB = QueuePairNumber(2);
const Target kC = QueuePairNumber(3);

FrameFields To(uint8_t last_byte) {
  FrameFields fields;
  fields.destination_mac = {2, 0, 0, 0, 0, last_byte};
  return fields;
}

FrameFields FromPort(FrameFields fields, uint8_t port) {
  fields.layers |= FrameFields::kUdp;
  fields.source_port = {0, port};
  return fields;
}

FlowRule ByMac(uint8_t last_byte, uint16_t priority = 0) {
  FlowRule rule;
  rule.priority = priority;
  rule.value = To(last_byte);
  rule.mask.destination_mac.fill(0xff);
  return rule;
}

FlowRule ByPort(uint8_t port, uint16_t priority = 0) {
  FlowRule rule;
  rule.priority = priority;
  rule.value = FromPort({}, port);
  rule.mask.source_port.fill(0xff);
  rule.mask.layers = FrameFields::kUdp;
  return rule;
}

FlowRule Default(Kind kind) {
  FlowRule rule;
  rule.kind = kind;
  return rule;
}

class FlowTableTest : public testing::Test {
 protected:
  uint64_t Add(const FlowRule& rule, Target target) {
    EXPECT_TRUE(table.Add(next_id, rule, target));
    return next_id++;
  }
  Targets Find(const FrameFields& fields) {
    const auto found = table.Find(fields);
    Targets targets(found.begin(), found.end());
    std::sort(targets.begin(), targets.end());
    return targets;
  }

  FlowTable table;
  uint64_t next_id = 0;
};

TEST_F(FlowTableTest, EmptyTableTakesNothing) {
  EXPECT_TRUE(table.empty());
  EXPECT_FALSE(table.steers());
  EXPECT_EQ(Find(To(2)), Targets{});
}

TEST_F(FlowTableTest, FrameThatMatches) {
  Add(ByMac(2), kA);
  Add(ByMac(3), kB);
  EXPECT_EQ(Find(To(2)), Targets{kA});
  EXPECT_EQ(Find(FromPort(To(3), 9)), Targets{kB}) << "other fields do not matter";
  EXPECT_EQ(Find(To(4)), Targets{});
}

TEST_F(FlowTableTest, OnlyTheBitsOfTheMaskMatter) {
  FlowRule rule = ByMac(0x12);
  rule.mask.destination_mac[5] = 0xf0;
  Add(rule, kA);
  EXPECT_EQ(Find(To(0x1f)), Targets{kA});
  EXPECT_EQ(Find(To(0x22)), Targets{});
}

TEST_F(FlowTableTest, DestinationIsNamedByAWholeAddressOfAMatchingRule) {
  Add(ByPort(2), kA);
  EXPECT_FALSE(table.NamesDestination(FromPort(To(1), 2)));
  FlowRule both = ByMac(1);
  both.value = FromPort(both.value, 3);
  both.mask.source_port.fill(0xff);
  Add(both, kB);
  EXPECT_TRUE(table.NamesDestination(FromPort(To(1), 3)));
  EXPECT_FALSE(table.NamesDestination(FromPort(To(1), 2)));
  EXPECT_FALSE(table.NamesDestination(FromPort(To(2), 3)));
  FlowRule half = ByMac(5);
  half.mask.destination_mac[0] = 0;
  Add(half, kC);
  EXPECT_FALSE(table.NamesDestination(To(5)));
}

TEST_F(FlowTableTest, DefaultRuleIsNoNormalOne) {
  Add(Default(Kind::kAllDefault), kA);
  EXPECT_FALSE(table.HasNormalRuleFor(To(1)));
  Add(ByMac(1), kB);
  EXPECT_TRUE(table.HasNormalRuleFor(To(1)));
  EXPECT_FALSE(table.HasNormalRuleFor(To(2)));
}

TEST_F(FlowTableTest, FrameWithoutPortDoesNotMatchPortZero) {
  Add(ByPort(0), kA);
  EXPECT_EQ(Find(To(2)), Targets{}) << "port 0 is not the same as no port";
  EXPECT_EQ(Find(FromPort(To(2), 0)), Targets{kA});
}

TEST_F(FlowTableTest, LowestPriorityNumberComesFirst) {
  Add(ByMac(2, 5), kA);
  Add(ByPort(9, 3), kB);
  Add(ByMac(2, 4), kC);
  EXPECT_EQ(Find(FromPort(To(2), 9)), Targets{kB});
  EXPECT_EQ(Find(FromPort(To(2), 8)), Targets{kC});
}

TEST_F(FlowTableTest, OldestFieldsComeFirstAmongRulesOfOnePriority) {
  Add(ByPort(9), kA);
  Add(ByMac(2), kB);
  EXPECT_EQ(Find(FromPort(To(2), 9)), Targets{kA});
  EXPECT_EQ(Find(FromPort(To(2), 8)), Targets{kB});
}

TEST_F(FlowTableTest, FieldsAddedAgainRankAfterExistingFields) {
  const uint64_t id = Add(ByPort(9), kA);
  table.Remove(id, ByPort(9));
  Add(ByMac(2), kB);
  Add(ByPort(9), kA);
  EXPECT_EQ(Find(FromPort(To(2), 9)), Targets{kB});
}

TEST_F(FlowTableTest, EveryFlowWithTheSameRuleGetsACopy) {
  Add(ByMac(2), kA);
  Add(ByMac(2), kB);
  EXPECT_EQ(Find(To(2)), (Targets{kA, kB}));
}

TEST_F(FlowTableTest, PassingRuleLeavesTheFrameToOtherRules) {
  Add(ByMac(2), kA);
  FlowRule passing = ByPort(9);
  passing.lets_pass = true;
  Add(passing, kB);
  EXPECT_EQ(Find(FromPort(To(2), 9)), (Targets{kA, kB})) << "it is younger, and still sees it";
  EXPECT_EQ(Find(FromPort(To(3), 9)), Targets{kB});
}

// ALL_DEFAULT and MC_DEFAULT get frames that no other rule takes, whatever the priority.
TEST_F(FlowTableTest, DefaultRulesComeLast) {
  Add(Default(Kind::kAllDefault), kA);
  Add(Default(Kind::kMulticastDefault), kB);
  Add(ByMac(2, UINT16_MAX), kC);
  EXPECT_EQ(Find(To(2)), Targets{kC});
  EXPECT_EQ(Find(To(3)), Targets{kA});
  FrameFields group = To(3);
  group.destination_mac[0] = 0x33;
  EXPECT_EQ(Find(group), (Targets{kA, kB}));
}

TEST_F(FlowTableTest, SniffersSteerNothing) {
  const uint64_t first = Add(Default(Kind::kSniffer), kA);
  Add(Default(Kind::kSniffer), kB);
  EXPECT_FALSE(table.empty());
  EXPECT_FALSE(table.steers());
  EXPECT_EQ(Find(To(2)), Targets{});
  EXPECT_EQ(Targets(table.sniffers().begin(), table.sniffers().end()), (Targets{kA, kB}));
  table.Remove(first, Default(Kind::kSniffer));
  EXPECT_EQ(Targets(table.sniffers().begin(), table.sniffers().end()), Targets{kB});
  table.Remove(first + 1, Default(Kind::kSniffer));
  EXPECT_TRUE(table.empty());
}

TEST_F(FlowTableTest, RemovedFlowTakesNothing) {
  const uint64_t first = Add(ByMac(2), kA);
  const uint64_t second = Add(ByMac(2), kB);
  const uint64_t all = Add(Default(Kind::kAllDefault), kC);
  table.Remove(first, ByMac(2));
  EXPECT_EQ(Find(To(2)), Targets{kB});
  table.Remove(second, ByMac(2));
  EXPECT_EQ(Find(To(2)), Targets{kC});
  table.Remove(all, Default(Kind::kAllDefault));
  EXPECT_EQ(Find(To(2)), Targets{});
  EXPECT_TRUE(table.empty());
}

TEST_F(FlowTableTest, FlowIsRemovedFromItsOwnFieldsAndPriority) {
  Add(ByPort(9), kA);
  const uint64_t by_mac = Add(ByMac(2), kB);
  const uint64_t late = Add(ByMac(2, 5), kC);
  table.Remove(by_mac, ByMac(2));
  EXPECT_EQ(Find(To(2)), Targets{kC});
  const uint64_t early = Add(ByMac(2), kB);
  table.Remove(late, ByMac(2, 5));
  table.Remove(early, ByMac(2));
  EXPECT_EQ(Find(To(2)), Targets{});
  EXPECT_EQ(Find(FromPort(To(2), 9)), Targets{kA});
}

TEST_F(FlowTableTest, FullTableRefuses) {
  for (size_t i = 0; i < kMaxFlows - 1; ++i) {
    FlowRule rule = ByMac(static_cast<uint8_t>(i));
    rule.value.destination_mac[4] = static_cast<uint8_t>(i >> 8);
    Add(rule, kA);
  }
  const uint64_t sniffer = Add(Default(Kind::kSniffer), kC);
  EXPECT_FALSE(table.Add(next_id, ByMac(7), kB));
  EXPECT_FALSE(table.Add(next_id, Default(Kind::kSniffer), kB));
  EXPECT_EQ(Find(To(7)), Targets{kA});
  table.Remove(sniffer, Default(Kind::kSniffer));
  Add(Default(Kind::kSniffer), kC);
  table.Remove(7, ByMac(7));
  EXPECT_TRUE(table.Add(next_id, ByMac(7), kB));
  EXPECT_EQ(Find(To(7)), Targets{kB});
}

}  // namespace
}  // namespace uroce::nic
