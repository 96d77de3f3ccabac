// The messages of the communication manager, bit for bit. The offsets were written down again, by
// hand, from tables 106 to 120 of IBA volume 1.
#include "transport/cm/messages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "tests/simulation/random.h"
#include "transport/cm/ip_header.h"
#include "transport/cm/message_codec.h"

namespace uroce::transport::cm {
namespace {

constexpr uint64_t kTransaction = 0x0123'4567'89ab'cdef;

// Bytes from `offset` after the MAD header.
struct Piece {
  size_t offset;
  std::vector<uint8_t> bytes;
};

MadBytes Expected(uint8_t attribute, std::initializer_list<Piece> pieces) {
  MadBytes mad{1,    7,        2,    3,    0,    0,    0,    0,     //
               0x01, 0x23,     0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,  //
               0,    attribute};
  for (const Piece& piece : pieces) {
    std::copy(piece.bytes.begin(), piece.bytes.end(), &mad[24 + piece.offset]);
  }
  return mad;
}

void ExpectMessage(const Message& message, const MadBytes& expected) {
  EXPECT_EQ(EmitMessage(kTransaction, message), expected);
  const ParsedMad parsed = ParseMessage(expected);
  EXPECT_EQ(parsed.malformed, Malformed::kNone);
  EXPECT_EQ(parsed.header.transaction_id, kTransaction);
  EXPECT_TRUE(parsed.message == message);
}

Gid SomeGid(uint8_t last) { return Gid::FromIpv4({10, 0, 0, last}); }
std::vector<uint8_t> GidBytes(uint8_t last) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last};
}

PathFields SomePath() {
  return {.local_lid = 0xffff,
          .remote_lid = 0xfffe,
          .local_gid = SomeGid(1),
          .remote_gid = SomeGid(2),
          .flow_label = 0xabcde,
          .packet_rate = 0x2a,
          .traffic_class = 0x68,
          .hop_limit = 64,
          .service_level = 9,
          .subnet_local = true,
          .local_ack_timeout = 19};
}

TEST(CmMessagesTest, ReqFieldsAreAtTheOffsetsOfTable106) {
  Req req{.local_id = {0x11223344},
          .service_id = {0x0102030405060708},
          .local_ca_guid = 0x1112131415161718,
          .local_qkey = 0x21222324,
          .local_qpn = {0x313233},
          .responder_resources = 0x34,
          .local_eecn = 0x414243,
          .initiator_depth = 0x44,
          .remote_eecn = 0x515253,
          .remote_cm_response_timeout = 20,
          .transport_service_type = 3,
          .end_to_end_flow_control = true,
          .starting_psn = Psn(0x616263),
          .local_cm_response_timeout = 21,
          .retry_count = 7,
          .partition_key = 0x8001,
          .path_mtu = 5,
          .rdc_exists = true,
          .rnr_retry_count = 6,
          .max_cm_retries = 15,
          .srq = true,
          .extended_transport_type = 1,
          .primary = SomePath(),
          .alternate = SomePath(),
          .sap_supported = true};
  req.private_data.front() = 0x71;
  req.private_data.back() = 0x72;
  const std::vector<uint8_t> tail = {0xab, 0xcd, 0xe0, 0x2a, 0x68, 64, 0x98, 19 << 3};
  const std::vector<uint8_t> tail_sap = {0xab, 0xcd, 0xe0, 0x2a, 0x68, 64, 0x98, 19 << 3 | 4};
  ExpectMessage(req, Expected(0x10, {{0, {0x11, 0x22, 0x33, 0x44}},
                                     {8, {1, 2, 3, 4, 5, 6, 7, 8}},
                                     {16, {0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18}},
                                     {28, {0x21, 0x22, 0x23, 0x24}},
                                     {32, {0x31, 0x32, 0x33, 0x34}},
                                     {36, {0x41, 0x42, 0x43, 0x44}},
                                     {40, {0x51, 0x52, 0x53, 20 << 3 | 3 << 1 | 1}},
                                     {44, {0x61, 0x62, 0x63, 21 << 3 | 7}},
                                     {48, {0x80, 0x01, 5 << 4 | 1 << 3 | 6, 15 << 4 | 1 << 3 | 1}},
                                     {52, {0xff, 0xff, 0xff, 0xfe}},
                                     {56, GidBytes(1)},
                                     {72, GidBytes(2)},
                                     {88, tail},
                                     {96, {0xff, 0xff, 0xff, 0xfe}},
                                     {100, GidBytes(1)},
                                     {116, GidBytes(2)},
                                     {132, tail_sap},
                                     {140, {0x71}},
                                     {231, {0x72}}}));
}

TEST(CmMessagesTest, AnswersToReqHaveTheirFields) {
  Rep rep{.local_id = {1},
          .remote_id = {2},
          .local_qkey = 0x01020304,
          .local_qpn = {0x111213},
          .local_eecn = 0x212223,
          .starting_psn = Psn(0x313233),
          .responder_resources = 16,
          .initiator_depth = 17,
          .target_ack_delay = 15,
          .failover_accepted = 2,
          .end_to_end_flow_control = true,
          .rnr_retry_count = 7,
          .srq = true,
          .local_ca_guid = 0x4142434445464748};
  rep.private_data.front() = 0x51;
  rep.private_data.back() = 0x52;
  ExpectMessage(rep, Expected(0x13, {{0, {0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4, 0x11, 0x12, 0x13}},
                                     {16, {0x21, 0x22, 0x23}},
                                     {20, {0x31, 0x32, 0x33}},
                                     {24, {16, 17, 15 << 3 | 2 << 1 | 1, 7 << 5 | 1 << 4}},
                                     {28, {0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48}},
                                     {36, {0x51}},
                                     {231, {0x52}}}));

  Mra mra{.local_id = {1}, .remote_id = {2}, .message = Answered::kOther, .service_timeout = 24};
  mra.private_data.front() = 0x61;
  mra.private_data.back() = 0x62;
  ExpectMessage(
      mra, Expected(0x11, {{0, {0, 0, 0, 1, 0, 0, 0, 2, 2 << 6, 24 << 3, 0x61}}, {231, {0x62}}}));

  Rej rej{.local_id = {1},
          .remote_id = {2},
          .message = Answered::kRep,
          .information_bytes = 72,
          .reason = RejectReason::kStaleConnection};
  rej.additional_information.front() = 0x71;
  rej.additional_information.back() = 0x72;
  rej.private_data.front() = 0x73;
  rej.private_data.back() = 0x74;
  ExpectMessage(rej, Expected(0x12, {{0, {0, 0, 0, 1, 0, 0, 0, 2, 1 << 6, 72 << 1, 0, 10, 0x71}},
                                     {83, {0x72, 0x73}},
                                     {231, {0x74}}}));
}

TEST(CmMessagesTest, RtuDreqDrepHaveTheirFields) {
  Rtu rtu{.local_id = {1}, .remote_id = {2}};
  rtu.private_data.front() = 3;
  rtu.private_data.back() = 4;
  ExpectMessage(rtu, Expected(0x14, {{0, {0, 0, 0, 1, 0, 0, 0, 2, 3}}, {231, {4}}}));
  Drep drep{.local_id = {1}, .remote_id = {2}};
  drep.private_data.front() = 3;
  drep.private_data.back() = 4;
  ExpectMessage(drep, Expected(0x16, {{0, {0, 0, 0, 1, 0, 0, 0, 2, 3}}, {231, {4}}}));
  Dreq dreq{.local_id = {1}, .remote_id = {2}, .remote_qpn = {0x030405}};
  dreq.private_data.front() = 6;
  dreq.private_data.back() = 7;
  ExpectMessage(dreq, Expected(0x15, {{0, {0, 0, 0, 1, 0, 0, 0, 2, 3, 4, 5, 0, 6}}, {231, {7}}}));
}

TEST(CmMessagesTest, SidrHasItsFields) {
  SidrReq request{.request_id = {1}, .partition_key = 0xffff, .service_id = {0x1112131415161718}};
  request.private_data.front() = 2;
  request.private_data.back() = 3;
  ExpectMessage(request, Expected(0x17, {{0, {0, 0, 0, 1, 0xff, 0xff}},
                                         {8, {0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 2}},
                                         {231, {3}}}));
  SidrRep reply{.request_id = {1},
                .status = SidrStatus::kRejected,
                .information_bytes = 3,
                .qpn = {0x212223},
                .service_id = {0x1112131415161718},
                .qkey = 0x01234567};
  reply.additional_information.front() = 4;
  reply.additional_information.back() = 5;
  reply.private_data.front() = 6;
  reply.private_data.back() = 7;
  ExpectMessage(reply, Expected(0x18, {{0, {0, 0, 0, 1, 2, 3}},
                                       {8, {0x21, 0x22, 0x23}},
                                       {12, {0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18}},
                                       {20, {0x01, 0x23, 0x45, 0x67, 4}},
                                       {95, {5, 6}},
                                       {231, {7}}}));
}

TEST(CmMessagesTest, LapAndAprHaveTheirFields) {
  Lap lap{.local_id = {1},
          .remote_id = {2},
          .remote_qpn = {0x111213},
          .remote_cm_response_timeout = 20,
          .alternate = SomePath()};
  lap.private_data.front() = 3;
  lap.private_data.back() = 4;
  ExpectMessage(lap, Expected(0x19, {{0, {0, 0, 0, 1, 0, 0, 0, 2}},
                                     {12, {0x11, 0x12, 0x13, 20 << 3}},
                                     {20, {0xff, 0xff, 0xff, 0xfe}},
                                     {24, GidBytes(1)},
                                     {40, GidBytes(2)},
                                     {56, {0xab, 0xcd, 0xe0, 0x68, 64, 0x2a, 0x98, 19 << 3, 3}},
                                     {231, {4}}}));
  Apr apr{.local_id = {1}, .remote_id = {2}, .information_bytes = 5, .status = 6};
  apr.additional_information.front() = 7;
  apr.additional_information.back() = 8;
  apr.private_data.front() = 9;
  apr.private_data.back() = 10;
  ExpectMessage(
      apr,
      Expected(0x1a, {{0, {0, 0, 0, 1, 0, 0, 0, 2, 5, 6}}, {12, {7}}, {83, {8, 9}}, {231, {10}}}));
}

// The bits that a message uses: those that survive parsing and emitting a message of all ones.
MadBytes UsedBits(Attribute attribute) {
  MadBytes ones;
  ones.fill(0xff);
  MadHeader header = MessageHeader(static_cast<uint16_t>(attribute));
  EmitMadHeader(header, ones.data());
  // Lengths and enumerations must not be all ones.
  if (attribute == Attribute::kRej) ones[24 + 9] = 64 << 1;
  if (attribute == Attribute::kApr) ones[24 + 8] = 72;
  if (attribute == Attribute::kSidrRep) ones[24 + 5] = 72;
  if (attribute == Attribute::kMra) ones[24 + 8] = 0xbf;
  return EmitMessage(UINT64_MAX, ParseMessage(ones).message);
}

TEST(CmMessagesTest, EveryBitThatIsNotReservedSurvives) {
  simulation::Random random(1);
  for (uint16_t id = 0x10; id <= 0x1a; ++id) {
    const auto attribute = static_cast<Attribute>(id);
    const MadBytes used = UsedBits(attribute);
    for (int i = 0; i < 200; ++i) {
      MadBytes mad;
      random.Fill(mad);
      EmitMadHeader(MessageHeader(id, random.Next()), mad.data());
      const ParsedMad parsed = ParseMessage(mad);
      if (parsed.malformed != Malformed::kNone) continue;
      const MadBytes again = EmitMessage(parsed.header.transaction_id, parsed.message);
      EXPECT_TRUE(ParseMessage(again).message == parsed.message);
      if (attribute == Attribute::kRej || attribute == Attribute::kApr ||
          attribute == Attribute::kSidrRep || attribute == Attribute::kMra) {
        continue;  // the mask lacks the bits of their lengths
      }
      for (size_t at = 24; at < kMadBytes; ++at) {
        ASSERT_EQ(again[at], mad[at] & used[at]) << Name(attribute) << " byte " << at - 24;
      }
    }
  }
}

TEST(CmMessagesTest, MalformedMessagesAreClassified) {
  const MadBytes good = EmitMessage(kTransaction, Req{});
  const auto spoiled = [&good](size_t at, uint8_t value) {
    MadBytes mad = good;
    mad[at] = value;
    return ParseMessage(mad).malformed;
  };
  EXPECT_EQ(ParseMessage(good).malformed, Malformed::kNone);
  EXPECT_EQ(ParseMessage(std::span(good).first(255)).malformed, Malformed::kWrongLength);
  EXPECT_EQ(ParseMessage(std::vector<uint8_t>(257)).malformed, Malformed::kWrongLength);
  EXPECT_EQ(ParseMessage({}).malformed, Malformed::kWrongLength);
  EXPECT_EQ(spoiled(0, 2), Malformed::kBadBaseVersion);
  EXPECT_EQ(spoiled(1, 3), Malformed::kForeignClass);
  EXPECT_EQ(spoiled(2, 1), Malformed::kBadClassVersion);
  EXPECT_EQ(spoiled(3, 1), Malformed::kBadMethod);
  EXPECT_EQ(spoiled(17, 0x0f), Malformed::kUnknownAttribute);
  EXPECT_EQ(spoiled(17, 0x1b), Malformed::kUnknownAttribute);
  EXPECT_EQ(spoiled(16, 0x01), Malformed::kUnknownAttribute);

  MadBytes rej = EmitMessage(kTransaction, Rej{});
  rej[24 + 9] = 73 << 1;
  EXPECT_EQ(ParseMessage(rej).malformed, Malformed::kBadInformation);
  MadBytes mra = EmitMessage(kTransaction, Mra{});
  mra[24 + 8] = 3 << 6;
  EXPECT_EQ(ParseMessage(mra).malformed, Malformed::kBadAnswered);
}

TEST(CmMessagesTest, NamesAreThoseOfTheSpecification) {
  EXPECT_EQ(Name(Attribute::kReq), "REQ");
  EXPECT_EQ(Name(Attribute::kApr), "APR");
  EXPECT_EQ(Name(RejectReason::kStaleConnection), "stale connection");
  EXPECT_EQ(Name(RejectReason{34}), "unknown reason");
  EXPECT_EQ(Name(RejectReason{9999}), "unknown reason");
  EXPECT_EQ(Name(Malformed::kBadAnswered), "bad_answered");
}

TEST(CmMessagesTest, ServiceIdsArePortSpaceAndPort) {
  // RDMA_IB_IP_PS_TCP, RDMA_IB_IP_PS_UDP and RDMA_IB_IP_PS_IB of rdma_user_cm.h.
  EXPECT_EQ(ServiceIdOf(PortSpace::kTcp, 0x1234).value, 0x0000'0000'0106'1234u);
  EXPECT_EQ(ServiceIdOf(PortSpace::kUdp, 0x1234).value, 0x0000'0000'0111'1234u);
  EXPECT_EQ(ServiceIdOf(PortSpace::kIb, 0).value, 0x0000'0000'013f'0000u);
  EXPECT_EQ(ServiceIdOf(PortSpace::kIpoib, 1).value, 0x0000'0000'0002'0001u);
  EXPECT_EQ(PortOf(ServiceId{0x0106'1234}), 0x1234);
  EXPECT_TRUE(IsOf(PortSpace::kTcp, ServiceId{0x0106'1234}));
  EXPECT_FALSE(IsOf(PortSpace::kTcp, ServiceId{0x1'0106'1234}));
}

TEST(CmMessagesTest, IpHeaderIsThatOfRdmaCm) {
  std::array<uint8_t, IpHeader::kBytes> bytes{};
  const IpHeader ipv4{.source_port = 0x1234, .source = SomeGid(1), .destination = SomeGid(2)};
  EmitIpHeader(ipv4, bytes.data());
  const std::array<uint8_t, IpHeader::kBytes> expected = {
      0, 0x40, 0x12, 0x34, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0, 10, 0,
      0, 1,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0,  2};
  EXPECT_EQ(bytes, expected);
  EXPECT_EQ(ParseIpHeader(bytes), ipv4);

  const IpHeader ipv6{.is_ipv6 = true,
                      .source_port = 7,
                      .source = Gid::LinkLocal({2, 0, 0, 0, 0, 1}),
                      .destination = Gid::LinkLocal({2, 0, 0, 0, 0, 2})};
  EmitIpHeader(ipv6, bytes.data());
  EXPECT_EQ(bytes[1], 0x60);
  EXPECT_EQ(ParseIpHeader(bytes), ipv6);

  EXPECT_EQ(ParseIpHeader(std::span(bytes).first(35)), std::nullopt);
  bytes[1] = 0x50;
  EXPECT_EQ(ParseIpHeader(bytes), std::nullopt);
  bytes[1] = 0x60;
  bytes[0] = 1;
  EXPECT_EQ(ParseIpHeader(bytes), std::nullopt);
}

}  // namespace
}  // namespace uroce::transport::cm
