#include "transport/cm/steering.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <utility>

#include "transport/cm/mad.h"
#include "transport/cm/messages.h"
#include "transport/wire/byte_order.h"

namespace uroce::transport::cm {
namespace {

constexpr uint64_t kService = 0x0106'1d2f;

// A MAD of which only what steers it is filled in.
struct MadSpec {
  Attribute attribute = Attribute::kReq;
  uint32_t first_id = 0;   // the sender's communication id, or a request id
  uint32_t second_id = 0;  // the recipient's communication id
  uint64_t request_service = 0;
  uint64_t answer_service = 0;

  MadBytes Build() const {
    MadBytes mad{};
    EmitMadHeader({.attribute_id = static_cast<uint16_t>(attribute)}, mad.data());
    Store32(first_id, &mad[24]);
    Store32(second_id, &mad[28]);
    if (request_service != 0) Store64(request_service, &mad[32]);
    if (answer_service != 0) Store64(answer_service, &mad[36]);
    return mad;
  }
};

// As Linux sends them (rdma_rxe of 6.1 with ucmatose and udaddy): what of a MAD is looked at.
using RecordedMad = std::array<uint8_t, Steering::kParsedBytes>;
constexpr RecordedMad kRecordedReq = {
    0x01, 0x07, 0x02, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xc5, 0xa2, 0x09,
    0x6f, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x6f, 0x09, 0xa2, 0xc5, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x06, 0x1d, 0x2f, 0x50, 0x54, 0x00, 0xff};
constexpr RecordedMad kRecordedRep = {
    0x01, 0x07, 0x02, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xc5, 0xa2, 0x09,
    0x6f, 0x00, 0x13, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x87, 0x40, 0xad, 0xec, 0x6f, 0x09,
    0xa2, 0xc5, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x19, 0x00, 0x00, 0x00, 0x00, 0x00};
constexpr RecordedMad kRecordedRej = {
    0x01, 0x07, 0x02, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xc5, 0xa2, 0x09,
    0x6d, 0x00, 0x12, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x6d, 0x09,
    0xa2, 0xc5, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
constexpr RecordedMad kRecordedSidrReq = {
    0x01, 0x07, 0x02, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xc5, 0xa2, 0x09,
    0x6b, 0x00, 0x17, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x6b, 0x09, 0xa2, 0xc5, 0xff, 0xff,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x11, 0x1c, 0x06, 0x00, 0x40, 0xbe, 0xb5};
constexpr RecordedMad kRecordedSidrRep = {
    0x01, 0x07, 0x02, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xc5, 0xa2, 0x09,
    0x6b, 0x00, 0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x6b, 0x09, 0xa2, 0xc5, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x21, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x11, 0x1c, 0x06};

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

TEST(SteeringTest, OtherClassesAndMessagesAreNone) {
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
