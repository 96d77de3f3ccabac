#include "transport/peers/peer_query.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace uroce::transport {
namespace {

using Kind = PeerQuery::Kind;

constexpr PeerQuery kQuery = {
    .transaction_id = 0x0102'0304'0506'0708, .qpn = {0xabcdef}, .features = 0};

// The bytes that differ from 0, by their offset.
struct Piece {
  size_t offset;
  std::initializer_list<uint8_t> bytes;
};
MadBytes Expected(std::initializer_list<Piece> pieces) {
  MadBytes mad{};
  for (const Piece& piece : pieces) std::ranges::copy(piece.bytes, mad.begin() + piece.offset);
  return mad;
}

TEST(PeerQueryTest, QueryIsLaidOutAsDocumented) {
  EXPECT_EQ(EmitPeerQuery(kQuery), Expected({{0, {1, 0x3c, 1, 0x01}},
                                             {8, {1, 2, 3, 4, 5, 6, 7, 8}},
                                             {16, {0x00, 0x10}},
                                             {20, {0, 0xab, 0xcd, 0xef}},
                                             {36, {0, 0x02, 0x75, 0x72}}}));
}

TEST(PeerQueryTest, AnswerIsTheQueryWithAnotherMethodAndTheFeatures) {
  EXPECT_EQ(EmitPeerQuery(kQuery.Answer(0x123456, PeerQuery::Process::kRuns)),
            Expected({{0, {1, 0x3c, 1, 0x81}},
                      {8, {1, 2, 3, 4, 5, 6, 7, 8}},
                      {16, {0x00, 0x10}},
                      {20, {0, 0xab, 0xcd, 0xef}},
                      {36, {0, 0x02, 0x75, 0x72}},
                      {40, {3, 0x12, 0x34, 0x56}}}));
}

TEST(PeerQueryTest, EmittedIsParsed) {
  PeerQuery refusal = kQuery;
  refusal.kind = Kind::kRefusal;
  for (const PeerQuery& query : {kQuery, kQuery.Answer(kOwnFeatures), refusal,
                                 kQuery.Answer(kOwnFeatures, PeerQuery::Process::kGone),
                                 kQuery.Answer(kOwnFeatures, PeerQuery::Process::kLives)}) {
    const MadBytes mad = EmitPeerQuery(query);
    EXPECT_TRUE(IsOfPeerQueryClass(mad.data()));
    EXPECT_EQ(ParsePeerQuery(mad.data()), query);
  }
}

// The answer of rdma_rxe of Linux 6.1.192 to a query: Linux returns a MAD that no agent of it takes
// with a status (generate_unmatched_resp).
TEST(PeerQueryTest, RxeRefusesTheQuery) {
  constexpr PeerQuery kAsked = {.transaction_id = 0x0140'0000'0123'4567, .qpn = {}, .features = 0};
  const MadBytes answer = Expected({{0, {0x01, 0x3c, 0x01, 0x81, 0x00, 0x0c, 0x00, 0x00}},
                                    {8, {0x01, 0x40, 0x00, 0x00, 0x01, 0x23, 0x45, 0x67}},
                                    {16, {0x00, 0x10, 0x00, 0x00}},
                                    {36, {0x00, 0x02, 0x75, 0x72}}});
  PeerQuery refusal = kAsked;
  refusal.kind = Kind::kRefusal;
  EXPECT_EQ(ParsePeerQuery(answer.data()), refusal);
  EXPECT_EQ(EmitPeerQuery(refusal), answer);
}

TEST(PeerQueryTest, EveryOtherValueOfAFixedFieldIsRefused) {
  const MadBytes good = EmitPeerQuery(kQuery.Answer(kOwnFeatures));
  for (const size_t offset : {0, 1, 2, 16, 17, 20, 37, 38, 39}) {
    for (int value = 0; value < 256; ++value) {
      MadBytes mad = good;
      mad[offset] = static_cast<uint8_t>(value);
      EXPECT_EQ(ParsePeerQuery(mad.data()).has_value(), mad == good) << offset << " " << value;
    }
  }
  MadBytes mad = good;
  for (const int method : {0x00, 0x02, 0x03, 0x05, 0x07, 0x80, 0x82, 0xff}) {
    mad[3] = static_cast<uint8_t>(method);
    EXPECT_FALSE(ParsePeerQuery(mad.data()).has_value()) << method;
  }
}

TEST(PeerQueryTest, ReservedBitsAreIgnored) {
  const PeerQuery answer = kQuery.Answer(kOwnFeatures);
  MadBytes mad = EmitPeerQuery(answer);
  for (const size_t offset : {6, 7, 18, 19, 24, 35, 36, 40}) mad[offset] = 0xff;
  std::fill(mad.begin() + PeerQuery::kParsedBytes, mad.end(), uint8_t{0xff});
  EXPECT_EQ(ParsePeerQuery(mad.data()), answer);
}

TEST(PeerQueryTest, OtherVersionsAreOfTheClassAndOtherVendorsAreNot) {
  MadBytes mad = EmitPeerQuery(kQuery);
  mad[2] = 2;
  EXPECT_TRUE(IsOfPeerQueryClass(mad.data()));
  mad[38] ^= 1;
  EXPECT_FALSE(IsOfPeerQueryClass(mad.data()));
}

TEST(PeerQueryTest, TransactionIdNamesTheBlock) {
  EXPECT_EQ(BlockOfTransaction(0xffff'ffff'ffff'ffff), kQpnBlocks - 1);
  EXPECT_EQ(BlockOfTransaction(uint64_t{5} << 54 | 0x3f'ffff'ffff'ffff), 5u);
}

}  // namespace
}  // namespace uroce::transport
