#include "transport/peers/peer_processes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "transport/limits.h"
#include "transport/random_numbers.h"

namespace uroce::transport {
namespace {

using There = PeerQuery::Process;

constexpr Gid kGid = Gid::FromIpv4({10, 0, 0, 2});
constexpr AddressVector kAddress = {.destination_gid = kGid};
constexpr Qpn kQpn{7 * kMaxQps + 3};
constexpr Qpn kSameProcess{7 * kMaxQps + 4};
constexpr Qpn kOtherProcess{8 * kMaxQps + 3};

class PeerProcessesTest : public testing::Test {
 protected:
  std::vector<PeerQuery> Run() {
    std::vector<PeerQuery> queries;
    next_ = processes_.Run(now_, [&](const AddressVector& address, const PeerQuery& query) {
      EXPECT_EQ(address, kAddress);
      queries.push_back(query);
    });
    return queries;
  }
  PeerQuery Ask(Qpn qpn = kQpn) {
    EXPECT_TRUE(processes_.Ask(kAddress, qpn));
    const auto queries = Run();
    EXPECT_EQ(queries.size(), 1u);
    return queries.at(0);
  }
  bool Answer(const PeerQuery& query, There there) {
    return processes_.OnAnswer(now_, kGid, query.Answer(kOwnFeatures, there));
  }
  void Pause() {
    now_ = now_ + PeerProcesses::kPause;
    EXPECT_TRUE(Run().empty());
  }
  bool StandsStill(Qpn qpn = kQpn) { return processes_.StandsStill(kGid, qpn); }

  RandomNumbers random_{{1, 2}, 3};
  TransactionIds ids_{5, random_};
  PeerProcesses processes_{ids_};
  Time now_{1'000'000};
  Time next_ = kNever;
};

TEST_F(PeerProcessesTest, ProcessThatLivesAndDoesNotAnswerStandsStill) {
  EXPECT_FALSE(StandsStill());
  const PeerQuery query = Ask();
  EXPECT_EQ(query.qpn, kQpn);
  EXPECT_EQ(BlockOfTransaction(query.transaction_id), 5u);
  EXPECT_FALSE(StandsStill()) << "nothing is known";
  EXPECT_TRUE(Answer(query, There::kLives));
  EXPECT_TRUE(StandsStill());
  EXPECT_TRUE(StandsStill(kSameProcess));
  EXPECT_FALSE(StandsStill(kOtherProcess));
}

TEST_F(PeerProcessesTest, ProcessThatAnswersDoesNotStandStillWhicheverAnswerIsFirst) {
  const PeerQuery first = Ask();
  Answer(first, There::kLives);
  Answer(first, There::kRuns);
  EXPECT_FALSE(StandsStill());
  Pause();
  const PeerQuery second = Ask();
  Answer(second, There::kRuns);
  Answer(second, There::kLives);
  EXPECT_FALSE(StandsStill());
}

TEST_F(PeerProcessesTest, ProcessThatRanMayStandStillLater) {
  const PeerQuery first = Ask();
  Answer(first, There::kLives);
  Answer(first, There::kRuns);
  Pause();
  const PeerQuery second = Ask();
  Answer(second, There::kLives);
  EXPECT_TRUE(StandsStill());
  EXPECT_FALSE(Answer(first, There::kRuns)) << "late";
  EXPECT_TRUE(StandsStill());
}

TEST_F(PeerProcessesTest, ProcessThatIsGoneDoesNotStandStill) {
  const PeerQuery first = Ask();
  Answer(first, There::kLives);
  Pause();
  Answer(Ask(), There::kGone);
  EXPECT_FALSE(StandsStill());
  Pause();
  PeerQuery refusal = Ask().Answer(kOwnFeatures, There::kLives);
  refusal.kind = PeerQuery::Kind::kRefusal;
  EXPECT_TRUE(processes_.OnAnswer(now_, kGid, refusal));
  EXPECT_FALSE(StandsStill());
}

TEST_F(PeerProcessesTest, ProcessThatRunsAgainSaysSoLate) {
  const PeerQuery query = Ask();
  Answer(query, There::kLives);
  Pause();
  EXPECT_TRUE(StandsStill());
  EXPECT_TRUE(Answer(query, There::kRuns));
  EXPECT_FALSE(StandsStill());
}

TEST_F(PeerProcessesTest, ConclusionHoldsWhileTheNextQueryIsUnderWayAndNoLonger) {
  Answer(Ask(), There::kLives);
  Pause();
  Ask();
  EXPECT_TRUE(StandsStill());
  int queries = 0;
  while (next_ != kNever) {
    EXPECT_TRUE(StandsStill());
    now_ = next_;
    queries += static_cast<int>(Run().size());
  }
  EXPECT_EQ(queries, PeerProcesses::kTries - 1);
  EXPECT_FALSE(StandsStill()) << "the host does not answer any more";
}

TEST_F(PeerProcessesTest, ProcessIsAskedAboutOnceInAPause) {
  const PeerQuery query = Ask();
  EXPECT_FALSE(processes_.Ask(kAddress, kSameProcess)) << "under way";
  Answer(query, There::kLives);
  EXPECT_FALSE(processes_.Ask(kAddress, kQpn)) << "a moment ago";
  EXPECT_TRUE(Run().empty());
  Pause();
  EXPECT_NE(Ask().transaction_id, query.transaction_id);
}

TEST_F(PeerProcessesTest, ForgedAnswerIsIgnored) {
  PeerQuery query = Ask();
  EXPECT_FALSE(processes_.OnAnswer(now_, Gid::FromIpv4({10, 0, 0, 3}),
                                   query.Answer(kOwnFeatures, There::kLives)));
  ++query.transaction_id;
  EXPECT_FALSE(Answer(query, There::kLives));
  EXPECT_FALSE(StandsStill());
}

TEST_F(PeerProcessesTest, ProcessesAreBounded) {
  constexpr uint32_t kMany = PeerProcesses::kMaxProcesses + 100;
  for (uint32_t block = 1; block <= kMany; ++block) {
    Answer(Ask({block * kMaxQps}), There::kLives);
    Pause();
  }
  uint32_t known = 0;
  for (uint32_t block = 1; block <= kMany; ++block) known += StandsStill({block * kMaxQps});
  EXPECT_EQ(known, PeerProcesses::kMaxProcesses);
  EXPECT_TRUE(StandsStill({kMany * kMaxQps}));
}

}  // namespace
}  // namespace uroce::transport
