// Proves that the flow monitor can fail: breaks each rule once, next to a case that the rule
// allows.

#include "tests/simulation/flow_monitor.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/simulation/link.h"
#include "tests/simulation/wire_monitor.h"
#include "transport/endpoint.h"

namespace uroce::transport::simulation {
namespace {

constexpr uint32_t kMtuBytes = 256;
constexpr uint8_t kMaxReadAtomic = 2;
// The sixth packet is the first after the wrap.
constexpr Psn kFirstPsn{0xff'fffb};
// "No credit information."
constexpr Syndrome kAck = Syndrome::Ack(Syndrome::kNoCreditInformation);

// An offset names a packet: its distance from the first packet.
class FlowMonitorTest : public testing::Test {
 protected:
  FlowMonitorTest() { Watch(QpType::kReliableConnection); }

  void Watch(QpType type) {
    endpoint_.emplace(EndpointConfig{});
    cq_ = endpoint_->CreateCompletionQueue(16, nullptr);
    QpInitAttributes init;
    init.type = type;
    init.send_cq = init.receive_cq = cq_.get();
    init.capabilities = {.max_send_wr = 1, .max_receive_wr = 1};
    ASSERT_EQ(endpoint_->CreateQueuePair(init, &qp_), Status::kOk);
    flow_.emplace(verdict_,
                  FlowEnd{.qp = qp_,
                          .first_psn = kFirstPsn,
                          .mtu_bytes = kMtuBytes,
                          .max_read_atomic = kMaxReadAtomic,
                          .retry_count = 7,
                          .rnr_retry = 7,
                          .sources_are_stable = true},
                  qp_);
  }

  static Packet At(int offset) {
    Packet packet;
    packet.psn = kFirstPsn + static_cast<uint32_t>(offset);
    return packet;
  }
  // Packets of WRITEs, which take no receive request.
  void Write(int offset, Position position = Position::kOnly, uint8_t payload = 0) {
    payload_ = std::vector<uint8_t>(64, payload);
    Packet packet = At(offset);
    packet.opcode.operation = Operation::kWrite;
    packet.opcode.position = position;
    packet.payload = payload_;
    flow_->OnRequestSent(packet);
  }
  void Writes(int first, int last) {
    for (int offset = first; offset <= last; ++offset) Write(offset);
  }
  void Send(int offset, Position position = Position::kOnly) {
    Packet packet = At(offset);
    packet.opcode.position = position;
    flow_->OnRequestSent(packet);
  }
  void Read(int offset, uint32_t bytes, uint64_t address = 0x1000) {
    Packet packet = At(offset);
    packet.opcode.operation = Operation::kReadRequest;
    packet.reth = {address, {7}, bytes};
    flow_->OnRequestSent(packet);
  }
  // Everything sent has arrived.
  void Arrive(int first, int last) {
    for (int offset = first; offset <= last; ++offset) {
      Packet packet = At(offset);
      packet.opcode.operation = Operation::kWrite;
      flow_->OnRequestDelivered(packet);
    }
  }
  Packet Acknowledge(int offset, uint32_t msn, Syndrome syndrome = kAck) {
    Packet packet = At(offset);
    packet.opcode.operation = Operation::kAcknowledge;
    packet.aeth = {syndrome, msn};
    return packet;
  }
  void Acknowledged(int offset, uint32_t msn, Syndrome syndrome = kAck) {
    flow_->OnResponseDelivered(Acknowledge(offset, msn, syndrome));
  }
  void ReadResponded(int first, int last) {
    for (int offset = first; offset <= last; ++offset) {
      Packet packet = At(offset);
      packet.opcode.operation = Operation::kReadResponse;
      packet.opcode.position = Position::kMiddle;
      flow_->OnResponseDelivered(packet);
    }
  }

  void ExpectRight() { EXPECT_FALSE(verdict_.failed()) << verdict_.reason(); }
  void ExpectWrong(const std::string& reason) {
    EXPECT_NE(verdict_.reason().find(reason), std::string::npos) << verdict_.reason();
  }

  Verdict verdict_;
  std::optional<Endpoint> endpoint_;
  std::unique_ptr<CompletionQueue> cq_;
  QueuePair* qp_ = nullptr;
  std::optional<FlowMonitor> flow_;
  std::vector<uint8_t> payload_;
};

constexpr Syndrome kGapNak = Syndrome::Nak(NakCode::kPsnSequenceError);

TEST_F(FlowMonitorTest, GoingBackToTheOldestPacketNotAcknowledgedIsRight) {
  Writes(0, 9);
  Acknowledged(4, 4, kGapNak);
  Writes(4, 12);
  Acknowledged(7, 8);
  Writes(13, 13);
  Writes(8, 8);  // a timeout
  Acknowledged(13, 14);
  Writes(14, 14);
  ExpectRight();
  EXPECT_EQ(flow_->requesters_tally().retransmitted, 7u);
  EXPECT_EQ(flow_->requesters_tally().go_backs, 2u);
}

TEST_F(FlowMonitorTest, GoingBackTooFarIsNoticed) {
  Writes(0, 9);
  Acknowledged(4, 4, kGapNak);
  Writes(3, 3);
  ExpectWrong("sends again what was acknowledged");
}

TEST_F(FlowMonitorTest, GoingBackNotFarEnoughIsNoticed) {
  Writes(0, 9);
  Acknowledged(4, 4, kGapNak);
  Writes(5, 5);
  ExpectWrong("1 packets after the oldest one");
}

TEST_F(FlowMonitorTest, LeavingOutAPacketIsNoticed) {
  Writes(0, 5);
  Writes(7, 7);
  ExpectWrong("leaves out PSNs");
}

TEST_F(FlowMonitorTest, GoingOnWhenThePeerHasMoreIsRight) {
  Writes(0, 9);
  Writes(0, 0);  // a probe
  Acknowledged(4, 4);
  Writes(10, 10);
  ExpectRight();
}

TEST_F(FlowMonitorTest, GoingOnInTheMiddleIsNoticed) {
  Writes(0, 9);
  Writes(0, 0);
  Acknowledged(4, 4);
  Writes(7, 7);
  ExpectWrong("leaves out PSNs");
}

TEST_F(FlowMonitorTest, LeavingOutAPacketWhileGoingBackIsNoticed) {
  Writes(0, 9);
  Writes(0, 1);
  Writes(3, 3);
  ExpectWrong("leaves out PSNs");
}

TEST_F(FlowMonitorTest, AnotherPayloadUnderTheSamePsnIsNoticed) {
  Writes(0, 2);
  Write(0, Position::kOnly, 1);
  ExpectWrong("is not the same packet");
}

TEST_F(FlowMonitorTest, AnotherOpcodeUnderTheSamePsnIsNoticed) {
  Writes(0, 2);
  Write(0, Position::kFirst);
  ExpectWrong("is not the same packet");
}

TEST_F(FlowMonitorTest, AReadGoesOnWhereItsResponsesStopped) {
  Read(0, 8 * kMtuBytes);
  ReadResponded(0, 5);
  Read(6, 2 * kMtuBytes, 0x1000 + 6 * kMtuBytes);
  ReadResponded(6, 7);
  Writes(8, 8);
  ExpectRight();
}

TEST_F(FlowMonitorTest, AReadThatStartsFromItsBeginningIsNoticed) {
  Read(0, 8 * kMtuBytes);
  ReadResponded(0, 5);
  Read(0, 8 * kMtuBytes);
  ExpectWrong("sends again what was acknowledged");
}

TEST_F(FlowMonitorTest, AReadThatGoesOnBehindTheLostResponseIsNoticed) {
  Read(0, 8 * kMtuBytes);
  ReadResponded(0, 5);
  ReadResponded(7, 7);
  Read(7, kMtuBytes, 0x1000 + 7 * kMtuBytes);
  ExpectWrong("goes back to");
}

TEST_F(FlowMonitorTest, AReadThatGoesOnElsewhereInMemoryIsNoticed) {
  Read(0, 8 * kMtuBytes);
  ReadResponded(0, 5);
  Read(6, 2 * kMtuBytes, 0x1000);
  ExpectWrong("at other memory");
}

// An ACK after a READ does not replace its responses.
TEST_F(FlowMonitorTest, AckBehindALostResponseCoversOnlyRequestsBeforeTheRead) {
  Writes(0, 0);
  Read(1, kMtuBytes);
  Writes(2, 2);
  Acknowledged(2, 3);
  Read(1, kMtuBytes);
  Writes(2, 2);
  ExpectRight();
  EXPECT_EQ(flow_->requesters_tally().gaps_in_responses, 1u);
  Writes(0, 0);
  ExpectWrong("sends again what was acknowledged");
}

TEST_F(FlowMonitorTest, TooManyReadsAreNoticed) {
  Read(0, kMtuBytes);
  Read(1, kMtuBytes);
  ExpectRight();
  Read(2, kMtuBytes);
  ExpectWrong("3 READs and atomics outstanding");
}

TEST_F(FlowMonitorTest, TheMsnOfAnAckIsTheNumberOfMessagesItCovers) {
  Writes(0, 3);
  Write(4, Position::kFirst);
  Write(5, Position::kLast);
  Arrive(0, 5);
  flow_->OnResponseSent(Acknowledge(3, 4));
  flow_->OnResponseSent(Acknowledge(4, 4));
  flow_->OnResponseSent(Acknowledge(5, 5));
  ExpectRight();
  flow_->OnResponseSent(Acknowledge(5, 4));
  ExpectWrong("counts 4 messages instead of 5");
}

// 24 bits: after 2^24 messages the numbers start at 0 again, and PSNs have wrapped too.
TEST_F(FlowMonitorTest, MsnsWrapAround) {
  constexpr int kMessages = (1 << 24) + 2;
  for (int offset = 0; offset < kMessages; ++offset) {
    Packet packet = At(offset);
    packet.opcode.operation = Operation::kWrite;
    flow_->OnRequestSent(packet);
    flow_->OnRequestDelivered(packet);
    if (offset % 64 != 63 && offset + 1 != kMessages) continue;
    const uint32_t msn = (static_cast<uint32_t>(offset) + 1) & 0xff'ffff;
    flow_->OnResponseSent(Acknowledge(offset, msn));
    Acknowledged(offset, msn);
  }
  ExpectRight();
  flow_->OnResponseSent(Acknowledge(kMessages - 1, 3));
  ExpectWrong("counts 3 messages instead of 2");
}

TEST_F(FlowMonitorTest, ResponseToARequestThatNeverArrivedIsNoticed) {
  Writes(0, 3);
  Arrive(0, 1);
  flow_->OnResponseSent(Acknowledge(1, 2));
  ExpectRight();
  flow_->OnResponseSent(Acknowledge(2, 3));
  ExpectWrong("never reached it");
}

TEST_F(FlowMonitorTest, ASecondNakForTheSameGapIsNoticed) {
  Writes(0, 3);
  flow_->OnResponseSent(Acknowledge(0, 0, kGapNak));
  Writes(0, 3);
  Arrive(0, 0);
  flow_->OnResponseSent(Acknowledge(1, 1, kGapNak));
  ExpectRight();
  flow_->OnResponseSent(Acknowledge(1, 1, kGapNak));
  ExpectWrong("twice");
}

// IBA 9.7.7.2. Codes 1 and 5 are one credit and six.
TEST_F(FlowMonitorTest, WithoutCreditOneSendAloneMayAsk) {
  Send(0);
  Acknowledged(0, 1, Syndrome::Ack(1));
  Send(1);
  Acknowledged(1, 2, Syndrome::Ack(0));
  Send(2, Position::kFirst);
  Acknowledged(2, 2, Syndrome::Ack(5));
  Send(3, Position::kLast);
  for (int offset = 4; offset < 9; ++offset) Send(offset);
  ExpectRight();
  Send(9);
  ExpectWrong("takes 9 receive requests with credit for 8");
}

TEST_F(FlowMonitorTest, PacketBehindAnUnansweredLimitedRequestIsNoticed) {
  Send(0, Position::kFirst);
  ExpectRight();
  Send(1, Position::kLast);
  ExpectWrong("goes on before its limited request is answered");
}

TEST_F(FlowMonitorTest, RequestsThatTakeNoReceiveRequestNeedNoCredit) {
  Writes(0, 5);
  Acknowledged(5, 6, Syndrome::Ack(1));
  Writes(6, 9);
  Send(10);
  ExpectRight();
  Send(11);
  ExpectWrong("takes 2 receive requests with credit for 1");
}

TEST_F(FlowMonitorTest, AnUnreliableConnectionNeverGoesBack) {
  Watch(QpType::kUnreliableConnection);
  Writes(0, 3);
  ExpectRight();
  Writes(3, 3);
  ExpectWrong("sends again");
}

TEST_F(FlowMonitorTest, AnUnreliableConnectionNeverResponds) {
  Watch(QpType::kUnreliableConnection);
  Writes(0, 0);
  Arrive(0, 0);
  flow_->OnResponseSent(Acknowledge(0, 1));
  ExpectWrong("is not reliable");
}

// Counters are compared with the frames seen: here the monitor misses one.
TEST(WireMonitorTest, CountersThatDifferFromTheFramesSeenAreNoticed) {
  for (const bool blind : {false, true}) {
    Verdict verdict;
    WireMonitor monitor(verdict, /*strict=*/true);
    bool skip = blind;
    Link link(LinkOptions(),
              {.sent =
                   [&](const Link::Host& from, std::span<const uint8_t> frame) {
                     if (from.index == 0 || !std::exchange(skip, false)) monitor.OnSent(frame);
                   },
               .delivered = [&](const Link::Host&,
                                std::span<const uint8_t> frame) { monitor.OnDelivered(frame); },
               .impaired = {},
               .activity = {}});
    const auto end = [](const Link::Host& host) {
      return FlowEnd{.qp = host.qp,
                     .first_psn = LinkOptions().first_psn,
                     .mtu_bytes = kMtuBytes,
                     .max_read_atomic = 16};
    };
    monitor.AddConnection(end(link.client()), end(link.server()));
    ASSERT_EQ(link.Post(SendOpcode::kRdmaWrite, 0, 4'096), Status::kOk);
    link.UpdateAfterEvent(link.client());
    while (link.RunOne()) {
    }
    monitor.CheckCounters(*link.client().endpoint);
    EXPECT_FALSE(verdict.failed()) << verdict.reason();
    monitor.CheckCounters(*link.server().endpoint);
    EXPECT_EQ(verdict.failed(), blind) << verdict.reason();
  }
}

}  // namespace
}  // namespace uroce::transport::simulation
