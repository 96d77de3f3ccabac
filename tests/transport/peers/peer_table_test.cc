#include "transport/peers/peer_table.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace uroce::transport {
namespace {

constexpr uint32_t kBlock = 5;
constexpr Seed kSeed = {1, 2};
constexpr MacAddress kMac = {2, 0, 0, 0, 0, 7};
constexpr auto kAcks = PeerFeature::kSelectiveAcks;

Gid GidOf(uint32_t number) {
  return Gid::FromIpv4({10, static_cast<uint8_t>(number >> 16), static_cast<uint8_t>(number >> 8),
                        static_cast<uint8_t>(number)});
}
AddressVector AddressOf(uint32_t number) {
  return {.destination_gid = GidOf(number), .destination_mac = kMac, .hop_limit = 3};
}

class PeerTableTest : public testing::Test, public PeerTable::Listener {
 protected:
  using Queries = std::vector<std::pair<AddressVector, PeerQuery>>;

  void OnPeerWanted() override { ++wanted_; }
  Queries Run() {
    Queries queries;
    table_.Run(now_, [&](const AddressVector& address, const PeerQuery& query) {
      queries.emplace_back(address, query);
    });
    return queries;
  }
  // Runs at each deadline for a time, and counts the queries.
  size_t RunFor(Duration time) {
    size_t queries = 0;
    for (const Time end = now_ + time; table_.NextDeadline() <= end;) {
      now_ = std::max(now_, table_.NextDeadline());
      queries += Run().size();
    }
    return queries;
  }
  PeerQuery AskOne(uint32_t number) {
    table_.Ask(AddressOf(number));
    const Queries queries = Run();
    EXPECT_EQ(queries.size(), 1u);
    return queries.at(0).second;
  }
  void Answer(uint32_t number, PeerFeatures features = kOwnFeatures) {
    table_.OnAnswer(now_, GidOf(number), AskOne(number).Answer(features));
  }
  bool Speaks(uint32_t number) { return table_.Speaks(GidOf(number), kAcks); }

  int wanted_ = 0;
  PeerCounters counters_;
  PeerTable table_{kOwnFeatures, kBlock, kSeed, *this, counters_};
  Time now_{1'000'000};
};

TEST_F(PeerTableTest, PeerThatAnswersSpeaksWhatItSays) {
  EXPECT_FALSE(Speaks(1));
  EXPECT_EQ(table_.NextDeadline(), kNever);
  table_.Ask(AddressOf(1));
  EXPECT_EQ(wanted_, 1);
  EXPECT_LE(table_.NextDeadline(), now_);
  const Queries queries = Run();
  ASSERT_EQ(queries.size(), 1u);
  const auto& [address, query] = queries[0];
  EXPECT_EQ(address, AddressOf(1));
  EXPECT_EQ(query.kind, PeerQuery::Kind::kQuery);
  EXPECT_FALSE(query.IsAboutProcess());
  EXPECT_EQ(BlockOfTransaction(query.transaction_id), kBlock);
  EXPECT_FALSE(Speaks(1));
  table_.OnAnswer(now_, GidOf(1), query.Answer(kOwnFeatures));
  EXPECT_TRUE(Speaks(1));
  EXPECT_FALSE(Speaks(2));
  EXPECT_EQ(counters_.queries_sent, 1u);
  EXPECT_EQ(counters_.peers_found, 1u);
}

TEST_F(PeerTableTest, PeerWithoutTheFeatureDoesNotSpeakIt) {
  Answer(1, 0xff'fffe);
  EXPECT_FALSE(Speaks(1));
}

TEST_F(PeerTableTest, PeerIsAskedOnceWhileItIsAskedOrHasAnswered) {
  table_.Ask(AddressOf(1));
  table_.Ask(AddressOf(1));
  const Queries queries = Run();
  ASSERT_EQ(queries.size(), 1u);
  table_.Ask(AddressOf(1));
  EXPECT_TRUE(Run().empty());
  table_.OnAnswer(now_, GidOf(1), queries[0].second.Answer(kOwnFeatures));
  table_.Ask(AddressOf(1));
  EXPECT_TRUE(Run().empty());
  EXPECT_EQ(wanted_, 1);
}

TEST_F(PeerTableTest, SilentPeerIsAskedWithGrowingWaitsAndThenLeftAlone) {
  const PeerQuery first = AskOne(1);
  Duration wait = PeerTable::kFirstWait;
  for (int i = 1; i < PeerTable::kTries; ++i, wait = wait + wait) {
    EXPECT_EQ(table_.NextDeadline(), now_ + wait);
    now_ = table_.NextDeadline();
    const Queries queries = Run();
    ASSERT_EQ(queries.size(), 1u);
    EXPECT_EQ(queries[0].second, first);
  }
  now_ = table_.NextDeadline();
  EXPECT_TRUE(Run().empty());
  EXPECT_EQ(counters_.peers_silent, 1u);
  table_.Ask(AddressOf(1));
  EXPECT_TRUE(Run().empty()) << "silent lately";
  EXPECT_EQ(RunFor(PeerTable::kSilentFor), 0u);
  EXPECT_EQ(table_.NextDeadline(), kNever) << "no timer runs on";
  EXPECT_NE(AskOne(1).transaction_id, first.transaction_id);
}

TEST_F(PeerTableTest, RefusalEndsTheTries) {
  PeerQuery refusal = AskOne(1);
  refusal.kind = PeerQuery::Kind::kRefusal;
  table_.OnAnswer(now_, GidOf(1), refusal);
  table_.Ask(AddressOf(1));
  EXPECT_EQ(RunFor(PeerTable::kSilentFor), 0u);
  EXPECT_EQ(counters_.peers_silent, 1u);
}

TEST_F(PeerTableTest, LateAnswerCounts) {
  const PeerQuery query = AskOne(1);
  EXPECT_EQ(RunFor(Milliseconds(2'000)), size_t{PeerTable::kTries - 1});
  table_.OnAnswer(now_, GidOf(1), query.Answer(kOwnFeatures));
  EXPECT_TRUE(Speaks(1));
}

TEST_F(PeerTableTest, ForgedAnswerIsIgnored) {
  const PeerQuery query = AskOne(1);
  PeerQuery guess = query.Answer(kOwnFeatures);
  guess.transaction_id ^= 1;
  table_.OnAnswer(now_, GidOf(1), guess);
  table_.OnAnswer(now_, GidOf(2), query.Answer(kOwnFeatures));
  table_.OnAnswer(now_, GidOf(1), query);  // a query, not an answer
  EXPECT_FALSE(Speaks(1));
  EXPECT_FALSE(Speaks(2));
  EXPECT_EQ(counters_.ignored, 3u);
  table_.OnAnswer(now_, GidOf(1), query.Answer(kOwnFeatures));
  EXPECT_TRUE(Speaks(1));
  table_.OnAnswer(now_, GidOf(1), query.Answer(0));
  EXPECT_TRUE(Speaks(1)) << "answered already";
}

TEST_F(PeerTableTest, AnsweredPeerIsAskedAgainWhenItIsNeededLater) {
  Answer(1);
  EXPECT_EQ(RunFor(PeerTable::kKnownFor), 0u) << "not by itself";
  EXPECT_TRUE(Speaks(1));
  const PeerQuery query = AskOne(1);
  EXPECT_TRUE(Speaks(1)) << "until the peer is silent";
  table_.OnAnswer(now_, GidOf(1), query.Answer(0));
  EXPECT_FALSE(Speaks(1));
}

TEST_F(PeerTableTest, PeerThatBecomesSilentSpeaksNothing) {
  Answer(1);
  RunFor(PeerTable::kKnownFor);
  AskOne(1);
  RunFor(Milliseconds(2'000));
  EXPECT_FALSE(Speaks(1));
}

TEST_F(PeerTableTest, AnotherEthernetAddressMayBeAnotherDevice) {
  Answer(1);
  table_.OnNeighbor(GidOf(1), kMac);
  EXPECT_TRUE(Speaks(1));
  table_.OnNeighbor(GidOf(1), {2, 0, 0, 0, 0, 8});
  EXPECT_FALSE(Speaks(1));
  AskOne(1);
}

TEST_F(PeerTableTest, EthernetAddressThatBecomesKnownChangesNothing) {
  AddressVector address = AddressOf(1);
  address.destination_mac = {};
  table_.Ask(address);
  table_.OnAnswer(now_, GidOf(1), Run().at(0).second.Answer(kOwnFeatures));
  table_.OnNeighbor(GidOf(1), kMac);
  EXPECT_TRUE(Speaks(1));
}

TEST_F(PeerTableTest, ProcessIsAskedAboutOnceThePeerIsKnown) {
  constexpr Qpn kQpn{7 * kMaxQps};
  table_.AskAboutProcess(AddressOf(1), kQpn);
  const Queries first = Run();
  ASSERT_EQ(first.size(), 1u);
  EXPECT_FALSE(first[0].second.IsAboutProcess());
  table_.OnAnswer(now_, GidOf(1), first[0].second.Answer(kOwnFeatures));
  table_.AskAboutProcess(AddressOf(1), kQpn);
  EXPECT_EQ(wanted_, 2);
  EXPECT_LE(table_.NextDeadline(), now_);
  const Queries second = Run();
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].second.qpn, kQpn);
  table_.OnAnswer(now_, GidOf(1),
                  second[0].second.Answer(kOwnFeatures, PeerQuery::Process::kLives));
  EXPECT_TRUE(table_.StandsStill(GidOf(1), kQpn));
  EXPECT_EQ(RunFor(PeerTable::kKnownFor), 0u);
  EXPECT_EQ(table_.NextDeadline(), kNever) << "no timer runs on";
  EXPECT_EQ(counters_.queries_sent, 2u);
  EXPECT_EQ(counters_.ignored, 0u);
}

TEST_F(PeerTableTest, PeerThatDoesNotTellOfProcessesIsNotAskedAboutOne) {
  Answer(1, static_cast<PeerFeatures>(kAcks));
  table_.AskAboutProcess(AddressOf(1), {7 * kMaxQps});
  EXPECT_TRUE(Run().empty());
}

// A process speaks for itself alone: the features are those of its host.
TEST_F(PeerTableTest, AnswerAboutAProcessTellsNoFeatures) {
  PeerQuery query = AskOne(1);
  query.qpn = {7 * kMaxQps};
  table_.OnAnswer(now_, GidOf(1), query.Answer(kOwnFeatures, PeerQuery::Process::kRuns));
  EXPECT_FALSE(Speaks(1));
}

TEST_F(PeerTableTest, TableIsBoundedAndKeepsTheLatest) {
  constexpr uint32_t kMany = 20 * PeerTable::kMaxPeers;
  for (uint32_t i = 0; i < kMany; ++i) Answer(i);
  size_t known = 0;
  for (uint32_t i = 0; i < kMany; ++i) known += Speaks(i);
  EXPECT_EQ(known, PeerTable::kMaxPeers);
  EXPECT_TRUE(Speaks(kMany - 1));
}

TEST_F(PeerTableTest, TransactionIdsAreRandom) {
  std::set<uint64_t> ids;
  for (uint32_t i = 0; i < 100; ++i) ids.insert(AskOne(i).transaction_id);
  EXPECT_EQ(ids.size(), 100u);
  PeerTable other(kOwnFeatures, kBlock, {1, 3}, *this, counters_);
  other.Ask(AddressOf(0));
  other.Run(now_, [&](const AddressVector&, const PeerQuery& query) {
    EXPECT_FALSE(ids.contains(query.transaction_id)) << "another seed";
  });
}

TEST_F(PeerTableTest, TableWithoutFeaturesAsksNone) {
  PeerTable mute(0, kBlock, kSeed, *this, counters_);
  mute.Ask(AddressOf(1));
  EXPECT_EQ(wanted_, 0);
  EXPECT_EQ(mute.NextDeadline(), kNever);
}

}  // namespace
}  // namespace uroce::transport
