// Two endpoints find out, by their queue pairs 1, what the other one speaks.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "transport/endpoint.h"
#include "transport/general_services.h"
#include "transport/mad_frame.h"
#include "transport/peers/peer_query.h"
#include "transport/peers/peer_table.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/frame_parser.h"

namespace uroce::transport {
namespace {

using Frame = std::vector<uint8_t>;

constexpr auto kAcks = PeerFeature::kSelectiveAcks;
constexpr uint32_t kBlock = 5;

EndpointConfig ConfigOf(uint8_t number, PeerFeatures features = kOwnFeatures) {
  const MacAddress mac = {2, 0, 0, 0, 0, number};
  return {.mac = mac,
          .gids = {Gid::LinkLocal(mac), Gid::FromIpv4({10, 0, 0, number})},
          .first_qpn = {kBlock * kMaxQps},
          .features = features};
}

class PeerExchangeTest : public testing::Test {
 protected:
  static const Gid& GidOf(const Endpoint& endpoint) { return endpoint.config().gids[1]; }
  static AddressVector AddressOf(const Endpoint& endpoint) {
    return {.destination_gid = GidOf(endpoint),
            .destination_mac = endpoint.config().mac,
            .source_gid_index = 1};
  }
  bool Speaks() { return a_.peers().Speaks(GidOf(b_), kAcks); }

  // The next frame that the endpoint sends.
  std::optional<Frame> Take(Endpoint& from, Route route = Route::kWire) {
    Frame frame(kMaxFrameBytes);
    frame.resize(from.PollTransmit(now_, route, frame));
    return frame.empty() ? std::nullopt : std::optional(frame);
  }
  // The next frame, which `a_` sends after it asked `b_`.
  Frame AskB() {
    a_.peers().Ask(AddressOf(b_));
    a_.OnDeadline(now_);
    return Take(a_).value_or(Frame());
  }
  // A frame with a MAD from another queue pair of `b_` to queue pair 1 of `a_`.
  Frame FrameFromQueuePair(Qpn qpn, const MadBytes& mad) {
    const FrameBuilder builder(b_.config().mac, GidOf(b_), AddressOf(a_), 0xc000);
    TransportHeaders headers;
    headers.opcode.service = Service::kUnreliableDatagram;
    headers.destination_qpn = kGeneralServicesQpn;
    headers.deth = {.qkey = kGeneralServicesQkey, .source_qpn = qpn};
    const PayloadPiece payload{mad.data(), mad.size()};
    Frame frame(kMaxFrameBytes);
    frame.resize(builder.Emit(headers, {&payload, 1}, frame));
    return frame;
  }
  // A frame with a MAD from queue pair 1 of `from` to that of `to`.
  Frame FrameOf(const MadBytes& mad, const Endpoint& to, const MacAddress& mac, const Gid& from) {
    Frame frame(kMaxFrameBytes);
    frame.resize(EmitMadFrame(mac, from, {.path = AddressOf(to)}, mad, Psn(0), frame));
    return frame;
  }
  Frame FrameFromB(const MadBytes& mad) { return FrameOf(mad, a_, b_.config().mac, GidOf(b_)); }
  static std::optional<PeerQuery> QueryIn(const Frame& frame) {
    Packet packet;
    if (ParseFrame(frame, packet) != DropReason::kNone) return std::nullopt;
    if (packet.destination_qpn != kGeneralServicesQpn) return std::nullopt;
    if (packet.payload.size() != kMadBytes) return std::nullopt;
    return ParsePeerQuery(packet.payload.data());
  }

  // EndpointState is too large for the stack.
  const std::unique_ptr<EndpointState> a_state_ = std::make_unique<EndpointState>();
  const std::unique_ptr<EndpointState> b_state_ = std::make_unique<EndpointState>();
  Endpoint a_{ConfigOf(1), a_state_.get()};
  Endpoint b_{ConfigOf(2), b_state_.get()};
  Time now_{1'000'000};
};

TEST_F(PeerExchangeTest, PeerThatIsAskedAnswers) {
  EXPECT_EQ(a_.NextDeadline(), kNever);
  a_.peers().Ask(AddressOf(b_));
  EXPECT_LE(a_.NextDeadline(), now_) << "a pass of the engine is due";
  a_.OnDeadline(now_);
  const auto query = Take(a_);
  ASSERT_TRUE(query.has_value());
  EXPECT_EQ(b_.general_services(), nullptr) << "made by the query";
  EXPECT_EQ(b_.OnFrame(now_, *query), DropReason::kNone);
  const auto answer = Take(b_);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->size(), query->size());
  EXPECT_FALSE(Speaks());
  EXPECT_EQ(a_.OnFrame(now_, *answer), DropReason::kNone);
  EXPECT_TRUE(Speaks());
  EXPECT_FALSE(b_.peers().Speaks(GidOf(a_), kAcks)) << "a query proves nothing";
  EXPECT_EQ(a_state_->peers.queries_sent, 1u);
  EXPECT_EQ(a_state_->peers.peers_found, 1u);
  EXPECT_EQ(b_state_->peers.queries_answered, 1u);
  EXPECT_FALSE(Take(a_) || Take(b_));
}

TEST_F(PeerExchangeTest, QueryNamesTheBlockOfTheProcess) {
  const auto query = QueryIn(AskB());
  ASSERT_TRUE(query.has_value());
  EXPECT_EQ(BlockOfTransaction(query->transaction_id), kBlock);
}

TEST_F(PeerExchangeTest, ProcessThatIsAskedAboutSaysThatItRuns) {
  const Qpn own{kBlock * kMaxQps + 7};
  const Qpn other{kBlock * kMaxQps + kMaxQps};
  for (const auto& [qpn, expected] :
       {std::pair{own, PeerQuery::Process::kRuns}, std::pair{other, PeerQuery::Process::kGone}}) {
    const PeerQuery query{.transaction_id = 1, .qpn = qpn};
    a_.OnFrame(now_, FrameFromB(EmitPeerQuery(query)));
    EXPECT_EQ(QueryIn(Take(a_).value_or(Frame())), query.Answer(kOwnFeatures, expected));
  }
}

TEST_F(PeerExchangeTest, ProcessThatDoesNotAnswerStandsStill) {
  const Qpn qpn{kBlock * kMaxQps + 7};
  b_.OnFrame(now_, AskB());
  a_.OnFrame(now_, Take(b_).value_or(Frame()));
  a_.peers().AskAboutProcess(AddressOf(b_), qpn);
  a_.OnDeadline(now_);
  const Frame frame = Take(a_).value_or(Frame());
  const auto query = QueryIn(frame);
  ASSERT_TRUE(query.has_value());
  const PeerQuery lives = query->Answer(kOwnFeatures, PeerQuery::Process::kLives);
  a_.OnFrame(now_, FrameFromB(EmitPeerQuery(lives)));  // from uroced
  EXPECT_TRUE(a_.peers().StandsStill(GidOf(b_), qpn));
  b_.OnFrame(now_, frame);
  a_.OnFrame(now_, Take(b_).value_or(Frame()));
  EXPECT_FALSE(a_.peers().StandsStill(GidOf(b_), qpn));
}

// In a fabric the switch takes it from there.
TEST_F(PeerExchangeTest, QueryOfAProcessOfAFabricGoesByTheWire) {
  EndpointConfig config = ConfigOf(1);
  config.has_links = true;
  Endpoint process(config);
  process.peers().Ask(AddressOf(b_));
  process.OnDeadline(now_);
  EXPECT_TRUE(QueryIn(Take(process).value_or(Frame())).has_value());
}

TEST_F(PeerExchangeTest, PeerThatDropsQueriesIsSilent) {
  Endpoint other(ConfigOf(3, 0));
  a_.peers().Ask(AddressOf(other));
  int queries = 0;
  while (a_.NextDeadline() <= now_ + PeerTable::kSilentFor) {
    now_ = std::max(now_, a_.NextDeadline());
    a_.OnDeadline(now_);
    while (const auto query = Take(a_)) {
      ++queries;
      EXPECT_EQ(other.OnFrame(now_, *query), DropReason::kNone);
      EXPECT_FALSE(other.HasTransmit());
    }
  }
  EXPECT_EQ(queries, PeerTable::kTries);
  EXPECT_FALSE(a_.peers().Speaks(GidOf(other), kAcks));
  EXPECT_EQ(a_state_->peers.peers_silent, 1u);
}

TEST_F(PeerExchangeTest, RefusalOfLinuxEndsTheTries) {
  const auto query = QueryIn(AskB());
  ASSERT_TRUE(query.has_value());
  PeerQuery refusal = *query;
  refusal.kind = PeerQuery::Kind::kRefusal;
  EXPECT_EQ(a_.OnFrame(now_, FrameFromB(EmitPeerQuery(refusal))), DropReason::kNone);
  now_ = now_ + PeerTable::kFirstWait;
  a_.OnDeadline(now_);
  EXPECT_FALSE(Take(a_).has_value());
  EXPECT_FALSE(Speaks());
}

TEST_F(PeerExchangeTest, ForgedAnswerIsIgnored) {
  const auto query = QueryIn(AskB());
  ASSERT_TRUE(query.has_value());
  const MadBytes answer = EmitPeerQuery(query->Answer(kOwnFeatures));
  PeerQuery guess = query->Answer(kOwnFeatures);
  ++guess.transaction_id;
  const Frame from_c = FrameOf(answer, a_, {2, 0, 0, 0, 0, 3}, Gid::FromIpv4({10, 0, 0, 3}));
  EXPECT_EQ(a_.OnFrame(now_, from_c), DropReason::kNone);
  EXPECT_EQ(a_.OnFrame(now_, FrameFromB(EmitPeerQuery(guess))), DropReason::kNone);
  EXPECT_EQ(a_.OnFrame(now_, FrameFromB(answer), RouteToBlock(7)), DropReason::kForeignSource)
      << "past the switch";
  EXPECT_FALSE(Speaks());
  EXPECT_EQ(a_state_->peers.ignored, 2u);
  EXPECT_EQ(a_.OnFrame(now_, FrameFromB(answer)), DropReason::kNone);
  EXPECT_TRUE(Speaks());
}

TEST_F(PeerExchangeTest, QueryThatBreaksARuleIsNotAnswered) {
  const MadBytes query = EmitPeerQuery({.transaction_id = 1});
  MadBytes of_another_version = query;
  of_another_version[2] = 2;
  const Frame from_group = FrameOf(query, a_, b_.config().mac, Gid::FromIpv4({239, 1, 2, 3}));
  const Frame from_group_mac = FrameOf(query, a_, {3, 0, 0, 0, 0, 2}, GidOf(b_));
  const Frame from_queue_pair = FrameFromQueuePair({0x81}, query);
  for (const Frame& frame :
       {FrameFromB(of_another_version), from_group, from_group_mac, from_queue_pair}) {
    EXPECT_EQ(a_.OnFrame(now_, frame), DropReason::kNone);
  }
  EXPECT_FALSE(a_.HasTransmit());
  EXPECT_EQ(a_state_->peers.ignored, 4u);
  a_.OnFrame(now_, FrameFromB(query));
  EXPECT_TRUE(a_.HasTransmit());
}

TEST_F(PeerExchangeTest, MadOfAnotherVendorIsLeftToTheConnectionManager) {
  MadBytes query = EmitPeerQuery({.transaction_id = 1});
  query[39] ^= 1;
  a_.OnFrame(now_, FrameFromB(query));
  EXPECT_FALSE(a_.HasTransmit());
  EXPECT_EQ(a_state_->peers.ignored, 0u);
  const auto foreign = static_cast<size_t>(cm::Malformed::kForeignClass);
  EXPECT_EQ(a_state_->connection_manager.malformed[foreign], 1u);
}

TEST_F(PeerExchangeTest, QueryWaitsForTheEthernetAddress) {
  AddressVector address = AddressOf(b_);
  address.destination_mac = {};
  a_.peers().Ask(address);
  a_.OnDeadline(now_);
  EXPECT_FALSE(a_.HasTransmit());
  ASSERT_TRUE(a_.general_services()->WantsNeighbors());
  a_.general_services()->Resolve(now_, [&](const Gid& gid) {
    EXPECT_EQ(gid, GidOf(b_));
    return std::optional(b_.config().mac);
  });
  EXPECT_TRUE(QueryIn(Take(a_).value_or(Frame())).has_value());
}

TEST_F(PeerExchangeTest, FloodOfQueriesIsAnsweredWithinABoundAndNotRemembered) {
  constexpr uint32_t kFlood = 10'000;
  for (uint32_t i = 0; i < kFlood; ++i) {
    const Gid source =
        Gid::FromIpv4({10, 1, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i)});
    const MadBytes query = EmitPeerQuery({.transaction_id = i});
    a_.OnFrame(now_, FrameOf(query, a_, {2, 0, 0, 1, 1, 1}, source));
  }
  size_t answers = 0;
  while (Take(a_)) ++answers;
  EXPECT_EQ(answers, GeneralServices::kMaxBeforeAnswers);
  EXPECT_EQ(a_state_->peers.queries_answered, answers);
  EXPECT_EQ(a_.NextDeadline(), kNever);
  a_.OnFrame(now_, FrameFromB(EmitPeerQuery({})));
  EXPECT_TRUE(Take(a_).has_value());
}

}  // namespace
}  // namespace uroce::transport
