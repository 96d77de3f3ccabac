#include "dpdk_nic/port/faults/impaired_port.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <thread>
#include <vector>

#include "tests/dpdk_nic/engine/engine_host.h"
#include "tests/dpdk_nic/port/faults/roce_frames.h"

namespace uroce::nic {
namespace {

using Frames = std::vector<std::vector<uint8_t>>;

// A port that records sent frames, and receives the frames that a test puts into `arrived`.
class RecordingPort : public PacketPort {
 public:
  explicit RecordingPort(Frames& sent) : sent_(sent) {}

  ReceivedFrame Receive() override {
    EXPECT_FALSE(receiving_) << "the frame before was not released";
    receiving_ = !arrived.empty();
    return receiving_ ? ReceivedFrame{arrived.front()} : ReceivedFrame{};
  }
  void ReleaseReceived() override {
    EXPECT_TRUE(receiving_);
    receiving_ = false;
    arrived.pop_front();
  }
  transport::FrameRoom AcquireTransmit(transport::Route /*route*/) override {
    return full ? std::span<uint8_t>() : std::span<uint8_t>(buffer_);
  }
  void CommitTransmit(size_t frame_bytes) override {
    sent_.emplace_back(buffer_.begin(), buffer_.begin() + static_cast<ptrdiff_t>(frame_bytes));
  }
  void Flush() override {}
  transport::MacAddress mac() const override { return {}; }
  uint32_t mtu() const override { return 4'200; }
  bool link_up() const override { return true; }

  bool full = false;
  std::deque<std::vector<uint8_t>> arrived;

 private:
  bool receiving_ = false;
  Frames& sent_;
  std::array<uint8_t, transport::kMaxFrameBytes> buffer_{};
};

constexpr uint32_t kFrames = 20'000;

// The time as the ports of the tests see it.
transport::Time test_time;
transport::Time TestClock() { return test_time; }
void Pass(transport::Duration time) { test_time = test_time + time; }

class ImpairedPortTest : public ::testing::Test {
 protected:
  void Use(const std::string& spec) {
    sent_.clear();
    auto recorder = std::make_unique<RecordingPort>(sent_);
    wire_ = recorder.get();
    port_ = std::make_unique<ImpairedPort>(std::move(recorder), ParseImpairments(spec).value(),
                                           FaultScenario{}, TestClock);
  }

  // A frame that looks like RoCEv2 over IPv4 and carries a number.
  bool Send(uint32_t number, uint16_t udp_port = 4791) {
    const std::span<uint8_t> room = port_->AcquireTransmit(transport::Route::kWire);
    if (room.empty()) return false;
    std::fill_n(room.begin(), 70, uint8_t{0});
    room[12] = 0x08;
    room[14] = 0x45;
    room[23] = 17;
    room[36] = static_cast<uint8_t>(udp_port >> 8);
    room[37] = static_cast<uint8_t>(udp_port);
    room[39] = 70 - 34;  // the length of the UDP packet
    memcpy(&room[54], &number, sizeof number);
    port_->CommitTransmit(70);
    return true;
  }
  void SendAll() {
    for (uint32_t i = 0; i < kFrames; ++i) ASSERT_TRUE(Send(i));
    Pass(transport::Milliseconds(1));
    port_->Flush();
  }
  std::vector<uint32_t> Numbers() const {
    std::vector<uint32_t> numbers;
    for (const auto& frame : sent_) {
      uint32_t number;
      memcpy(&number, &frame[54], sizeof number);
      numbers.push_back(number);
    }
    return numbers;
  }

  Frames sent_;
  RecordingPort* wire_ = nullptr;
  std::unique_ptr<ImpairedPort> port_;
};

TEST_F(ImpairedPortTest, DropsAboutAsManyAsAskedFor) {
  Use("drop=10%,seed=3");
  SendAll();
  EXPECT_EQ(port_->impaired().frames, kFrames);
  EXPECT_EQ(sent_.size() + port_->impaired().dropped, kFrames);
  // Six standard deviations (42) around 2000.
  EXPECT_NEAR(static_cast<double>(port_->impaired().dropped), 2'000, 260);
  const auto numbers = Numbers();
  EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
}

TEST_F(ImpairedPortTest, SameSeedSameFate) {
  Use("drop=5%,duplicate=5%,corrupt=5%,seed=11");
  SendAll();
  const Frames first = sent_;
  Use("drop=5%,duplicate=5%,corrupt=5%,seed=11");
  SendAll();
  EXPECT_EQ(sent_, first);
  Use("drop=5%,duplicate=5%,corrupt=5%,seed=12");
  SendAll();
  EXPECT_NE(sent_, first);
}

TEST_F(ImpairedPortTest, DuplicatesArriveTwice) {
  Use("duplicate=2%");
  SendAll();
  std::map<uint32_t, int> count;
  for (uint32_t number : Numbers()) ++count[number];
  EXPECT_EQ(count.size(), kFrames);
  const auto twice =
      std::count_if(count.begin(), count.end(), [](const auto& c) { return c.second == 2; });
  EXPECT_EQ(static_cast<uint64_t>(twice), port_->impaired().duplicated);
  EXPECT_NEAR(static_cast<double>(twice), 400, 120);
}

TEST_F(ImpairedPortTest, ReorderedFramesComeLateButCome) {
  Use("reorder=2%");
  SendAll();
  auto numbers = Numbers();
  EXPECT_EQ(numbers.size(), kFrames);
  uint64_t late = 0;
  for (size_t i = 1; i < numbers.size(); ++i) late += numbers[i] < numbers[i - 1];
  EXPECT_GT(late, 200u);
  EXPECT_NEAR(static_cast<double>(port_->impaired().reordered), 400, 120);
  std::sort(numbers.begin(), numbers.end());
  for (uint32_t i = 0; i < kFrames; ++i) ASSERT_EQ(numbers[i], i);
}

TEST_F(ImpairedPortTest, CorruptionFlipsOneBitBehindTheEthernetHeader) {
  Use("corrupt=100%");
  SendAll();
  const Frames corrupted = sent_;
  Use("");
  SendAll();
  ASSERT_EQ(corrupted.size(), sent_.size());
  for (size_t i = 0; i < sent_.size(); ++i) {
    int bits = 0;
    for (size_t at = 0; at < sent_[i].size(); ++at) {
      const int changed = __builtin_popcount(sent_[i][at] ^ corrupted[i][at]);
      bits += changed;
      ASSERT_TRUE(at >= 14 || changed == 0);
    }
    ASSERT_EQ(bits, 1) << "frame " << i;
  }
}

TEST_F(ImpairedPortTest, OtherTrafficIsLeftAlone) {
  Use("drop=100%");
  ASSERT_TRUE(Send(1, /*udp_port=*/53));
  ASSERT_TRUE(Send(2));
  EXPECT_EQ(Numbers(), std::vector<uint32_t>{1});
}

TEST_F(ImpairedPortTest, DelayedFramesWaitInOrderAndKeepTheEngineAwake) {
  Use("delay=2000us");
  for (uint32_t i = 0; i < 10; ++i) ASSERT_TRUE(Send(i));
  EXPECT_FALSE(port_->BeginSleep());
  Pass(transport::Milliseconds(2));
  EXPECT_TRUE(port_->Receive().bytes.empty());  // Receive alone releases held frames
  EXPECT_EQ(Numbers(), (std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_TRUE(port_->BeginSleep());
}

TEST_F(ImpairedPortTest, HeldFramesAreBounded) {
  Use("delay=100000us");
  uint32_t taken = 0;
  while (taken < kFrames && Send(taken)) ++taken;
  EXPECT_LT(taken, 1'000u);
}

TEST_F(ImpairedPortTest, FullWireIsBackPressure) {
  Use("duplicate=1%");
  wire_->full = true;
  EXPECT_FALSE(Send(1));
  wire_->full = false;
  EXPECT_TRUE(Send(1));
}

// The effect of a scenario on sent and received frames, told apart by their PSNs.
class ScenarioPortTest : public ::testing::Test {
 protected:
  void Use(const std::string& rules, const std::string& impairments = "") {
    const auto scenario = ParseFaultScenario("{\"rules\": [" + rules + "]}", "faults.json");
    ASSERT_TRUE(scenario.ok()) << scenario.error();
    sent_.clear();
    auto recorder = std::make_unique<RecordingPort>(sent_);
    wire_ = recorder.get();
    port_ = std::make_unique<ImpairedPort>(
        std::move(recorder), ParseImpairments(impairments).value(), scenario.value(), TestClock);
  }
  void Send(uint32_t psn, transport::Route route = transport::Route::kWire) {
    const auto frame = FrameSpec{.psn = psn, .payload_bytes = 16}.Build();
    std::copy(frame.begin(), frame.end(), port_->AcquireTransmit(route).begin());
    port_->CommitTransmit(frame.size());
  }
  void SendToGroup(uint32_t psn) {
    auto frame = FrameSpec{.psn = psn, .payload_bytes = 16}.Build();
    frame[0] |= 1;  // a multicast address
    std::copy(frame.begin(), frame.end(), port_->AcquireTransmit(transport::Route::kWire).begin());
    port_->CommitTransmit(frame.size());
  }
  void Arrive(uint32_t psn) {
    wire_->arrived.push_back(FrameSpec{.psn = psn, .payload_bytes = 16}.Build());
  }
  // Takes the frames that the port has received.
  Frames Received() {
    Frames frames;
    for (auto frame = port_->Receive().bytes; !frame.empty(); frame = port_->Receive().bytes) {
      frames.emplace_back(frame.begin(), frame.end());
      port_->ReleaseReceived();
    }
    return frames;
  }
  static std::vector<uint32_t> Psns(const Frames& frames) {
    std::vector<uint32_t> psns;
    for (const auto& frame : frames) psns.push_back(frame[53]);
    return psns;
  }
  using List = std::vector<uint32_t>;

  Frames sent_;
  RecordingPort* wire_ = nullptr;
  std::unique_ptr<ImpairedPort> port_;
};

TEST_F(ScenarioPortTest, OnlyTheFirstMatchingFrameIsDropped) {
  Use(R"({"psn": 2, "action": "drop"})");
  for (const uint32_t psn : {1, 2, 3, 2}) Send(psn);
  EXPECT_EQ(Psns(sent_), (List{1, 3, 2}));
  EXPECT_EQ(port_->impaired().by_scenario, 1u);

  Use(R"({"direction": "received", "psn": 2, "action": "drop"})");
  for (const uint32_t psn : {1, 2, 3, 2}) Arrive(psn);
  EXPECT_EQ(Psns(Received()), (List{1, 3, 2}));
}

TEST_F(ScenarioPortTest, ADuplicateFollowsAtOnce) {
  Use(R"({"psn": 2, "action": "duplicate"})");
  for (const uint32_t psn : {1, 2, 3}) Send(psn);
  EXPECT_EQ(Psns(sent_), (List{1, 2, 2, 3}));
  EXPECT_EQ(sent_[1], sent_[2]);

  Use(R"({"direction": "received", "psn": 2, "action": "duplicate"})");
  for (const uint32_t psn : {1, 2, 3}) Arrive(psn);
  EXPECT_EQ(Psns(Received()), (List{1, 2, 2, 3}));
}

TEST_F(ScenarioPortTest, ReorderedFrameLetsTheGivenNumberPass) {
  Use(R"({"psn": 2, "action": "reorder", "frames": 2})");
  for (const uint32_t psn : {1, 2, 3, 4, 5}) Send(psn);
  EXPECT_EQ(Psns(sent_), (List{1, 3, 4, 2, 5}));

  Use(R"({"direction": "received", "psn": 2, "action": "reorder", "frames": 2})");
  for (const uint32_t psn : {1, 2, 3, 4, 5}) Arrive(psn);
  EXPECT_EQ(Psns(Received()), (List{1, 3, 4, 2, 5}));
}

TEST_F(ScenarioPortTest, ADelayedFrameComesLaterAndKeepsTheEngineAwake) {
  Use(R"({"psn": 2, "action": "delay", "us": 3000})");
  for (const uint32_t psn : {1, 2, 3}) Send(psn);
  EXPECT_EQ(Psns(sent_), (List{1, 3}));
  EXPECT_FALSE(port_->BeginSleep());
  Pass(transport::Milliseconds(3));
  port_->Flush();
  EXPECT_EQ(Psns(sent_), (List{1, 3, 2}));
  EXPECT_TRUE(port_->BeginSleep());

  Use(R"({"direction": "received", "psn": 2, "action": "delay", "us": 3000})");
  for (const uint32_t psn : {1, 2, 3}) Arrive(psn);
  EXPECT_EQ(Psns(Received()), (List{1, 3}));
  EXPECT_FALSE(port_->BeginSleep());
  Pass(transport::Milliseconds(3));
  EXPECT_EQ(Psns(Received()), (List{2}));
  EXPECT_TRUE(port_->BeginSleep());
}

TEST_F(ScenarioPortTest, AMarkedFrameIsTakenAndACorruptedOneIsNot) {
  Use(R"({"psn": 2, "action": "ecn"}, {"psn": 3, "action": "corrupt", "at": "payload"})");
  for (const uint32_t psn : {1, 2, 3}) Send(psn);
  Frames received = sent_;
  Use(R"({"direction": "received", "psn": 2, "action": "ecn"},
         {"direction": "received", "psn": 3, "action": "corrupt", "at": "payload"})");
  for (const uint32_t psn : {1, 2, 3}) Arrive(psn);
  for (const Frames& frames : {received, Received()}) {
    ASSERT_EQ(frames.size(), 3u);
    transport::Packet packet;
    EXPECT_EQ(ParseFrame(frames[1], packet), transport::DropReason::kNone);
    EXPECT_EQ(packet.flow.traffic_class & 3, 3);
    EXPECT_EQ(Judge(frames[0]), transport::DropReason::kNone);
    EXPECT_EQ(Judge(frames[2]), transport::DropReason::kBadIcrc);
  }
}

// Frames that a process sends to itself meet the faults for sent and for received frames, in both
// queues at once, and never reach the port below.
TEST_F(ScenarioPortTest, FramesToOneselfMeetFaultsOnBothWays) {
  Use(R"({"psn": 2, "action": "drop"}, {"psn": 3, "action": "duplicate"},
         {"direction": "received", "psn": 4, "action": "drop"})");
  EXPECT_TRUE(port_->carries_loopback());
  for (const uint32_t psn : {1, 2, 3, 4, 5}) Send(psn, transport::Route::kLoopback);
  EXPECT_TRUE(sent_.empty());
  EXPECT_TRUE(port_->keeps_frames());
  EXPECT_FALSE(port_->BeginSleep());
  List psns;
  while (true) {
    const PacketPort::ReceivedFrame frame = port_->Receive();
    if (frame.bytes.empty()) break;
    EXPECT_EQ(frame.from, transport::Route::kLoopback);
    psns.push_back(frame.bytes[53]);
    port_->ReleaseReceived();
  }
  EXPECT_EQ(psns, (List{1, 3, 3, 5}));
  EXPECT_FALSE(port_->keeps_frames());
  EXPECT_TRUE(port_->BeginSleep());
}

TEST_F(ScenarioPortTest, LoopbackAndReceivedFramesTakeTurns) {
  Use(R"({"psn": 99, "action": "drop"})");
  for (const uint32_t psn : {1, 2, 3}) Send(psn, transport::Route::kLoopback);
  for (const uint32_t psn : {11, 12}) Arrive(psn);
  EXPECT_EQ(Psns(Received()), (List{1, 11, 2, 12, 3}));
}

// Members on other hosts and own members get the same frames: a frame dropped when sent reaches
// neither. The copy for own members is a received frame.
TEST_F(ScenarioPortTest, MulticastLoopbackCopiesTheSentFrames) {
  Use(R"({"psn": 2, "action": "drop"}, {"psn": 3, "action": "duplicate"},
         {"psn": 5, "action": "corrupt", "at": "payload"},
         {"direction": "received", "psn": 4, "action": "drop"})");
  for (const uint32_t psn : {1, 2, 3, 4, 5}) SendToGroup(psn);
  EXPECT_EQ(Psns(sent_), (List{1, 3, 3, 4, 5}));
  EXPECT_FALSE(port_->BeginSleep());
  const Frames received = Received();
  EXPECT_EQ(Psns(received), (List{1, 3, 3, 5}));
  EXPECT_EQ(received.back(), sent_.back());
  EXPECT_EQ(Judge(received.back()), transport::DropReason::kBadIcrc);
  EXPECT_TRUE(port_->BeginSleep());
}

// Neighbour solicitations have multicast addresses, too.
TEST_F(ScenarioPortTest, OnlyMulticastRoceFramesComeBack) {
  Use(R"({"psn": 99, "action": "drop"})");
  auto frame = FrameSpec{.psn = 1, .payload_bytes = 16}.Build();
  frame[0] |= 1;
  frame[37] ^= 1;  // another UDP port
  std::copy(frame.begin(), frame.end(), port_->AcquireTransmit(transport::Route::kWire).begin());
  port_->CommitTransmit(frame.size());
  EXPECT_EQ(sent_.size(), 1u);
  EXPECT_TRUE(Received().empty());
}

TEST_F(ScenarioPortTest, MulticastWaitsUntilThereIsRoomForItsCopy) {
  Use(R"({"psn": 99, "action": "drop"})");
  size_t taken = 0;
  while (taken < 10'000 && !port_->AcquireTransmit(transport::Route::kWire).empty()) {
    SendToGroup(1);
    ++taken;
  }
  EXPECT_EQ(sent_.size(), taken);
  EXPECT_EQ(Received().size(), taken);
  EXPECT_LT(taken, 1'000u);
}

TEST_F(ScenarioPortTest, FramesToOneselfAreBounded) {
  Use(R"({"psn": 99, "action": "drop"})");
  size_t taken = 0;
  while (taken < 10'000 && !port_->AcquireTransmit(transport::Route::kLoopback).empty()) {
    Send(1, transport::Route::kLoopback);
    ++taken;
  }
  EXPECT_EQ(Received().size(), taken);
  EXPECT_LT(taken, 1'000u);
  EXPECT_FALSE(port_->AcquireTransmit(transport::Route::kLoopback).empty());
}

TEST_F(ScenarioPortTest, ChanceLeavesFramesAloneThatARuleHasDecidedAbout) {
  Use(R"({"psn": 2, "action": "duplicate"})", "drop=100%");
  for (const uint32_t psn : {1, 2, 3}) Send(psn);
  EXPECT_EQ(Psns(sent_), (List{2, 2}));
  EXPECT_EQ(port_->impaired().dropped, 2u);
}

TEST_F(ScenarioPortTest, DroppingEverythingDoesNotKeepTheEngineInOneCall) {
  Use(R"({"direction": "received", "nth": "every", "action": "drop"})");
  for (uint32_t i = 0; i < 1'000; ++i) Arrive(1);
  EXPECT_TRUE(port_->Receive().bytes.empty());
  EXPECT_GT(wire_->arrived.size(), 0u);
}

// The whole stack over a wire with all impairments at once.
TEST(ImpairedLinkTest, TransportDeliversEverythingOverABadWire) {
  std::deque<const ImpairedPort*> ports;
  const EngineHost::WrapPort spoil = [&](std::unique_ptr<PacketPort> port) {
    auto impaired = std::make_unique<ImpairedPort>(
        std::move(port),
        ParseImpairments("drop=1%,duplicate=1%,reorder=1%,corrupt=1%,seed=5").value());
    ports.push_back(impaired.get());
    return impaired;
  };
  EngineHost a(Engine::Options{}, spoil);
  EngineHost b(Engine::Options{}, spoil);
  ConnectBoth(a, b, /*timeout=*/16);  // 0.3 s, for packets lost at the end of a message
  for (int round = 0; round < 100; ++round) {
    memset(a.memory().data(), round, 100'000);
    a.Publish();
    ASSERT_EQ(a.Post(transport::SendOpcode::kRdmaWrite, 0, 100'000), transport::Status::kOk);
    ASSERT_EQ(a.Poll(1)[0].status, transport::CompletionStatus::kSuccess);
    ASSERT_EQ(memcmp(a.memory().data(), b.memory().data(), 100'000), 0) << "round " << round;
    b.Publish();
  }
  for (EngineHost* host : {&a, &b}) {
    const auto counters = host->engine().WithEndpoint(
        [](transport::Endpoint& endpoint) { return endpoint.counters(); });
    EXPECT_GT(counters.dropped[static_cast<size_t>(transport::DropReason::kBadIcrc)] +
                  counters.retransmitted_packets,
              0u);
  }
  EXPECT_GT(ports[0]->impaired().corrupted, 0u);
}

// A queue pair that is connected to itself, on an engine whose port has these faults.
std::unique_ptr<EngineHost> HostWithFaults(const Impairments& impairments,
                                           const FaultScenario& scenario = {}) {
  return std::make_unique<EngineHost>(Engine::Options{}, [&](std::unique_ptr<PacketPort> port) {
    return std::make_unique<ImpairedPort>(std::move(port), impairments, scenario);
  });
}

TEST(ImpairedLoopbackTest, DroppedPacketIsRetransmitted) {
  const auto scenario = ParseFaultScenario(
      R"({"rules": [{"psn_offset": 3, "opcode": "RC_WRITE", "nth": 1, "action": "drop"}]})",
      "faults.json");
  ASSERT_TRUE(scenario.ok()) << scenario.error();
  const auto host = HostWithFaults({}, scenario.value());
  host->Connect(host->info(), /*timeout=*/8, /*retry_count=*/7);
  ASSERT_EQ(host->Post(transport::SendOpcode::kRdmaWrite, 0, 50'000), transport::Status::kOk);
  EXPECT_EQ(host->Poll(1)[0].status, transport::CompletionStatus::kSuccess);
  const auto counters = host->engine().WithEndpoint(
      [](transport::Endpoint& endpoint) { return endpoint.counters(); });
  EXPECT_GT(counters.retransmitted_packets, 0u);
}

TEST(ImpairedLoopbackTest, NoCorruptedFrameIsActedOn) {
  const auto host = HostWithFaults(ParseImpairments("corrupt=100%").value());
  host->Connect(host->info(), /*timeout=*/8, /*retry_count=*/2);
  ASSERT_EQ(host->Post(transport::SendOpcode::kRdmaWrite, 0, 4'000), transport::Status::kOk);
  EXPECT_EQ(host->Poll(1)[0].status, transport::CompletionStatus::kRetryExceeded);
}

// No timer runs that would wake the progress thread: the frames that the port keeps must wake it.
TEST(ImpairedLoopbackTest, ProgressThreadThatSleepsIsWokenForFramesThatThePortKeeps) {
  const auto host = HostWithFaults(ParseImpairments("delay=100us").value());
  host->Connect(host->info(), /*timeout=*/0);
  for (int round = 0; round < 3; ++round) {
    usleep(50'000);  // the progress thread falls asleep as a rule
    ASSERT_EQ(host->Post(transport::SendOpcode::kRdmaWrite, 0, 4'000), transport::Status::kOk);
    EXPECT_EQ(host->WaitWithoutDriving(1)[0].status, transport::CompletionStatus::kSuccess);
  }
}

// The negative control of every test that compares memory: a frame with a wrong bit is dropped.
TEST(ImpairedLinkTest, NoCorruptedFrameIsActedOn) {
  EngineHost a(Engine::Options{}, [](std::unique_ptr<PacketPort> port) {
    return std::make_unique<ImpairedPort>(std::move(port),
                                          ParseImpairments("corrupt=100%").value());
  });
  EngineHost b;
  a.Connect(b.info(), /*timeout=*/8, /*retry_count=*/7);
  b.Connect(a.info());
  ASSERT_EQ(b.PostReceive(0, 4'000), transport::Status::kOk);
  // The ICRC covers 4050 of 4110 bytes, so eight harmless flips in a row do not happen.
  ASSERT_EQ(a.Post(transport::SendOpcode::kSend, 0, 4'000), transport::Status::kOk);
  EXPECT_EQ(a.Poll(1)[0].status, transport::CompletionStatus::kRetryExceeded);
  // The last frames may still be on their way, and one of them may have been a probe.
  transport::Counters counters;
  for (int i = 0; i < 60'000 && counters.received_packets < 8; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    counters =
        b.engine().WithEndpoint([](transport::Endpoint& endpoint) { return endpoint.counters(); });
  }
  EXPECT_GE(counters.received_packets, 8u);
  EXPECT_TRUE(b.cq().empty());
  EXPECT_GT(counters.drops(transport::DropReason::kBadIcrc), 0u);
}

}  // namespace
}  // namespace uroce::nic
