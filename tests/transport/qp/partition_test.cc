// Partitions: which P_Key packets carry, and which packets are accepted.

#include <gtest/gtest.h>

#include <initializer_list>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint16_t kFull = 0x8012;
constexpr uint16_t kLimited = 0x0012;
constexpr uint16_t kOther = 0x8034;
constexpr uint16_t kForeign = 0x8056;

// IBA 10.9.3.
TEST(PkeyTest, MatchIfOneIsAFullMember) {
  static_assert(PkeysMatch(kFull, kFull));
  static_assert(PkeysMatch(kFull, kLimited));
  static_assert(PkeysMatch(kLimited, kFull));
  static_assert(!PkeysMatch(kLimited, kLimited));
  static_assert(!PkeysMatch(kFull, kOther));
  static_assert(PkeysMatch(kDefaultPkey, 0x7fff));
  static_assert(!PkeysMatch(0x7fff, 0x7fff));
}

class PartitionTest : public testing::TestWithParam<QpType> {
 protected:
  Script::Options In(uint16_t pkey) {
    return {.type = GetParam(), .pkeys = {kDefaultPkey, pkey, kOther}, .pkey_index = 1};
  }
  // A packet that needs no receive request.
  PacketSpec FromPeer(const Script& script) {
    return Write(Position::kOnly, script.peers_first_psn(), Script::Address(0), script.rkey(), 4)
        .With("data");
  }
};

// IBA C9-43.
TEST_P(PartitionTest, PacketsCarryThePkeyOfTheQueuePair) {
  Script script(In(kLimited));
  script.PostSend(1, 0, 4);
  EXPECT_EQ(
      script.ExpectSent(Send(Position::kOnly, script.first_psn()).With(script.Bytes(0, 4))).pkey,
      kLimited);
  if (GetParam() == QpType::kReliableConnection) {
    script.Inject(Ack(script.first_psn()).Pkey(kFull));
    script.Inject(FromPeer(script).Pkey(kFull));
    EXPECT_EQ(script.ExpectSent(Ack(script.peers_first_psn())).pkey, kLimited);
  }
  script.ExpectCompletion(1);
}

TEST_P(PartitionTest, PacketsOfAnotherPartitionAreDropped) {
  Script script(In(kFull));
  script.PostReceive(1, 0, 64);
  const PacketSpec send =
      Send(Position::kOnly, script.peers_first_psn()).With("data").AckRequest(false);
  for (const uint16_t pkey : {kDefaultPkey, kOther, kForeign}) {
    script.ExpectDropped(DropReason::kBadPkey, send.Pkey(pkey));
  }
  EXPECT_EQ(script.Inject(send.Pkey(kLimited)), DropReason::kNone);
  script.ExpectCompletion(1);
}

TEST_P(PartitionTest, LimitedMembersDoNotHearEachOther) {
  Script script(In(kLimited));
  script.PostReceive(1, 0, 64);
  const PacketSpec send =
      Send(Position::kOnly, script.peers_first_psn()).With("data").AckRequest(false);
  script.ExpectDropped(DropReason::kBadPkey, send.Pkey(kLimited));
  EXPECT_EQ(script.Inject(send.Pkey(kFull)), DropReason::kNone);
  script.ExpectCompletion(1);
}

INSTANTIATE_TEST_SUITE_P(Services, PartitionTest,
                         testing::Values(QpType::kReliableConnection, QpType::kUnreliableConnection,
                                         QpType::kUnreliableDatagram));

TEST(PartitionsTest, IndexIsOneOfTheTable) {
  Script script({.state = QpState::kInit, .pkeys = {kDefaultPkey, kFull}});
  QpAttributes a;
  for (const uint16_t index : std::initializer_list<uint16_t>{0, 1, 2}) {
    a.pkey_index = index;
    EXPECT_EQ(script.qp().Modify(a, QpAttributeMask::kPkeyIndex),
              index < 2 ? Status::kOk : Status::kInvalidArgument);
  }
  EXPECT_EQ(script.qp().Query().pkey_index, 1);
}

// In SQD, after which the next packet must have the new P_Key.
TEST(PartitionsTest, PartitionOfAConnectionChanges) {
  Script script({.pkeys = {kDefaultPkey, kFull}});
  script.PostSend(1, 0, 4);
  EXPECT_EQ(script.TakeSent().back().pkey, kDefaultPkey);
  script.Inject(Ack(script.first_psn()));
  script.ExpectCompletion(1);
  ASSERT_EQ(script.MoveTo(QpState::kSendQueueDrain), Status::kOk);
  QpAttributes a;
  a.pkey_index = 1;
  ASSERT_EQ(script.qp().Modify(a, QpAttributeMask::kPkeyIndex), Status::kOk);
  ASSERT_EQ(script.MoveTo(QpState::kReadyToSend), Status::kOk);
  script.PostSend(2, 0, 4);
  EXPECT_EQ(script.TakeSent().back().pkey, kFull);
  script.ExpectDropped(DropReason::kBadPkey, Ack(script.first_psn() + 1));
  script.Inject(Ack(script.first_psn() + 1).Pkey(kFull));
  script.ExpectCompletion(2);
}

// The alternate path may be in another partition.
TEST(PartitionsTest, MigrationTakesThePartitionOfTheAlternatePath) {
  using M = QpAttributeMask;
  Script script({.pkeys = {kDefaultPkey, kFull}});
  QpAttributes a;
  a.migration_state = MigrationState::kRearm;
  a.alternate_address = {.destination_gid = Script::kPeerOtherGid,
                         .source_gid_index = Script::kOurOtherGidIndex};
  a.alternate_port_num = 1;
  a.alternate_pkey_index = 1;
  ASSERT_EQ(script.qp().Modify(a, M::kMigrationState | M::kAlternatePath), Status::kOk);
  const PacketSpec write =
      Write(Position::kOnly, script.peers_first_psn(), Script::Address(0), script.rkey(), 4)
          .With("data");
  const auto frame = [&](const PacketSpec& spec) {
    return script.Frame(spec, Script::kPeerOtherGid, Script::kOurOtherGid);
  };
  script.ExpectFrameDropped(DropReason::kBadPkey, frame(write));
  EXPECT_EQ(script.qp().Query().migration_state, MigrationState::kRearm);
  EXPECT_EQ(script.InjectFrame(frame(write.Pkey(kFull))), DropReason::kNone);
  EXPECT_EQ(script.ExpectSent(Ack(script.peers_first_psn())).pkey, kFull);
  EXPECT_EQ(script.qp().Query().pkey_index, 1);
  script.ExpectEvent(EventType::kPathMigrated);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
