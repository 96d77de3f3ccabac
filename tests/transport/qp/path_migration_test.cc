// Automatic path migration: two ends arm each other, and then either of them moves both to the
// alternate path.

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"
#include "transport/wire/frame_parser.h"

namespace uroce::transport::packet_scripts {
namespace {

using M = QpAttributeMask;

constexpr uint8_t kTimeout = 8;
constexpr uint8_t kAlternateTimeout = 9;
constexpr Duration kAckTimeout{int64_t{4'096} << kTimeout};
constexpr Duration kAlternateAckTimeout{int64_t{4'096} << kAlternateTimeout};
constexpr uint8_t kRetries = 2;

class PathMigrationTest : public testing::Test {
 protected:
  explicit PathMigrationTest(QpType type = QpType::kReliableConnection)
      : script_({.type = type, .timeout = kTimeout, .retry_count = kRetries}) {}
  ~PathMigrationTest() override {
    script_.ExpectNothingSent();
    script_.ExpectNoEvent();
  }

  static AddressVector OtherAddress() {
    return {.destination_gid = Script::kPeerOtherGid,
            .destination_mac = {2, 0, 0, 0, 1, 2},
            .source_gid_index = Script::kOurOtherGidIndex};
  }
  Status Modify(MigrationState state, bool loads_alternate = false) {
    QpAttributes a;
    a.migration_state = state;
    a.alternate_address = OtherAddress();
    a.alternate_port_num = 1;
    a.alternate_timeout = kAlternateTimeout;
    return script_.qp().Modify(a, M::kMigrationState | (loads_alternate ? M::kAlternatePath : 0));
  }
  void Rearm() { ASSERT_EQ(Modify(MigrationState::kRearm, true), Status::kOk); }
  // The peer sends a packet by the primary path which shows that it is rearmed.
  void Arm() {
    Rearm();
    ExpectTaken(FromPeer(false));
    ExpectMigration(MigrationState::kArmed);
  }

  // The next packet of the peer. On RC an accepted packet is acknowledged.
  PacketSpec FromPeer(bool migrated) const {
    return Write(Position::kOnly, peers_, Script::Address(0), script_.rkey(), 4)
        .With("data")
        .MigrationRequest(migrated);
  }
  void ExpectTaken(const PacketSpec& spec, bool by_alternate = false) {
    EXPECT_EQ(by_alternate ? InjectByAlternate(spec) : script_.Inject(spec), DropReason::kNone);
    ++peers_;
    if (is_reliable()) script_.ExpectSent(Ack(spec.psn));
  }
  DropReason InjectByAlternate(const PacketSpec& spec) {
    return script_.InjectFrame(script_.Frame(spec, Script::kPeerOtherGid, Script::kOurOtherGid));
  }
  void ExpectMigration(MigrationState state) {
    EXPECT_EQ(script_.qp().Query().migration_state, state);
  }
  // The last frame sent went by this path, with this MigReq.
  void ExpectLastBy(bool alternate, bool migration_request) {
    Packet packet;
    ASSERT_EQ(ParseFrame(script_.last_frame(), packet), DropReason::kNone);
    EXPECT_EQ(packet.flow.source, alternate ? Script::kOurOtherGid : Script::kOurGid);
    EXPECT_EQ(packet.flow.destination, alternate ? Script::kPeerOtherGid : Script::kPeerGid);
    EXPECT_EQ(packet.migration_request, migration_request);
  }
  void ExpectMigrated() {
    script_.ExpectEvent(EventType::kPathMigrated);
    ExpectMigration(MigrationState::kMigrated);
    const QpAttributes now = script_.qp().Query();
    EXPECT_EQ(now.address, OtherAddress());
    EXPECT_EQ(now.timeout, kAlternateTimeout);
  }
  // Request 1 is sent again kRetries times, after each timeout of the alternate path, then fails.
  void ExpectAllRetriesOfTheAlternatePath() {
    for (int retry = 0; retry < kRetries; ++retry) {
      script_.Advance(kAckTimeout);
      script_.ExpectNothingSent();
      script_.Advance(kAlternateAckTimeout - kAckTimeout);
      ExpectWrite(first_);
    }
    script_.ExpectNoCompletion();
    script_.Advance(kAlternateAckTimeout);
    script_.ExpectCompletion(1, CompletionStatus::kRetryExceeded);
  }
  // The primary path has used up a retry of the only request before the migration.
  template <class Cause>
  void ExpectAllRetriesAfter(Cause migrate) {
    Arm();
    PostWrite(1);
    ExpectWrite(first_);
    script_.Advance(kAckTimeout);
    ExpectWrite(first_);
    migrate();
    ExpectMigrated();
    ExpectAllRetriesOfTheAlternatePath();
  }
  void PostWrite(uint64_t wr_id) { script_.PostWrite(wr_id, 0, 4); }
  PacketSpec ExpectWrite(Psn psn) {
    return script_.ExpectSent(
        Write(Position::kOnly, psn, Script::kPeerAddress, Script::kPeerRkey, 4)
            .With(script_.Bytes(0, 4)));
  }
  bool is_reliable() { return script_.qp().init_attributes().type == QpType::kReliableConnection; }

  Script script_;
  Psn peers_ = script_.peers_first_psn();
  const Psn first_ = script_.first_psn();
};

class UcPathMigrationTest : public PathMigrationTest {
 protected:
  UcPathMigrationTest() : PathMigrationTest(QpType::kUnreliableConnection) {}
};

// IBA 17.2.8: in all packets, requests and responses.
TEST_F(PathMigrationTest, MigReqIsSetOnlyInMigratedState) {
  PostWrite(1);
  EXPECT_TRUE(ExpectWrite(first_).migration_request);
  Rearm();
  ExpectMigration(MigrationState::kRearm);
  PostWrite(2);
  EXPECT_FALSE(ExpectWrite(first_ + 1).migration_request);
  for (const bool migrated : {true, false}) {
    script_.Inject(FromPeer(migrated));
    EXPECT_FALSE(script_.ExpectSent(Ack(peers_)).migration_request);
    ++peers_;
  }
  ExpectMigration(MigrationState::kArmed);
  script_.Inject(Read(peers_, Script::Address(0), script_.rkey(), 4).MigrationRequest(false));
  EXPECT_FALSE(script_.ExpectSent(ReadResponse(Position::kOnly, peers_).With(script_.Bytes(0, 4)))
                   .migration_request);
  const Psn atomic = peers_ + 1;
  script_.Inject(FetchAdd(atomic, Script::Address(8), script_.rkey(), 0).MigrationRequest(false));
  EXPECT_FALSE(script_.ExpectSent(AtomicAck(atomic, script_.Word(8))).migration_request);
  script_.Inject(Ack(first_ + 1).MigrationRequest(false));
  script_.ExpectCompletion(1);
  script_.ExpectCompletion(2);
  ExpectLastBy(/*alternate=*/false, false);
}

TEST_F(PathMigrationTest, PeerThatIsNotRearmedDoesNotArm) {
  Rearm();
  ExpectTaken(FromPeer(true));
  ExpectMigration(MigrationState::kRearm);
}

TEST_F(PathMigrationTest, ResponseOfARearmedPeerArmsToo) {
  Rearm();
  PostWrite(1);
  ExpectWrite(first_);
  script_.Inject(Ack(first_).MigrationRequest(false));
  script_.ExpectCompletion(1);
  ExpectMigration(MigrationState::kArmed);
}

// IBA 11.6.3.1 PATH_MIG: in each of the three ways.
TEST_F(PathMigrationTest, MigratesByRequest) {
  Arm();
  ASSERT_EQ(Modify(MigrationState::kMigrated), Status::kOk);
  ExpectMigrated();
  PostWrite(1);
  ExpectWrite(first_);
  ExpectLastBy(/*alternate=*/true, true);
  InjectByAlternate(Ack(first_));
  script_.ExpectCompletion(1);
}

TEST_F(PathMigrationTest, MigratesWithThePeer) {
  Arm();
  PostWrite(1);
  ExpectWrite(first_);
  ExpectTaken(FromPeer(true), /*by_alternate=*/true);
  ExpectMigrated();
  ExpectLastBy(/*alternate=*/true, true);
  script_.Advance(kAlternateAckTimeout);
  ExpectWrite(first_);
  ExpectLastBy(/*alternate=*/true, true);
  InjectByAlternate(Ack(first_));
  script_.ExpectCompletion(1);
}

// Our packet has armed the peer. The peer's packet that would have armed us was lost with the path.
TEST_F(PathMigrationTest, FollowsFromRearm) {
  Rearm();
  ExpectTaken(FromPeer(true), /*by_alternate=*/true);
  ExpectMigrated();
}

// IBA 17.2.8: the queue pair migrates instead of failing, and has all retries again.
TEST_F(PathMigrationTest, MigratesWhenRetriesAreUsedUp) {
  Arm();
  PostWrite(1);
  ExpectWrite(first_);
  for (int retry = 0; retry < kRetries; ++retry) {
    script_.Advance(kAckTimeout);
    ExpectWrite(first_);
    ExpectLastBy(/*alternate=*/false, false);
  }
  script_.Advance(kAckTimeout);
  ExpectWrite(first_);
  ExpectLastBy(/*alternate=*/true, true);
  ExpectMigrated();
  ExpectAllRetriesOfTheAlternatePath();
  EXPECT_EQ(script_.counters().retries_exceeded, 1u);
}

TEST_F(PathMigrationTest, MigrationByRequestGivesAllRetriesBack) {
  ExpectAllRetriesAfter([&] { ASSERT_EQ(Modify(MigrationState::kMigrated), Status::kOk); });
}

TEST_F(PathMigrationTest, MigrationWithThePeerGivesAllRetriesBack) {
  ExpectAllRetriesAfter([&] { ExpectTaken(FromPeer(true), /*by_alternate=*/true); });
}

TEST_F(PathMigrationTest, DoesNotMigrateUnarmed) {
  Rearm();
  PostWrite(1);
  ExpectWrite(first_);
  script_.Advance(Duration{kAckTimeout.ns * (kRetries + 1)});
  EXPECT_EQ(script_.TakeSent().size(), size_t{kRetries});
  script_.ExpectCompletion(1, CompletionStatus::kRetryExceeded);
}

TEST_F(PathMigrationTest, SequenceNaksUseUpRetriesOfThePathToo) {
  Arm();
  PostWrite(1);
  ExpectWrite(first_);
  for (int nak = 0; nak <= kRetries; ++nak) {
    script_.Inject(Nak(first_, NakCode::kPsnSequenceError).MigrationRequest(false));
    ExpectWrite(first_);
  }
  ExpectMigrated();
  InjectByAlternate(Ack(first_));
  script_.ExpectCompletion(1);
}

TEST_F(PathMigrationTest, MigrationStateSelectsTheAcceptedPath) {
  EXPECT_EQ(InjectByAlternate(FromPeer(true)), DropReason::kForeignSource);
  Rearm();
  EXPECT_EQ(InjectByAlternate(FromPeer(false)), DropReason::kForeignSource);
  ExpectMigration(MigrationState::kRearm);
  ExpectTaken(FromPeer(false));
  EXPECT_EQ(InjectByAlternate(FromPeer(false)), DropReason::kForeignSource);
  ExpectMigration(MigrationState::kArmed);
  // A late packet, sent before the peer was rearmed.
  ExpectTaken(FromPeer(true));
  ExpectMigration(MigrationState::kArmed);
  ASSERT_EQ(Modify(MigrationState::kMigrated), Status::kOk);
  ExpectMigrated();
  EXPECT_EQ(script_.Inject(FromPeer(false)), DropReason::kForeignSource);
  ExpectTaken(FromPeer(true), /*by_alternate=*/true);
}

// IBA 11.6.3.2 PATH_MIG_ERR.
TEST_F(PathMigrationTest, MigrationToAnotherPathIsRefused) {
  const auto from_elsewhere = [&](bool migrated) {
    return script_.InjectFrame(
        script_.Frame(FromPeer(migrated), Script::kPeerOtherGid, Script::kOurGid));
  };
  Rearm();
  EXPECT_EQ(from_elsewhere(true), DropReason::kForeignSource);
  script_.ExpectNoEvent();
  ExpectTaken(FromPeer(false));
  EXPECT_EQ(from_elsewhere(false), DropReason::kForeignSource);
  script_.ExpectNoEvent();
  EXPECT_EQ(from_elsewhere(true), DropReason::kForeignSource);
  script_.ExpectEvent(EventType::kPathMigrationError);
  ExpectMigration(MigrationState::kArmed);
}

TEST_F(PathMigrationTest, InvalidMigrationRequestsAreRefused) {
  EXPECT_EQ(Modify(MigrationState::kRearm), Status::kInvalidArgument);  // no alternate path
  EXPECT_EQ(Modify(MigrationState::kArmed, true), Status::kInvalidArgument);
  EXPECT_EQ(Modify(MigrationState::kMigrated, true), Status::kOk);
  script_.ExpectNoEvent();
  EXPECT_EQ(Modify(MigrationState::kRearm), Status::kOk);
  EXPECT_EQ(Modify(MigrationState::kMigrated), Status::kInvalidArgument);
  EXPECT_EQ(Modify(MigrationState::kArmed), Status::kInvalidArgument);
  EXPECT_EQ(Modify(MigrationState::kRearm), Status::kOk);
  ExpectTaken(FromPeer(false));
  ExpectMigration(MigrationState::kArmed);
  EXPECT_EQ(Modify(MigrationState::kRearm), Status::kInvalidArgument);
  ExpectMigration(MigrationState::kArmed);
}

TEST_F(PathMigrationTest, IsRearmedWithAPathThatWasLoadedLater) {
  Arm();
  ASSERT_EQ(Modify(MigrationState::kMigrated), Status::kOk);
  ExpectMigrated();
  ExpectTaken(FromPeer(true), /*by_alternate=*/true);
  // Then back to the first path.
  QpAttributes a;
  a.migration_state = MigrationState::kRearm;
  a.alternate_address = script_.peer_address();
  a.alternate_port_num = 1;
  a.alternate_timeout = kTimeout;
  ASSERT_EQ(script_.qp().Modify(a, M::kMigrationState | M::kAlternatePath), Status::kOk);
  ExpectTaken(FromPeer(false), /*by_alternate=*/true);
  ExpectMigration(MigrationState::kArmed);
  ExpectTaken(FromPeer(true));
  script_.ExpectEvent(EventType::kPathMigrated);
  EXPECT_EQ(script_.qp().Query().address, script_.peer_address());
  ExpectLastBy(/*alternate=*/false, true);
}

TEST_F(PathMigrationTest, ResetForgetsTheAlternatePath) {
  Arm();
  ASSERT_EQ(script_.MoveTo(QpState::kReset), Status::kOk);
  ExpectMigration(MigrationState::kMigrated);
  script_.Connect();
  peers_ = script_.peers_first_psn();
  EXPECT_EQ(Modify(MigrationState::kRearm), Status::kInvalidArgument);
  ExpectTaken(FromPeer(true));
  ExpectLastBy(/*alternate=*/false, true);
  EXPECT_EQ(InjectByAlternate(FromPeer(true)), DropReason::kForeignSource);
}

TEST_F(PathMigrationTest, NeighborOfTheAlternatePathChanges) {
  Arm();
  script_.endpoint().UpdateNeighbor(Script::kPeerOtherGid, {2, 0, 0, 0, 9, 9});
  ASSERT_EQ(Modify(MigrationState::kMigrated), Status::kOk);
  script_.ExpectEvent(EventType::kPathMigrated);
  PostWrite(1);
  ExpectWrite(first_);
  EXPECT_EQ(
      MacAddress({2, 0, 0, 0, 9, 9}),
      MacAddress({script_.last_frame()[0], script_.last_frame()[1], script_.last_frame()[2],
                  script_.last_frame()[3], script_.last_frame()[4], script_.last_frame()[5]}));
  InjectByAlternate(Ack(first_));
  script_.ExpectCompletion(1);
}

// An alternate path from a removed address reaches no peer until the address comes back.
TEST_F(PathMigrationTest, AddressOfTheAlternatePathGoesAndComesBack) {
  Arm();
  std::vector<Gid> gids = script_.endpoint().config().gids;
  gids[Script::kOurOtherGidIndex] = {};
  script_.endpoint().FollowGids(gids);
  script_.ExpectEvent(EventType::kGidChange);
  EXPECT_EQ(InjectByAlternate(FromPeer(true)), DropReason::kForeignDestination);
  ExpectMigration(MigrationState::kArmed);
  gids[Script::kOurOtherGidIndex] = Script::kOurOtherGid;
  script_.endpoint().FollowGids(gids);
  script_.ExpectEvent(EventType::kGidChange);
  ExpectTaken(FromPeer(true), /*by_alternate=*/true);
  ExpectMigrated();
}

TEST_F(UcPathMigrationTest, ArmsAndMigratesWithThePeer) {
  Arm();
  PostWrite(1);
  EXPECT_FALSE(ExpectWrite(first_).migration_request);
  script_.ExpectCompletion(1);
  ExpectTaken(FromPeer(true), /*by_alternate=*/true);
  ExpectMigrated();
  PostWrite(2);
  ExpectWrite(first_ + 1);
  ExpectLastBy(/*alternate=*/true, true);
  script_.ExpectCompletion(2);
}

TEST_F(UcPathMigrationTest, MigratesByRequest) {
  Arm();
  ASSERT_EQ(Modify(MigrationState::kMigrated), Status::kOk);
  ExpectMigrated();
  PostWrite(1);
  ExpectWrite(first_);
  ExpectLastBy(/*alternate=*/true, true);
  script_.ExpectCompletion(1);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
