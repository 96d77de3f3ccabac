#include "dpdk_nic/port/faults/fault_injector.h"

#include <gtest/gtest.h>

#include "dpdk_nic/port/faults/roce_frame.h"
#include "tests/dpdk_nic/port/faults/roce_frames.h"

namespace uroce::nic {
namespace {

using Kind = FaultAction::Kind;
using transport::DropReason;

constexpr FaultDirection kSent = FaultDirection::kSent;
constexpr FaultDirection kReceived = FaultDirection::kReceived;
constexpr uint8_t kSendMiddle = 0x01;
constexpr uint8_t kSendOnly = 0x04;
constexpr uint8_t kReadResponseMiddle = 0x0e;
constexpr uint8_t kAcknowledge = 0x11;

FaultScenario Scenario(const std::string& rules) {
  auto scenario = ParseFaultScenario("{\"rules\": [" + rules + "]}", "faults.json");
  EXPECT_TRUE(scenario.ok()) << scenario.error();
  return std::move(scenario).value();
}

class FaultInjectorTest : public testing::Test {
 protected:
  void Use(const std::string& rules) { injector_.emplace(Scenario(rules)); }
  // Whether a rule matches the frame.
  bool Means(const FrameSpec& spec, FaultDirection direction = kSent) {
    return injector_->OnFrame(direction, spec.Build()) != nullptr;
  }

  std::optional<FaultInjector> injector_;
};

TEST_F(FaultInjectorTest, QpnPsnDirectionAndOpcodeAllHaveToMatch) {
  Use(R"({"qpn": "0x11", "psn": 7, "opcode": "RC_SEND_ONLY", "nth": "every", "action": "drop"})");
  EXPECT_TRUE(Means({.qpn = 0x11, .psn = 7}));
  EXPECT_FALSE(Means({.qpn = 0x12, .psn = 7}));
  EXPECT_FALSE(Means({.qpn = 0x11, .psn = 8}));
  EXPECT_FALSE(Means({.qpn = 0x11, .psn = 7, .opcode = kSendMiddle, .payload_bytes = 256}));
  EXPECT_FALSE(Means({.qpn = 0x11, .psn = 7}, kReceived));
  EXPECT_TRUE(Means({.qpn = 0x11, .psn = 7, .ipv6 = true}));
}

TEST_F(FaultInjectorTest, TheNthTimeIsCountedForEachPsn) {
  Use(R"({"psn": 5, "nth": 2, "action": "drop"}, {"psn": 6, "action": "drop"})");
  EXPECT_FALSE(Means({.psn = 5}));
  EXPECT_TRUE(Means({.psn = 6}));
  EXPECT_TRUE(Means({.psn = 5}));   // the first retransmission
  EXPECT_FALSE(Means({.psn = 6}));  // its retransmission passes
  EXPECT_FALSE(Means({.psn = 5}));
}

TEST_F(FaultInjectorTest, EveryMeansEveryTime) {
  Use(R"({"psn": 5, "nth": "every", "action": "drop"})");
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Means({.psn = 5}));
}

TEST_F(FaultInjectorTest, EachQpnIsCountedForItself) {
  Use(R"({"nth": 2, "action": "drop"})");
  EXPECT_FALSE(Means({.qpn = 1}));
  EXPECT_FALSE(Means({.qpn = 2}));
  EXPECT_TRUE(Means({.qpn = 2}));
  EXPECT_TRUE(Means({.qpn = 1}));
}

TEST_F(FaultInjectorTest, AnOffsetCountsFromTheFirstPsnOfTheFlowAcrossTheWrap) {
  Use(R"({"psn_offset": 3, "nth": "every", "action": "drop"})");
  EXPECT_FALSE(Means({.psn = 0xfffffe}));
  EXPECT_FALSE(Means({.psn = 0xffffff}));
  EXPECT_FALSE(Means({.psn = 0}));
  EXPECT_TRUE(Means({.psn = 1}));
  EXPECT_FALSE(Means({.psn = 2}));
  EXPECT_TRUE(Means({.psn = 1}));
}

TEST_F(FaultInjectorTest, OffsetZeroIsTheFirstPacketItself) {
  Use(R"({"psn_offset": 0, "action": "drop"})");
  EXPECT_TRUE(Means({.psn = 0x123456}));
  EXPECT_FALSE(Means({.psn = 0x123457}));
}

// Requests and responses go to the same QPN, with independent PSNs.
TEST_F(FaultInjectorTest, RequestsAndResponsesAreFlowsOfTheirOwn) {
  Use(R"({"psn_offset": 1, "nth": "every", "action": "drop"})");
  EXPECT_FALSE(Means({.psn = 100}));
  EXPECT_FALSE(Means({.psn = 900, .opcode = kAcknowledge}));
  EXPECT_TRUE(Means({.psn = 101}));
  EXPECT_FALSE(Means({.psn = 101, .opcode = kAcknowledge}));
  EXPECT_TRUE(Means({.psn = 901, .opcode = kReadResponseMiddle, .payload_bytes = 256}));
  EXPECT_FALSE(Means({.psn = 500}, kReceived));
  EXPECT_FALSE(Means({.psn = 101}, kReceived));
}

TEST_F(FaultInjectorTest, FirstMatchingRuleDecidesAndLaterRulesCount) {
  Use(R"({"psn": 5, "action": "drop"}, {"psn": 5, "nth": 2, "action": "ecn"},
         {"psn": 5, "nth": "every", "action": "duplicate"})");
  const auto frame = FrameSpec{.psn = 5}.Build();
  EXPECT_EQ(injector_->OnFrame(kSent, frame)->kind, Kind::kDrop);
  EXPECT_EQ(injector_->OnFrame(kSent, frame)->kind, Kind::kMarkCongestion);
  EXPECT_EQ(injector_->OnFrame(kSent, frame)->kind, Kind::kDuplicate);
}

TEST_F(FaultInjectorTest, DamagedFramesCountToo) {
  Use(R"({"psn": 5, "nth": 2, "action": "drop"})");
  auto frame = FrameSpec{.psn = 5, .payload_bytes = 8}.Build();
  frame.back() ^= 0xff;
  EXPECT_EQ(injector_->OnFrame(kSent, frame), nullptr);
  EXPECT_NE(injector_->OnFrame(kSent, frame), nullptr);
}

TEST_F(FaultInjectorTest, NonRoceFrameIsIgnored) {
  Use(R"({"nth": "every", "action": "drop"})");
  const auto frame = FrameSpec{.payload_bytes = 64}.Build();
  for (size_t length = 0; length < frame.size(); ++length) {
    EXPECT_EQ(injector_->OnFrame(kSent, std::span(frame).first(length)), nullptr) << length;
  }
  const auto changed = [&](size_t at, uint8_t value) {
    auto other = frame;
    other[at] = value;
    return injector_->OnFrame(kSent, other);
  };
  EXPECT_EQ(changed(13, 0x06), nullptr);  // ARP
  EXPECT_EQ(changed(14, 0x46), nullptr);  // IP options
  EXPECT_EQ(changed(23, 6), nullptr);     // TCP
  EXPECT_EQ(changed(37, 0), nullptr);     // another port
  EXPECT_EQ(changed(39, 8), nullptr);     // nothing behind the UDP header
  EXPECT_NE(injector_->OnFrame(kSent, frame), nullptr);
}

// QPNs come from the wire: a peer that invents QPNs must not fill the memory.
TEST_F(FaultInjectorTest, NumberOfCountedQpnsIsBounded) {
  Use(R"({"nth": 2, "action": "drop"})");
  constexpr uint32_t kQpns = (1 << 16) + 10;
  for (uint32_t qpn = 0; qpn < kQpns; ++qpn) EXPECT_FALSE(Means({.qpn = qpn}));
  EXPECT_TRUE(Means({.qpn = 0}));
  EXPECT_FALSE(Means({.qpn = kQpns - 1}));
}

// Carries out the action on the frame. Returns whether it changed anything.
bool Change(const std::string& action, std::vector<uint8_t>& frame) {
  return ChangeFrame(Scenario("{" + action + "}").rules[0].action, frame);
}

TEST(ChangeFrameTest, AMarkedFrameIsStillRightEverywhere) {
  for (const bool ipv6 : {false, true}) {
    for (const int traffic_class : {0, 1, 2, 3, 0xb8, 0xfe}) {
      for (const uint32_t bytes : {0u, 1u, 4096u}) {
        auto frame = FrameSpec{.payload_bytes = bytes,
                               .ipv6 = ipv6,
                               .traffic_class = static_cast<uint8_t>(traffic_class)}
                         .Build();
        EXPECT_TRUE(Change(R"("action": "ecn")", frame));
        transport::Packet packet;
        ASSERT_EQ(ParseFrame(frame, packet), DropReason::kNone) << ipv6 << " " << traffic_class;
        EXPECT_EQ(packet.flow.traffic_class, traffic_class | 3);
      }
    }
  }
}

TEST(ChangeFrameTest, ACorruptedFrameHasAWrongIcrcAndOneOtherBit) {
  for (const bool ipv6 : {false, true}) {
    const char* in_payload = ipv6 ? "76" : "56";
    for (const char* at : {R"("bth")", R"("payload")", R"("icrc")", in_payload}) {
      const auto frame = FrameSpec{.payload_bytes = 5, .ipv6 = ipv6}.Build();
      auto changed = frame;
      EXPECT_TRUE(Change(std::string(R"("action": "corrupt", "at": )") + at, changed));
      EXPECT_EQ(Judge(changed), DropReason::kBadIcrc) << at;
      int bits = 0;
      for (size_t i = 0; i < frame.size(); ++i) {
        bits += __builtin_popcount(static_cast<unsigned>(frame[i] ^ changed[i]));
      }
      EXPECT_EQ(bits, 1) << at;
    }
  }
}

TEST(ChangeFrameTest, CorruptChangesTheNamedPart) {
  const auto frame = FrameSpec{.psn = 0x30, .payload_bytes = 5}.Build();
  constexpr size_t kBth = 14 + 20 + 8;
  for (const auto& [at, byte] : {std::pair<const char*, size_t>{R"("bth")", kBth + 11},
                                 {R"("payload")", kBth + 12},
                                 {R"("icrc")", frame.size() - 1},
                                 {"50", 50}}) {
    auto changed = frame;
    ASSERT_TRUE(Change(std::string(R"("action": "corrupt", "at": )") + at, changed));
    EXPECT_NE(changed[byte], frame[byte]) << at;
  }
}

// A short frame is padded to 60 bytes on Ethernet: the ICRC is not at its end.
TEST(ChangeFrameTest, PaddingBehindTheIcrcIsNotTheIcrc) {
  auto frame = FrameSpec{}.Build();
  const size_t length = frame.size();
  frame.resize(length + 6);
  ASSERT_TRUE(Change(R"("action": "corrupt", "at": "icrc")", frame));
  EXPECT_EQ(Judge(frame), DropReason::kBadIcrc);
  EXPECT_TRUE(std::all_of(frame.begin() + static_cast<ptrdiff_t>(length), frame.end(),
                          [](uint8_t byte) { return byte == 0; }));
}

TEST(ChangeFrameTest, MissingPartIsNotCorrupted) {
  for (const uint8_t opcode : {kSendOnly, kAcknowledge}) {
    const auto frame = FrameSpec{.opcode = opcode}.Build();
    for (const char* at : {R"("payload")", "4000"}) {
      auto changed = frame;
      EXPECT_FALSE(Change(std::string(R"("action": "corrupt", "at": )") + at, changed));
      EXPECT_EQ(changed, frame);
    }
  }
}

}  // namespace
}  // namespace uroce::nic
