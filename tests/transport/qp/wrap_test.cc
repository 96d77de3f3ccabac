// PSNs that wrap around to 0: every role of every service, with every loss in the middle
// (IBA 9.7.1). msn_wrap_test.cc does the same for the MSN.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint32_t kPart = 256;
constexpr uint32_t kParts = 6;

// The distance of the first PSN from 0: none, all, or some packets of a message are after the wrap.
class WrapTest : public testing::TestWithParam<uint32_t> {
 protected:
  Script::Options Options(QpType type = QpType::kReliableConnection) const {
    return {.type = type,
            .first_psn = Psn() - GetParam(),
            .peers_first_psn = Psn() - GetParam(),
            .timeout = 8};
  }
  static Position PositionOf(uint32_t part) {
    if (part == 0) return Position::kFirst;
    return part + 1 == kParts ? Position::kLast : Position::kMiddle;
  }
};

TEST_P(WrapTest, RequesterResendsFromEachNakedPsn) {
  Script script(Options());
  std::ranges::copy(Pattern(kParts * kPart), script.memory());
  const Psn first = script.first_psn();
  script.PostSend(1, 0, kParts * kPart);
  const auto sent = script.TakeSent();
  ASSERT_EQ(sent.size(), kParts);
  for (uint32_t lost = 0; lost < kParts; ++lost) {
    EXPECT_EQ(sent[lost].psn, first + lost);
    script.Inject(Nak(first + lost, NakCode::kPsnSequenceError));
    for (uint32_t i = lost; i < kParts; ++i) script.ExpectSent(sent[i]);
  }
  script.Inject(Ack(first + kParts - 1));
  script.ExpectCompletion(1);
}

TEST_P(WrapTest, RequesterResendsAfterTimeoutAndRnrNak) {
  Script script(Options());
  const Psn first = script.first_psn();
  script.PostWrite(1, 0, kParts * kPart);
  const auto sent = script.TakeSent();
  script.Inject(Ack(first + 2));
  script.Advance(Duration{int64_t{4'096} << 8});
  EXPECT_EQ(script.TakeSent().at(0).psn, first + 3);
  script.Inject(RnrNak(first + 4, 1));
  script.Advance(Microseconds(10));
  for (uint32_t i = 4; i < kParts; ++i) script.ExpectSent(sent[i]);
  script.Inject(Ack(first + kParts - 1));
  script.ExpectCompletion(1);
}

TEST_P(WrapTest, ARequesterThatLosesPartsOfARead) {
  for (uint32_t lost = 0; lost + 1 < kParts; ++lost) {
    Script script(Options());
    const Psn first = script.first_psn();
    script.PostRead(1, 0, kParts * kPart);
    script.TakeSent();
    const auto inject = [&](Position position, uint32_t part) {
      script.Inject(
          ReadResponse(position, first + part).With(Pattern(kPart, static_cast<uint8_t>(part))));
    };
    for (uint32_t i = 0; i < kParts; ++i) {
      if (i != lost) inject(PositionOf(i), i);
    }
    script.ExpectSent(Read(first + lost, Script::kPeerAddress + lost * kPart, Script::kPeerRkey,
                           (kParts - lost) * kPart));
    for (uint32_t i = lost; i < kParts; ++i) {
      inject(i == lost ? Position::kFirst : PositionOf(i), i);
    }
    script.ExpectCompletion(1);
    for (uint32_t i = 0; i < kParts; ++i) {
      EXPECT_EQ(script.Bytes(i * kPart, kPart), Pattern(kPart, static_cast<uint8_t>(i)));
    }
  }
}

TEST_P(WrapTest, ARequesterOfAtomics) {
  Script script(Options());
  const Psn first = script.first_psn();
  for (uint32_t i = 0; i < 4; ++i) script.PostFetchAdd(i, 8 * i, 1);
  const auto sent = script.TakeSent();
  script.ExpectDropped(DropReason::kOutOfOrderResponse, AtomicAck(first + 2, 7));
  for (const PacketSpec& packet : sent) script.ExpectSent(packet);
  for (uint32_t i = 0; i < 4; ++i) {
    script.Inject(AtomicAck(first + i, 50 + i));
    script.ExpectCompletion(i);
    EXPECT_EQ(script.Word(8 * i), 50u + i);
  }
}

TEST_P(WrapTest, AResponderThatMissesEachPacketOnce) {
  Script script(Options());
  const Psn first = script.peers_first_psn();
  script.PostReceive(1, 0, kParts * kPart);
  for (uint32_t i = 0; i < kParts; ++i) {
    const PacketSpec packet =
        Send(PositionOf(i), first + i).With(Pattern(kPart, static_cast<uint8_t>(i)));
    script.ExpectDropped(DropReason::kSequenceGap, Send(Position::kOnly, first + i + 1));
    script.ExpectSent(Nak(first + i, NakCode::kPsnSequenceError).Msn(0));
    EXPECT_EQ(script.Inject(packet.AckRequest(false)), DropReason::kNone);
    script.ExpectDropped(DropReason::kDuplicateRequest, packet);
    script.ExpectSent(Ack(first + i).Msn(i + 1 == kParts ? 1 : 0));
  }
  script.ExpectCompletion(1);
  for (uint32_t i = 0; i < kParts; ++i) {
    EXPECT_EQ(script.Bytes(i * kPart, kPart), Pattern(kPart, static_cast<uint8_t>(i)));
  }
}

TEST_P(WrapTest, AResponderThatIsAskedForEachPartOfAReadAgain) {
  Script script(Options());
  std::ranges::copy(Pattern(kParts * kPart), script.memory());
  const Psn first = script.peers_first_psn();
  script.Inject(Read(first, Script::Address(0), script.rkey(), kParts * kPart));
  for (uint32_t i = 0; i < kParts; ++i) {
    script.ExpectSent(ReadResponse(PositionOf(i), first + i).With(script.Bytes(i * kPart, kPart)));
  }
  for (uint32_t i = 0; i < kParts; ++i) {
    script.ExpectDropped(DropReason::kDuplicateRequest,
                         Read(first + i, Script::Address(i * kPart), script.rkey(), kPart));
    script.ExpectSent(
        ReadResponse(Position::kOnly, first + i).With(script.Bytes(i * kPart, kPart)));
  }
  script.Inject(Read(first + kParts, Script::Address(0), script.rkey(), 1));
  script.ExpectSent(ReadResponse(Position::kOnly, first + kParts).With(script.Bytes(0, 1)).Msn(2));
}

TEST_P(WrapTest, AResponderOfAtomics) {
  Script script(Options());
  const Psn first = script.peers_first_psn();
  for (uint32_t i = 0; i < 8; ++i) {
    const PacketSpec add = FetchAdd(first + i, Script::Address(0), script.rkey(), 1);
    script.Inject(add);
    script.ExpectSent(AtomicAck(first + i, i));
    script.ExpectDropped(DropReason::kDuplicateRequest, add);
    script.ExpectSent(AtomicAck(first + i, i));
  }
  // The responder remembers four atomics.
  script.ExpectDropped(DropReason::kDuplicateNotHeld,
                       FetchAdd(first + 3, Script::Address(0), script.rkey(), 1));
  EXPECT_EQ(script.Word(0), 8u);
}

TEST_P(WrapTest, UnreliableMessages) {
  Script script(Options(QpType::kUnreliableConnection));
  const Psn first = script.peers_first_psn();
  script.PostReceive(1, 0, kParts * kPart);
  for (uint32_t i = 0; i < kParts; ++i) {
    EXPECT_EQ(script.Inject(Send(PositionOf(i), first + i).With(Pattern(kPart))),
              DropReason::kNone);
  }
  EXPECT_EQ(script.ExpectCompletion(1).byte_length, kParts * kPart);
  script.PostSend(2, 0, kParts * kPart);
  const auto sent = script.TakeSent();
  ASSERT_EQ(sent.size(), kParts);
  for (uint32_t i = 0; i < kParts; ++i) EXPECT_EQ(sent[i].psn, first + i);
  script.ExpectCompletion(2);
}

TEST_P(WrapTest, Datagrams) {
  Script script(Options(QpType::kUnreliableDatagram));
  for (uint32_t i = 0; i < kParts; ++i) {
    script.PostSend(i, 0, 0);
    script.ExpectSent(Send(Position::kOnly, script.first_psn() + i));
    script.ExpectCompletion(i);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryPlace, WrapTest, testing::Range(0u, kParts + 1));

}  // namespace
}  // namespace uroce::transport::packet_scripts
