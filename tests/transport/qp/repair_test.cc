// A peer that keeps what arrives behind a gap gets the missing packet alone.

#include <gtest/gtest.h>

#include <vector>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

class RepairTest : public testing::Test {
 protected:
  // Posts `count` WRITEs of one packet and takes what is sent.
  void Post(int count) {
    for (int i = 0; i < count; ++i) script_.PostWrite(++posted_, 0, 8);
    for (const PacketSpec& packet : script_.TakeSent()) sent_.push_back(packet);
  }
  void LosePacket(uint32_t number) {
    script_.Inject(Nak(first_ + number, NakCode::kPsnSequenceError));
  }
  void Acknowledge(uint32_t number) { script_.Inject(Ack(first_ + number)); }
  void ExpectOnlySentAgain(uint32_t number) {
    script_.ExpectSent(sent_.at(number).AckRequest(true));
    script_.ExpectNothingSent();
  }
  void ExpectAllSentAgainFrom(uint32_t number) {
    for (; number < sent_.size(); ++number) script_.ExpectSent(sent_.at(number));
    script_.ExpectNothingSent();
  }
  // The peer acknowledges more than was sent again after a NAK. Six packets are sent then, and the
  // first four acknowledged.
  void ShowThatThePeerKeepsEarlyPackets() {
    Post(6);
    script_.HoldTransmit();
    LosePacket(1);
    script_.TransmitOne();
    Acknowledge(3);
    script_.ReleaseTransmit();
    script_.ExpectSent(sent_.at(1));
    script_.ExpectNothingSent();
    script_.TakeCompletions();
  }

  Script script_{{.peer_counts_credits = false}};
  const Psn first_ = script_.first_psn();
  std::vector<PacketSpec> sent_;
  uint64_t posted_ = 0;
};

TEST_F(RepairTest, ByTheBookAllIsSentAgain) {
  Post(4);
  LosePacket(1);
  script_.TakeCompletions();
  ExpectAllSentAgainFrom(1);
  Acknowledge(2);
  script_.TakeCompletions();
  LosePacket(3);
  ExpectAllSentAgainFrom(3);
}

TEST_F(RepairTest, MissingPacketGoesAloneAndSendingGoesOn) {
  ShowThatThePeerKeepsEarlyPackets();
  Post(3);
  LosePacket(5);
  ExpectOnlySentAgain(5);
  Post(1);
  EXPECT_EQ(sent_.back().psn, first_ + 9);
  EXPECT_EQ(script_.counters().retransmitted_packets, 2u);
  Acknowledge(9);
  EXPECT_EQ(script_.TakeCompletions().size(), 6u);
  script_.ExpectNoDeadline();
}

TEST_F(RepairTest, NakForThePacketBehindSaysThatNothingWasKept) {
  ShowThatThePeerKeepsEarlyPackets();
  Post(3);
  LosePacket(5);
  ExpectOnlySentAgain(5);
  LosePacket(6);
  ExpectAllSentAgainFrom(6);
  // Expect: from now on by the book.
  Acknowledge(7);
  LosePacket(8);
  ExpectAllSentAgainFrom(8);
  script_.TakeCompletions();
}

TEST_F(RepairTest, ReadIsAskedForAgainByTheBook) {
  ShowThatThePeerKeepsEarlyPackets();
  script_.PostRead(++posted_, 0, 8);
  for (const PacketSpec& packet : script_.TakeSent()) sent_.push_back(packet);
  Post(1);
  LosePacket(6);
  ExpectAllSentAgainFrom(6);
  script_.TakeCompletions();
}

TEST_F(RepairTest, PacketThatComesAfterAllIsNotSentAgain) {
  ShowThatThePeerKeepsEarlyPackets();
  Post(3);
  script_.HoldTransmit();
  LosePacket(5);
  Acknowledge(8);
  script_.ReleaseTransmit();
  script_.ExpectNothingSent();
  script_.TakeCompletions();
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
