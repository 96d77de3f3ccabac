// SQD of UC and UD: a started message is finished, and finished means sent (IBA 10.3.1.5).

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

using Mask = QpAttributeMask;

constexpr uint32_t kPart = 256;
constexpr QpState kSqd = QpState::kSendQueueDrain;

Status DrainWithNotice(Script& script) {
  QpAttributes attributes;
  attributes.state = kSqd;
  attributes.enable_sqd_notify = true;
  return script.qp().Modify(attributes, Mask::kState | Mask::kEnableSqdNotify);
}

TEST(UcDrainTest, TheMessageThatWasBegunIsFinished) {
  Script script({.type = QpType::kUnreliableConnection});
  const Psn first = script.first_psn();
  script.HoldTransmit();
  script.PostWrite(1, 0, 3 * kPart);
  script.PostWrite(2, 0, 8);
  script.TransmitOne();
  EXPECT_EQ(DrainWithNotice(script), Status::kOk);
  EXPECT_TRUE(script.qp().Query().sq_draining);
  script.ExpectNoEvent();
  script.ReleaseTransmit();
  EXPECT_EQ(script.TakeSent().size(), 3u);
  script.ExpectCompletion(1);
  script.ExpectNoCompletion();
  EXPECT_FALSE(script.qp().Query().sq_draining);
  script.ExpectEvent(EventType::kSendQueueDrained);
  script.ExpectNoEvent();

  EXPECT_EQ(script.MoveTo(QpState::kReadyToSend), Status::kOk);
  EXPECT_EQ(
      script
          .ExpectSent(Write(Position::kOnly, first + 3, Script::kPeerAddress, Script::kPeerRkey, 8)
                          .With(script.Bytes(0, 8)))
          .psn,
      first + 3);
  script.ExpectCompletion(2);
}

TEST(UdDrainTest, ADatagramIsNeverInTheMiddle) {
  Script script({.type = QpType::kUnreliableDatagram});
  script.HoldTransmit();
  script.PostSend(1, 0, 8);
  script.PostSend(2, 0, 8);
  script.TransmitOne();
  script.ExpectCompletion(1);
  EXPECT_EQ(DrainWithNotice(script), Status::kOk);
  script.ExpectEvent(EventType::kSendQueueDrained);
  script.ReleaseTransmit();
  EXPECT_EQ(script.TakeSent().size(), 1u);
  script.ExpectNothingSent();
  EXPECT_EQ(script.MoveTo(QpState::kReadyToSend), Status::kOk);
  EXPECT_EQ(script.TakeSent().size(), 1u);
  script.ExpectCompletion(2);
}

TEST(UcDrainTest, TheReceiveSideLivesOnWithTheAccessOfNow) {
  Script script({.type = QpType::kUnreliableConnection, .state = kSqd});
  const PacketSpec write =
      Write(Position::kOnly, script.peers_first_psn(), Script::Address(0), script.rkey(), 1);
  EXPECT_EQ(script.Inject(write.With("a")), DropReason::kNone);
  QpAttributes attributes;
  attributes.access = AccessFlags();
  EXPECT_EQ(script.qp().Modify(attributes, Mask::kAccessFlags), Status::kOk);
  script.ExpectDropped(DropReason::kRefused, write.With("b"));
  EXPECT_EQ(*script.memory(), 'a');
}

TEST(UdDrainTest, TheReceiveSideLivesOnWithTheQkeyOfNow) {
  Script script({.type = QpType::kUnreliableDatagram, .state = kSqd});
  script.PostReceive(1, 0, 64);
  QpAttributes attributes;
  attributes.qkey = 5;
  EXPECT_EQ(script.qp().Modify(attributes, Mask::kQkey), Status::kOk);
  PacketSpec datagram = Send(Position::kOnly, Psn());
  script.ExpectDropped(DropReason::kBadQkey, datagram);
  datagram.deth.qkey = 5;
  EXPECT_EQ(script.Inject(datagram), DropReason::kNone);
  script.ExpectCompletion(1);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
