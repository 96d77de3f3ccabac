#include "dpdk_nic/switch/cm_message.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <utility>

#include "tests/dpdk_nic/switch/switch_frames.h"

namespace uroce::nic {
namespace {

constexpr uint64_t kService = 0x0106'1d2f;

// As Linux sends them (rdma_rxe of 6.1 with ucmatose and udaddy): what of a MAD is looked at.
using RecordedMad = std::array<uint8_t, CmMessage::kParsedBytes>;
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

TEST(CmMessageTest, MessagesOfLinuxAreUnderstood) {
  const auto req = CmMessage::Parse(kRecordedReq.data());
  const auto rep = CmMessage::Parse(kRecordedRep.data());
  ASSERT_TRUE(req && rep);
  EXPECT_EQ(req->service_id, 0x0106'1d2fu);
  EXPECT_EQ(rep->recipient_id, req->sender_id);
  EXPECT_NE(rep->sender_id, req->sender_id);
  const auto rej = CmMessage::Parse(kRecordedRej.data());
  ASSERT_TRUE(rej);
  EXPECT_EQ(rej->sender_id, 0u);
  EXPECT_EQ(rej->recipient_id, 0x6d09'a2c5u);
}

TEST(CmMessageTest, ServiceResolutionOfLinuxIsUnderstood) {
  const auto req = CmMessage::Parse(kRecordedSidrReq.data());
  const auto rep = CmMessage::Parse(kRecordedSidrRep.data());
  ASSERT_TRUE(req && rep);
  EXPECT_EQ(req->service_id, 0x0111'1c06u);
  EXPECT_EQ(rep->service_id, req->service_id);
  EXPECT_EQ(rep->recipient_id, req->sender_id);
}

TEST(CmMessageTest, RequestsNameAServiceAndTheirSender) {
  for (const Mad attribute : {Mad::kReq, Mad::kSidrReq}) {
    const auto mad =
        MadSpec{.attribute = attribute, .first_id = 5, .request_service = kService}.Build();
    const auto message = CmMessage::Parse(mad.data());
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->service_id, kService);
    EXPECT_EQ(message->sender_id, 5u);
    EXPECT_EQ(message->recipient_id, std::nullopt);
  }
}

TEST(CmMessageTest, EverythingElseNamesBothEnds) {
  for (const Mad attribute :
       {Mad::kMra, Mad::kRej, Mad::kRep, Mad::kRtu, Mad::kDreq, Mad::kDrep, Mad::kLap, Mad::kApr}) {
    const auto mad = MadSpec{.attribute = attribute, .first_id = 5, .second_id = 9}.Build();
    const auto message = CmMessage::Parse(mad.data());
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->service_id, std::nullopt);
    EXPECT_EQ(message->sender_id, 5u);
    EXPECT_EQ(message->recipient_id, 9u);
  }
}

TEST(CmMessageTest, ServiceResolutionReplyNamesTheAskerAndTheService) {
  const auto mad =
      MadSpec{.attribute = Mad::kSidrRep, .first_id = 5, .second_id = 9, .answer_service = kService}
          .Build();
  const auto message = CmMessage::Parse(mad.data());
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->service_id, kService);
  EXPECT_EQ(message->sender_id, std::nullopt);
  EXPECT_EQ(message->recipient_id, 5u);
}

TEST(CmMessageTest, OtherClassesAndMessagesAreNone) {
  const auto good = MadSpec{}.Build();
  ASSERT_TRUE(CmMessage::Parse(good.data()).has_value());
  for (const auto& [offset, byte] : {std::pair{1, 0x03}, {2, 1}, {17, 0x0f}, {17, 0x1b}, {16, 1}}) {
    auto mad = good;
    mad[static_cast<size_t>(offset)] = static_cast<uint8_t>(byte);
    EXPECT_FALSE(CmMessage::Parse(mad.data()).has_value()) << offset;
  }
}

}  // namespace
}  // namespace uroce::nic
