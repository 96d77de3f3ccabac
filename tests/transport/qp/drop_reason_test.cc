// Every reason to drop a frame, in the order of the checks (IBA CA17-24). A dropped frame is not
// answered, completes nothing and changes nothing. The scripts of the responder test the answers
// that the queue pair itself gives to dropped requests.

#include <gtest/gtest.h>

#include <functional>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

using Frame = std::vector<uint8_t>;

// Offsets in a frame over IPv4.
constexpr size_t kEtherType = 12;
constexpr size_t kIp = 14;
constexpr size_t kUdp = kIp + 20;
constexpr size_t kBth = kUdp + 8;
constexpr size_t kPayload = kBth + 12;

// Corrects the checksum of a changed IP header (RFC 1071).
void FixIpChecksum(Frame& frame) {
  frame[kIp + 10] = frame[kIp + 11] = 0;
  uint32_t sum = 0;
  for (size_t i = kIp; i < kUdp; i += 2) sum += uint32_t{frame[i]} << 8 | frame[i + 1];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  frame[kIp + 10] = static_cast<uint8_t>(~sum >> 8);
  frame[kIp + 11] = static_cast<uint8_t>(~sum);
}

// Cuts the frame and adjusts all its lengths.
void CutTo(Frame& frame, size_t bytes) {
  frame.resize(bytes);
  const auto store = [&frame](size_t at, size_t value) {
    frame[at] = static_cast<uint8_t>(value >> 8);
    frame[at + 1] = static_cast<uint8_t>(value);
  };
  store(kIp + 2, bytes - kIp);
  if (bytes >= kUdp + 8) store(kUdp + 4, bytes - kUdp);
  FixIpChecksum(frame);
}

struct DamageCase {
  DropReason reason;
  const char* name;
  void (*damage)(Frame& frame);  // of a SEND of 8 bytes
};

constexpr DamageCase kDamages[] = {
    {DropReason::kTooShort, "Nothing", [](Frame& f) { f.clear(); }},
    {DropReason::kTooShort, "EthernetHeaderCut", [](Frame& f) { f.resize(kIp - 1); }},
    {DropReason::kTooShort, "IpHeaderCut", [](Frame& f) { f.resize(kUdp - 1); }},
    {DropReason::kTooShort, "UdpHeaderCut", [](Frame& f) { CutTo(f, kBth - 1); }},
    {DropReason::kTooShort, "BthCut", [](Frame& f) { CutTo(f, kPayload + 3); }},
    {DropReason::kNotIp, "Arp", [](Frame& f) { f[kEtherType + 1] = 0x06; }},
    {DropReason::kNotIp, "VlanTag", [](Frame& f) { f[kEtherType] = 0x81; }},
    {DropReason::kBadIpHeader, "Version6", [](Frame& f) { f[kIp] = 0x65; }},
    {DropReason::kBadIpHeader, "IpOptions", [](Frame& f) { f[kIp] = 0x46; }},
    {DropReason::kBadIpHeader, "IpChecksum", [](Frame& f) { f[kIp + 10] ^= 1; }},
    {DropReason::kBadIpHeader, "LongerThanTheFrame",
     [](Frame& f) {
       ++f[kIp + 3];
       FixIpChecksum(f);
     }},
    {DropReason::kBadIpHeader, "ShorterThanItsHeader",
     [](Frame& f) {
       f[kIp + 3] = 19;
       FixIpChecksum(f);
     }},
    {DropReason::kBadIpHeader, "Fragment",
     [](Frame& f) {
       f[kIp + 6] = 0x20;
       FixIpChecksum(f);
     }},
    {DropReason::kNotRoce, "Tcp",
     [](Frame& f) {
       f[kIp + 9] = 6;
       FixIpChecksum(f);
     }},
    {DropReason::kNotRoce, "AnotherPort", [](Frame& f) { ++f[kUdp + 3]; }},
    {DropReason::kBadUdpLength, "UdpLonger", [](Frame& f) { ++f[kUdp + 5]; }},
    {DropReason::kBadUdpLength, "UdpShorter", [](Frame& f) { --f[kUdp + 5]; }},
    {DropReason::kBadBthVersion, "TransportVersion", [](Frame& f) { f[kBth + 1] |= 1; }},
    {DropReason::kUnknownOpcode, "Opcode", [](Frame& f) { f[kBth] = 0x1f; }},
    {DropReason::kBadPadding, "NotAMultipleOfFour", [](Frame& f) { CutTo(f, f.size() - 1); }},
    {DropReason::kBadPadding, "MorePadThanPayload",
     [](Frame& f) {
       CutTo(f, kPayload + 4);  // the ICRC alone
       f[kBth + 1] |= 0x10;
     }},
    {DropReason::kBadPadding, "PayloadOfAnAck", [](Frame& f) { f[kBth] = 0x11; }},
    {DropReason::kBadIcrc, "Icrc", [](Frame& f) { f.back() ^= 1; }},
    {DropReason::kBadIcrc, "PayloadBit", [](Frame& f) { f[kPayload + 3] ^= 0x80; }},
    {DropReason::kBadIcrc, "PsnBit", [](Frame& f) { f[kBth + 11] ^= 1; }},
};

class DamageTest : public testing::TestWithParam<DamageCase> {};

TEST_P(DamageTest, IsDroppedInSilence) {
  Script script;
  script.PostReceive(1, 0, 64);
  Frame frame = script.Frame(Send(Position::kOnly, script.peers_first_psn()).With(Pattern(8)));
  GetParam().damage(frame);
  const uint64_t received = script.counters().received_packets;
  script.ExpectFrameDropped(GetParam().reason, frame);
  script.ExpectNothingSent();
  script.ExpectNoCompletion();
  EXPECT_EQ(script.qp().Query().rq_psn, script.peers_first_psn());
  EXPECT_EQ(script.counters().received_packets, received + 1);
}

INSTANTIATE_TEST_SUITE_P(EveryLayer, DamageTest, testing::ValuesIn(kDamages),
                         [](const auto& damage) { return std::string(damage.param.name); });

// The ICRC does not cover the header fields that change on the way (IBA CA17-22): a router may
// decrement the TTL and mark congestion.
TEST(DropReasonTest, FieldsChangedByRoutersDoNotInvalidateTheIcrc) {
  Script script;
  script.PostReceive(1, 0, 64);
  const Psn psn = script.peers_first_psn();
  Frame frame = script.Frame(Send(Position::kOnly, psn).With(Pattern(8)));
  frame[kIp + 1] = 0x03;  // congestion experienced
  frame[kIp + 8] = 1;     // TTL
  FixIpChecksum(frame);
  EXPECT_EQ(script.InjectFrame(frame), DropReason::kNone);
  script.ExpectSent(Ack(psn));
  script.ExpectCompletion(1);
}

class NotForUsTest : public testing::Test {
 protected:
  ~NotForUsTest() override {
    script_.ExpectNothingSent();
    script_.ExpectNoCompletion();
    script_.ExpectState(QpState::kReadyToSend);
    EXPECT_EQ(script_.qp().Query().rq_psn, script_.peers_first_psn());
  }

  Script script_;
  PacketSpec packet_ = Send(Position::kOnly, script_.peers_first_psn()).With("x");
};

// IBA 9.6.1.2.3.
TEST_F(NotForUsTest, AnotherDestination) {
  const Gid neighbour = Gid::FromIpv4({192, 0, 2, 3});
  script_.ExpectFrameDropped(DropReason::kForeignDestination,
                             script_.Frame(packet_, Script::kPeerGid, neighbour));
}

// IBA C9-43.
TEST_F(NotForUsTest, AnotherPartition) {
  for (const int pkey : {0x0000, 0x0001, 0x8001, 0x7ffe, 0xfffe}) {
    packet_.pkey = static_cast<uint16_t>(pkey);
    script_.ExpectDropped(DropReason::kBadPkey, packet_);
  }
}

TEST_F(NotForUsTest, NoSuchQueuePair) {
  const uint32_t ours = script_.qp().qpn().value;
  for (const uint32_t qpn : {2u, 3u, ours + 1, ours - 1, ours + 0x10'0000, 0xff'ffffu}) {
    packet_.destination_qpn = Qpn{qpn};
    script_.ExpectDropped(DropReason::kUnknownQp, packet_);
  }
}

TEST_F(NotForUsTest, GeneralServicesTakeDatagramsOnly) {
  packet_.destination_qpn = Qpn{1};
  script_.ExpectDropped(DropReason::kWrongService, packet_);
}

TEST_F(NotForUsTest, AnotherService) {
  for (const Service service : {Service::kUnreliableConnection, Service::kUnreliableDatagram}) {
    script_.ExpectDropped(DropReason::kWrongService, packet_.Of(service));
  }
}

// A connected queue pair checks the source of a packet (IBA 9.6.1.2.3).
TEST_F(NotForUsTest, AnotherSource) {
  const Gid other_gid = Gid::FromIpv4({192, 0, 2, 3});
  script_.ExpectFrameDropped(DropReason::kForeignSource, script_.Frame(packet_, other_gid));
}

// IBA 10.9.3: a limited member of our partition may talk to us, a full member.
TEST(DropReasonTest, PacketOfALimitedPartitionMemberIsAccepted) {
  Script script;
  script.PostReceive(1, 0, 64);
  PacketSpec packet = Send(Position::kOnly, script.peers_first_psn()).With("x");
  packet.pkey = 0x7fff;
  EXPECT_EQ(script.Inject(packet), DropReason::kNone);
  script.ExpectSent(Ack(packet.psn));
  script.ExpectCompletion(1);
}

// IBA 10.3.1.1.
TEST(DropReasonTest, AStateThatTakesNoPackets) {
  for (const QpState state : {QpState::kReset, QpState::kInit, QpState::kError}) {
    Script script({.state = state});
    script.ExpectDropped(DropReason::kQpNotReady, Send(Position::kOnly, script.peers_first_psn()));
    script.ExpectDropped(DropReason::kQpNotReady, Ack(script.first_psn()));
    script.ExpectNothingSent();
  }
}

// Drops by the queue pair itself. Other tests check its answers; this one checks only that each
// drop is counted under its reason.
TEST(DropReasonTest, Requests) {
  Script script;
  const Psn first = script.peers_first_psn();
  const PacketSpec write = Write(Position::kOnly, first, Script::Address(0), script.rkey(), 1);
  EXPECT_EQ(script.Inject(write.With("x")), DropReason::kNone);
  script.ExpectDropped(DropReason::kDuplicateRequest, write.With("x"));
  script.ExpectDropped(DropReason::kDuplicateNotHeld,
                       FetchAdd(first, Script::Address(0), script.rkey(), 1));
  script.ExpectDropped(DropReason::kReceiverNotReady, Send(Position::kOnly, first + 1));
  script.ExpectDropped(DropReason::kSequenceGap, Send(Position::kOnly, first + 2));
  script.ExpectDropped(DropReason::kRefused, Send(Position::kMiddle, first + 1));
  EXPECT_EQ(script.TakeSent().size(), 4u);
  script.ExpectState(QpState::kError);
}

TEST(DropReasonTest, Responses) {
  Script script;
  const Psn first = script.first_psn();
  script.PostRead(1, 0, 8);
  script.PostSend(2, 0, 8);
  script.TakeSent();
  script.ExpectDropped(DropReason::kStaleResponse, Ack(first - 1));
  script.ExpectDropped(DropReason::kStaleResponse, Ack(first + 2));
  script.ExpectDropped(DropReason::kOutOfOrderResponse, Ack(first + 1));
  script.ExpectNoCompletion();
  EXPECT_EQ(script.TakeSent().size(), 2u);  // the READ was asked for again
  script.ExpectDropped(DropReason::kMalformedResponse,
                       ReadResponse(Position::kOnly, first).With(Pattern(7)));
  script.ExpectCompletion(1, CompletionStatus::kBadResponse);
  script.ExpectCompletion(2, CompletionStatus::kFlushed);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
