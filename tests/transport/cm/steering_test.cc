#include "transport/cm/steering.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "tests/transport/cm/mad_spec.h"
#include "tests/transport/wire/wire_test_util.h"

namespace uroce::transport::cm {
namespace {

constexpr uint64_t kService = 0x0106'1d2f;

// Sent by Linux (rdma_rxe of 6.1 with ucmatose and udaddy): the part of a MAD that steering reads.
const auto kRecordedReq = FromHex(
    "010702030000000000000002c5a2096f00100000000000006f09a2c5000000000000000001061d2f505400ff");
const auto kRecordedRep = FromHex(
    "010702030000000000000002c5a2096f00130000000000008740adec6f09a2c5000000000000190000000000");
const auto kRecordedRej = FromHex(
    "010702030000000000000002c5a2096d0012000000000000000000006d09a2c5000000080000000000000000");
const auto kRecordedSidrReq = FromHex(
    "010702030000000000000002c5a2096b00170000000000006b09a2c5ffff00000000000001111c060040beb5");
const auto kRecordedSidrRep = FromHex(
    "010702030000000000000002c5a2096b00180000000000006b09a2c500000000000021000000000001111c06");

TEST(SteeringTest, MessagesOfLinuxAreUnderstood) {
  const auto req = Steering::Parse(kRecordedReq.data());
  const auto rep = Steering::Parse(kRecordedRep.data());
  ASSERT_TRUE(req && rep);
  EXPECT_EQ(req->service->value, 0x0106'1d2fu);
  EXPECT_EQ(rep->recipient, req->sender);
  EXPECT_NE(rep->sender, req->sender);
  const auto rej = Steering::Parse(kRecordedRej.data());
  ASSERT_TRUE(rej);
  EXPECT_EQ(rej->sender->value, 0u);
  EXPECT_EQ(rej->recipient->value, 0x6d09'a2c5u);
}

TEST(SteeringTest, ServiceResolutionOfLinuxIsUnderstood) {
  const auto req = Steering::Parse(kRecordedSidrReq.data());
  const auto rep = Steering::Parse(kRecordedSidrRep.data());
  ASSERT_TRUE(req && rep);
  EXPECT_EQ(req->service->value, 0x0111'1c06u);
  EXPECT_EQ(rep->service, req->service);
  EXPECT_EQ(rep->recipient, req->sender);
}

TEST(SteeringTest, RequestsNameAServiceAndTheirSender) {
  for (const Attribute attribute : {Attribute::kReq, Attribute::kSidrReq}) {
    const auto mad =
        MadSpec{.attribute = attribute, .first_id = 5, .request_service = kService}.Build();
    const auto message = Steering::Parse(mad.data());
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->service->value, kService);
    EXPECT_EQ(message->sender->value, 5u);
    EXPECT_EQ(message->recipient, std::nullopt);
  }
}

TEST(SteeringTest, EverythingElseNamesBothEnds) {
  for (const Attribute attribute :
       {Attribute::kMra, Attribute::kRej, Attribute::kRep, Attribute::kRtu, Attribute::kDreq,
        Attribute::kDrep, Attribute::kLap, Attribute::kApr}) {
    const auto mad = MadSpec{.attribute = attribute, .first_id = 5, .second_id = 9}.Build();
    const auto message = Steering::Parse(mad.data());
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->service, std::nullopt);
    EXPECT_EQ(message->sender->value, 5u);
    EXPECT_EQ(message->recipient->value, 9u);
  }
}

TEST(SteeringTest, ServiceResolutionReplyNamesTheAskerAndTheService) {
  const auto mad = MadSpec{.attribute = Attribute::kSidrRep,
                           .first_id = 5,
                           .second_id = 9,
                           .answer_service = kService}
                       .Build();
  const auto message = Steering::Parse(mad.data());
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->service->value, kService);
  EXPECT_EQ(message->sender, std::nullopt);
  EXPECT_EQ(message->recipient->value, 5u);
}

TEST(SteeringTest, OtherClassesAndMessagesAreNotSteered) {
  const auto good = MadSpec{}.Build();
  ASSERT_TRUE(Steering::Parse(good.data()).has_value());
  for (const auto& [offset, byte] : {std::pair{1, 0x03}, {2, 1}, {17, 0x0f}, {17, 0x1b}, {16, 1}}) {
    auto mad = good;
    mad[static_cast<size_t>(offset)] = static_cast<uint8_t>(byte);
    EXPECT_FALSE(Steering::Parse(mad.data()).has_value()) << offset;
  }
}

}  // namespace
}  // namespace uroce::transport::cm
