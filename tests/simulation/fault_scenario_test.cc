// Runs every file of scenarios/ and checks its effects.

#include "dpdk_nic/port/faults/fault_scenario.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <set>
#include <string>

#include "tests/simulation/link.h"
#include "tests/simulation/wire_monitor.h"
#include "transport/wire/frame_parser.h"

namespace uroce::transport::simulation {
namespace {

constexpr char kFolder[] = "tests/simulation/scenarios/";
constexpr uint32_t kMtuBytes = 256;
// A message of eight packets.
constexpr uint32_t kMessageBytes = 8 * kMtuBytes;

using Offsets = std::vector<int>;

// From `first` to `last`, both included.
Offsets Range(int first, int last) {
  Offsets range(static_cast<size_t>(last - first + 1));
  std::iota(range.begin(), range.end(), first);
  return range;
}
Offsets operator+(Offsets a, const Offsets& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The files that a test has used.
std::set<std::string>& UsedFiles() {
  static std::set<std::string> used;
  return used;
}

// Each test runs far from the wrap of PSNs and in the middle of it: the parameter is the first PSN.
class FaultScenarioTest : public testing::TestWithParam<uint32_t> {
 protected:
  void Use(const std::string& file) {
    const auto scenario = nic::ReadFaultScenario(kFolder + file);
    ASSERT_TRUE(scenario.ok()) << scenario.error();
    UsedFiles().insert(file);
    LinkOptions options;
    options.first_psn = first_psn_;
    options.scenario = scenario.value();
    options.impairments.bytes_per_us = 1'250;  // so that a NAK arrives during sending
    link_.emplace(options, Observer());
    monitor_.AddConnection(EndOf(client()), EndOf(server()));
    initial_client_memory_ = client().memory;
    initial_server_memory_ = server().memory;
  }

  WireMonitor::End EndOf(const Link::Host& host) const {
    return {.qp = host.qp,
            .first_psn = first_psn_,
            .mtu_bytes = kMtuBytes,
            .max_read_atomic = 16,
            .retry_count = 7,
            .rnr_retry = 7,
            .sources_are_stable = true};
  }

  Link::Observer Observer() {
    return {.sent =
                [this](const Link::Host& from, std::span<const uint8_t> frame) {
                  monitor_.OnSent(frame);
                  Record(from, frame);
                },
            .delivered =
                [this](const Link::Host&, std::span<const uint8_t> frame) {
                  monitor_.OnDelivered(frame);
                  Packet packet;
                  const bool taken = ParseFrame(frame, packet) == DropReason::kNone;
                  if (taken && (packet.flow.traffic_class & 3) == 3) ++marked_;
                },
            .impaired = [this](std::span<const uint8_t> frame) { monitor_.OnImpaired(frame); },
            .activity =
                [this](Link::Host& host) {
                  std::vector<Completion> polled(16);
                  polled.resize(host.cq->Poll(polled));
                  auto& all = completions_[host.index];
                  all.insert(all.end(), polled.begin(), polled.end());
                }};
  }

  void Record(const Link::Host& from, std::span<const uint8_t> frame) {
    Packet packet;
    ASSERT_EQ(ParseFrame(frame, packet), DropReason::kNone);
    if (from.index == 0 && !packet.opcode.IsResponse()) {
      requests_.push_back(packet.psn.DistanceFrom(first_psn_));
      if (packet.opcode.operation == Operation::kReadRequest) reads_.push_back(packet.reth);
    }
  }

  // The client sends a message that the server has a receive request for.
  void Send(size_t offset, uint32_t length = kMessageBytes) {
    ASSERT_EQ(link_->PostReceive(offset, length), Status::kOk);
    Post(SendOpcode::kSend, offset, length);
  }
  void Post(SendOpcode opcode, size_t offset, uint32_t length = kMessageBytes) {
    ASSERT_EQ(link_->Post(opcode, offset, length), Status::kOk);
    ++posted_;
  }
  void RunToTheEnd() {
    link_->UpdateAfterEvent(client());
    while (link_->RunOne()) {
    }
    for (Link::Host* host : {&client(), &server()}) monitor_.CheckCounters(*host->endpoint);
    EXPECT_FALSE(verdict_.failed()) << verdict_.reason();
    EXPECT_EQ(completions_[0].size(), posted_);
    for (const auto& completions : completions_) {
      for (const Completion& completion : completions) {
        EXPECT_EQ(completion.status, CompletionStatus::kSuccess);
      }
    }
  }

  // Whether the first `length` bytes of the server equal the client's, and the rest of both
  // memories is unchanged.
  bool ArrivedAtServer(size_t length) {
    return client().memory == initial_client_memory_ &&
           Equal(server().memory, initial_client_memory_, 0, length) &&
           Equal(server().memory, initial_server_memory_, length, server().memory.size());
  }
  bool ArrivedAtClient(size_t length) {
    return server().memory == initial_server_memory_ &&
           Equal(client().memory, initial_server_memory_, 0, length) &&
           Equal(client().memory, initial_client_memory_, length, client().memory.size());
  }
  bool WasAddedOnce() {
    uint64_t before, after, seen;
    memcpy(&before, initial_server_memory_.data(), 8);
    memcpy(&after, server().memory.data(), 8);
    memcpy(&seen, client().memory.data(), 8);
    return seen == before && after == before + 1;
  }
  static bool Equal(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b, size_t from,
                    size_t to) {
    return std::equal(a.begin() + static_cast<ptrdiff_t>(from),
                      a.begin() + static_cast<ptrdiff_t>(to),
                      b.begin() + static_cast<ptrdiff_t>(from));
  }

  Link::Host& client() { return link_->client(); }
  Link::Host& server() { return link_->server(); }

  const Psn first_psn_{GetParam()};
  Verdict verdict_;
  WireMonitor monitor_{verdict_, /*strict=*/true};
  std::optional<Link> link_;
  size_t posted_ = 0;
  Offsets requests_;  // PSNs of the request packets that the client sent, from the first one
  std::vector<Reth> reads_;
  uint64_t marked_ = 0;  // packets that arrived with CE
  std::vector<Completion> completions_[2];
  std::vector<uint8_t> initial_client_memory_;
  std::vector<uint8_t> initial_server_memory_;
};

// The first packet of the first SEND goes alone, to learn the server's credits (IBA 9.7.7.2.5).
TEST_P(FaultScenarioTest, TheFirstPacketOfASendIsSentAgainWhenNothingComesBack) {
  Use("drop_first_send.json");
  Send(0);
  RunToTheEnd();
  EXPECT_EQ(requests_, Offsets{0} + Range(0, 7));
  EXPECT_EQ(client().counters().ack_timeouts, 1u);
  EXPECT_EQ(server().counters().psn_naks_sent, 0u);
  EXPECT_TRUE(ArrivedAtServer(kMessageBytes));
}

// IBA 9.9.2.4.1.
TEST_P(FaultScenarioTest, ASendGoesOnFromThePacketThatTheNakAsksFor) {
  Use("drop_middle_send.json");
  Send(0);
  RunToTheEnd();
  EXPECT_EQ(requests_, Range(0, 7) + Range(3, 7));
  EXPECT_EQ(server().counters().psn_naks_sent, 1u);
  EXPECT_EQ(server().counters().drops(DropReason::kSequenceGap), 4u);  // 4, 5, 6 and 7
  EXPECT_EQ(client().counters().psn_naks_received, 1u);
  EXPECT_EQ(client().counters().retransmitted_packets, 5u);
  EXPECT_EQ(client().counters().ack_timeouts, 0u);
  EXPECT_TRUE(ArrivedAtServer(kMessageBytes));
}

// Only the first packet was acknowledged. The next one, sent again after the timeout, shows that
// the responder has all but the last one, which may be late and gets another timeout.
TEST_P(FaultScenarioTest, ALostLastPacketCostsTwoTimeouts) {
  Use("drop_last_send.json");
  Send(0);
  RunToTheEnd();
  EXPECT_EQ(requests_, Range(0, 7) + Offsets({1, 7}));
  EXPECT_EQ(client().counters().ack_timeouts, 2u);
  EXPECT_EQ(server().counters().duplicate_requests, 1u);
  EXPECT_TRUE(ArrivedAtServer(kMessageBytes));
}

// The second loss leaves the same gap, for which the responder has already sent its NAK. It sends
// no other (IBA 9.7.5.2), so only the timer recovers.
TEST_P(FaultScenarioTest, APacketThatIsLostTwiceIsSentThreeTimes) {
  Use("drop_same_packet_twice.json");
  Send(0);
  RunToTheEnd();
  EXPECT_EQ(requests_, Range(0, 7) + Range(3, 7) + Range(3, 7));
  EXPECT_EQ(server().counters().psn_naks_sent, 1u);
  EXPECT_EQ(client().counters().ack_timeouts, 1u);
  EXPECT_TRUE(ArrivedAtServer(kMessageBytes));
}

TEST_P(FaultScenarioTest, ThePacketBeforeTheWrapIsAPacketLikeAnyOther) {
  Use("drop_at_psn_wrap.json");
  Send(0);
  RunToTheEnd();
  const int at = Psn(0xffffff).DistanceFrom(first_psn_);
  const bool met = at >= 0 && at < 8;
  EXPECT_EQ(requests_, Range(0, 7) + (met ? Range(at, 7) : Offsets()));
  EXPECT_EQ(client().counters().psn_naks_received, met ? 1u : 0u);
  EXPECT_TRUE(ArrivedAtServer(kMessageBytes));
}

TEST_P(FaultScenarioTest, ALostReadRequestIsSentAgain) {
  Use("drop_read_request.json");
  Post(SendOpcode::kRdmaRead, 0);
  RunToTheEnd();
  EXPECT_EQ(requests_, (Offsets{0, 0}));
  EXPECT_EQ(reads_.at(0), reads_.at(1));
  EXPECT_EQ(client().counters().ack_timeouts, 1u);
  EXPECT_EQ(server().counters().duplicate_requests, 0u);
  EXPECT_TRUE(ArrivedAtClient(kMessageBytes));
}

// IBA 9.4.4: the requester asks only for the missing responses.
TEST_P(FaultScenarioTest, AReadGoesOnFromTheResponseThatWasLost) {
  Use("drop_middle_read_response.json");
  Post(SendOpcode::kRdmaRead, 0);
  RunToTheEnd();
  EXPECT_EQ(requests_, (Offsets{0, 4}));
  EXPECT_EQ(reads_.at(1).virtual_address, reads_.at(0).virtual_address + 4 * kMtuBytes);
  EXPECT_EQ(reads_.at(1).dma_length, 4 * kMtuBytes);
  EXPECT_EQ(client().counters().implied_naks, 1u);
  EXPECT_EQ(client().counters().drops(DropReason::kOutOfOrderResponse), 3u);  // 5, 6 and 7
  EXPECT_EQ(client().counters().ack_timeouts, 0u);
  EXPECT_EQ(server().counters().duplicate_requests, 1u);
  EXPECT_TRUE(ArrivedAtClient(kMessageBytes));
}

TEST_P(FaultScenarioTest, ALostLastReadResponseCostsATimeoutAndOnePacket) {
  Use("drop_last_read_response.json");
  Post(SendOpcode::kRdmaRead, 0);
  RunToTheEnd();
  EXPECT_EQ(requests_, (Offsets{0, 7}));
  EXPECT_EQ(reads_.at(1).dma_length, kMtuBytes);
  EXPECT_EQ(client().counters().ack_timeouts, 1u);
  EXPECT_TRUE(ArrivedAtClient(kMessageBytes));
}

// IBA 9.7.5.1.3: the responder answers a repeated atomic with the remembered result.
TEST_P(FaultScenarioTest, AnAtomicWhoseResponseWasLostIsExecutedOnce) {
  Use("drop_atomic_response.json");
  Post(SendOpcode::kFetchAndAdd, 0, 8);
  RunToTheEnd();
  EXPECT_EQ(requests_, (Offsets{0, 0}));
  EXPECT_EQ(server().counters().duplicate_requests, 1u);
  EXPECT_TRUE(WasAddedOnce());
}

TEST_P(FaultScenarioTest, ADuplicateAtomicIsExecutedOnce) {
  Use("duplicate_atomic.json");
  Post(SendOpcode::kFetchAndAdd, 0, 8);
  RunToTheEnd();
  EXPECT_EQ(requests_, Offsets{0});
  EXPECT_EQ(server().counters().duplicate_requests, 1u);
  EXPECT_EQ(client().counters().drops(DropReason::kStaleResponse), 1u);
  EXPECT_TRUE(WasAddedOnce());
}

TEST_P(FaultScenarioTest, AMessageWhoseAckWasLostIsSentAgainAndNotExecutedAgain) {
  Use("drop_ack.json");
  Post(SendOpcode::kRdmaWrite, 0);
  RunToTheEnd();
  EXPECT_EQ(requests_, Range(0, 7) + Offsets{0});
  EXPECT_EQ(client().counters().ack_timeouts, 1u);
  EXPECT_EQ(server().counters().duplicate_requests, 1u);
  EXPECT_TRUE(ArrivedAtServer(kMessageBytes));
}

// ACKs are cumulative (IBA 9.7.5.1.2).
TEST_P(FaultScenarioTest, ALostAckDoesNotMatterWhenALaterOneComes) {
  Use("drop_ack.json");
  Post(SendOpcode::kRdmaWrite, 0);
  Post(SendOpcode::kRdmaWrite, kMessageBytes);
  RunToTheEnd();
  EXPECT_EQ(requests_, Range(0, 15));
  EXPECT_EQ(client().counters().ack_timeouts, 0u);
  EXPECT_TRUE(ArrivedAtServer(2 * kMessageBytes));
}

TEST_P(FaultScenarioTest, AnOldAckIsIgnored) {
  Use("delay_old_ack.json");
  Post(SendOpcode::kRdmaWrite, 0);
  Post(SendOpcode::kRdmaWrite, kMessageBytes);
  RunToTheEnd();
  EXPECT_EQ(requests_, Range(0, 15));
  EXPECT_EQ(client().counters().drops(DropReason::kStaleResponse), 1u);
  EXPECT_EQ(client().counters().ack_timeouts, 0u);
  EXPECT_TRUE(ArrivedAtServer(2 * kMessageBytes));
}

TEST_P(FaultScenarioTest, ADuplicateRequestIsAcknowledgedAgainAndNotExecutedAgain) {
  Use("duplicate_send.json");
  Send(0);
  RunToTheEnd();
  EXPECT_EQ(requests_, Range(0, 7));
  EXPECT_EQ(server().counters().duplicate_requests, 1u);
  EXPECT_EQ(completions_[1].size(), 1u);
  EXPECT_TRUE(ArrivedAtServer(kMessageBytes));
}

// The overtaken packet is still accepted when it arrives. The packets that overtook it were
// dropped, which leaves another gap: its NAK arrives within a round trip of the first one, when
// what it asks for is on its way.
TEST_P(FaultScenarioTest, OvertakenPacketIsAcceptedAndOvertakersAreResent) {
  Use("reorder_send.json");
  Send(0);
  RunToTheEnd();
  EXPECT_EQ(requests_, Range(0, 7) + Range(3, 7));
  EXPECT_EQ(server().counters().psn_naks_sent, 2u);
  EXPECT_TRUE(ArrivedAtServer(kMessageBytes));
}

// RFC 3168: a mark is not a loss.
TEST_P(FaultScenarioTest, MarkedPacketsAreDeliveredWithoutRetransmission) {
  Use("mark_congestion.json");
  Send(0);
  Post(SendOpcode::kRdmaRead, kMessageBytes);
  RunToTheEnd();
  EXPECT_EQ(requests_, Range(0, 8));
  EXPECT_EQ(marked_,
            client().counters().transmitted_packets + server().counters().transmitted_packets);
  for (const Link::Host* host : {&client(), &server()}) {
    const auto& dropped = host->counters().dropped;
    EXPECT_EQ(std::accumulate(dropped.begin(), dropped.end(), uint64_t{0}), 0u);
    EXPECT_EQ(host->counters().retransmitted_packets, 0u);
  }
  EXPECT_TRUE(Equal(server().memory, initial_client_memory_, 0, kMessageBytes));
  EXPECT_TRUE(Equal(client().memory, initial_server_memory_, kMessageBytes, 2 * kMessageBytes));
}

TEST_P(FaultScenarioTest, ACorruptedPacketIsALostPacket) {
  Use("corrupt_payload.json");
  Send(0);
  RunToTheEnd();
  EXPECT_EQ(requests_, Range(0, 7) + Range(2, 7));
  EXPECT_EQ(server().counters().drops(DropReason::kBadIcrc), 1u);
  EXPECT_EQ(server().counters().psn_naks_sent, 1u);
  EXPECT_TRUE(ArrivedAtServer(kMessageBytes));
}

TEST_P(FaultScenarioTest, ACorruptedAckIsALostAck) {
  Use("corrupt_ack.json");
  Post(SendOpcode::kRdmaWrite, 0);
  RunToTheEnd();
  EXPECT_EQ(requests_, Range(0, 7) + Offsets{0});
  EXPECT_EQ(client().counters().drops(DropReason::kBadIcrc), 1u);
  EXPECT_TRUE(ArrivedAtServer(kMessageBytes));
}

// The two first PSNs are equal modulo 32, so ACK requests fall on the same packets in both runs.
INSTANTIATE_TEST_SUITE_P(FirstPsn, FaultScenarioTest, testing::Values(1'017, 0xfffff9));

// Checks after all tests that they used every file.
class EveryFileIsUsed : public testing::Environment {
  void TearDown() override {
    std::set<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
      files.insert(entry.path().filename());
    }
    if (testing::GTEST_FLAG(filter) == "*") {
      EXPECT_EQ(files, UsedFiles());
    }
  }
};
const auto* const kEveryFileIsUsed = testing::AddGlobalTestEnvironment(new EveryFileIsUsed);

}  // namespace
}  // namespace uroce::transport::simulation
