// UD: every packet is a message, and its IP header is delivered with it (IBA 9.8.3).

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint32_t kGrh = 40;
constexpr uint64_t kBuffer = 4'096;

class UdTest : public testing::Test {
 protected:
  explicit UdTest(bool shared = false)
      : script_({.type = QpType::kUnreliableDatagram, .shared_receive_queue = shared}) {}
  ~UdTest() override {
    script_.ExpectNothingSent();
    script_.ExpectNoEvent();
  }
  PacketSpec Datagram(Psn psn) const { return Send(Position::kOnly, psn); }

  Script script_;
  const Psn first_ = script_.first_psn();
  const Psn peers_ = script_.peers_first_psn();
};

TEST_F(UdTest, DatagramCompletesOnceSent) {
  for (uint32_t i = 0; i < 3; ++i) {
    script_.PostSend(i, 0, i);
    const PacketSpec sent = script_.ExpectSent(Datagram(first_ + i).With(script_.Bytes(0, i)));
    EXPECT_EQ(sent.deth.qkey, Script::kQkey);
    EXPECT_EQ(sent.deth.source_qpn, script_.qp().qpn());
    EXPECT_FALSE(sent.ack_request);
    script_.ExpectCompletion(i);
  }
  script_.ExpectNoDeadline();
  EXPECT_EQ(script_.qp().Query().sq_psn, first_ + 3);
}

TEST_F(UdTest, TheImmediateAndTheSolicitedBitTravel) {
  SendWorkRequest request;
  request.opcode = SendOpcode::kSendWithImmediate;
  request.immediate = 0x0102'0304;
  request.solicited = true;
  EXPECT_EQ(script_.Post(request, 0, 1), Status::kOk);
  script_.ExpectSent(Datagram(first_).With(script_.Bytes(0, 1)).Immediate(0x0102'0304).Solicited());
}

// IBA 10.2.5: a Q_Key with its high bit set is controlled: the queue pair's own is sent instead.
TEST_F(UdTest, AControlledQkeyIsReplacedByOurOwn) {
  SendWorkRequest request;
  request.address = &script_.peer_address();
  request.remote_qpn = Script::kPeerQpn;
  for (const uint32_t qkey : {0x8000'0000u, 0xffff'ffffu, 0x8000'0001u}) {
    request.remote_qkey = qkey;
    EXPECT_EQ(script_.Post(request, 0, 0), Status::kOk);
    EXPECT_EQ(script_.TakeSent().at(0).deth.qkey, Script::kQkey);
  }
  request.remote_qkey = 0x7fff'ffff;
  EXPECT_EQ(script_.Post(request, 0, 0), Status::kOk);
  EXPECT_EQ(script_.TakeSent().at(0).deth.qkey, 0x7fff'ffffu);
}

// The application may change its address vector once the call has returned.
TEST_F(UdTest, TheAddressIsCopiedByThePost) {
  AddressVector address = script_.peer_address();
  address.hop_limit = 77;
  SendWorkRequest request;
  request.address = &address;
  request.remote_qpn = Script::kPeerQpn;
  request.remote_qkey = Script::kQkey;
  script_.HoldTransmit();
  EXPECT_EQ(script_.Post(request, 0, 0), Status::kOk);
  address = {};
  script_.ReleaseTransmit();
  script_.ExpectSent(Datagram(first_));
  EXPECT_EQ(script_.last_frame()[14 + 8], 77) << "TTL";
}

TEST_F(UdTest, WithoutAnAddressThereIsNoPost) {
  EXPECT_EQ(script_.qp().PostSend({}), Status::kInvalidArgument);
}

// IBA C10-10.
TEST_F(UdTest, AForeignAddressStopsTheSendQueue) {
  const AddressVector address = script_.peer_address();
  SendWorkRequest request;
  request.wr_id = 2;
  request.address = &address;
  request.remote_qpn = Script::kPeerQpn;
  request.has_foreign_address = true;
  script_.HoldTransmit();
  script_.PostSend(1, 0, 10);
  EXPECT_EQ(script_.Post(request, 0, 8), Status::kOk);
  script_.ReleaseTransmit();
  EXPECT_EQ(script_.TakeSent().size(), 1u);
  script_.ExpectCompletion(1);
  script_.ExpectCompletion(2, CompletionStatus::kLocalQpOperationError);
  script_.ExpectState(QpState::kSendQueueError);
}

// IBA C10-93.1.1.
TEST_F(UdTest, DatagramLongerThanThePortMtuStopsTheSendQueue) {
  const uint32_t most = Bytes(script_.qp().Query().path_mtu);
  EXPECT_EQ(most, 4'096u);
  script_.PostSend(1, 0, most);
  EXPECT_EQ(script_.TakeSent().size(), 1u);
  script_.ExpectCompletion(1);
  script_.PostSend(2, 0, most + 1);
  EXPECT_EQ(script_.ExpectCompletion(2, CompletionStatus::kLocalLengthError).vendor_error,
            VendorError::kDatagramTooLong);
  script_.ExpectState(QpState::kSendQueueError);
}

// IBA C10-93.1.1: no sender may send it. The receive request stays for the next datagram.
TEST_F(UdTest, ReceivedDatagramLongerThanThePortMtuIsDropped) {
  const uint32_t most = Bytes(script_.qp().Query().path_mtu);
  script_.PostReceive(1, kBuffer, 8'192);
  const PacketSpec longer = Datagram(peers_).With(std::vector<uint8_t>(most + 4));
  script_.ExpectDropped(DropReason::kMessageTooLong, longer);
  script_.ExpectNoCompletion();
  const PacketSpec longest = Datagram(peers_).With(std::vector<uint8_t>(most));
  EXPECT_EQ(script_.Inject(longest), DropReason::kNone);
  EXPECT_EQ(script_.ExpectCompletion(1).byte_length, kGrh + most);
}

// Over IPv4 the header lies in the last 20 of the 40 bytes, the first 20 are not written.
// IBA A17.4.5.2.
TEST_F(UdTest, TheHeaderComesFirst) {
  std::fill_n(script_.memory(kBuffer), kGrh, 0xee);
  script_.PostReceive(1, kBuffer, 100);
  const PacketSpec datagram = Datagram(peers_).With("hello");
  EXPECT_EQ(script_.Inject(datagram), DropReason::kNone);
  const Completion completion = script_.ExpectCompletion(1);
  EXPECT_EQ(completion.byte_length, kGrh + 5);
  EXPECT_EQ(completion.flags, Completion::kHasGrh);
  EXPECT_EQ(completion.source_qpn, Script::kPeerQpn);
  EXPECT_EQ(completion.qpn, script_.qp().qpn());
  EXPECT_EQ(script_.Bytes(kBuffer, 20), std::vector<uint8_t>(20, 0xee));
  const auto frame = script_.Frame(datagram);
  EXPECT_EQ(script_.Bytes(kBuffer + 20, 20), std::vector(frame.begin() + 14, frame.begin() + 34));
  EXPECT_EQ(script_.Bytes(kBuffer + kGrh, 5), (std::vector<uint8_t>{'h', 'e', 'l', 'l', 'o'}));
}

TEST_F(UdTest, OverIpv6TheHeaderIsTheGrh) {
  const Gid ours = script_.endpoint().config().gids[0];
  const Gid peers = Gid::LinkLocal({2, 0, 0, 0, 0, 2});
  script_.PostReceive(1, kBuffer, 100);
  const auto frame = script_.Frame(Datagram(peers_).With("hi").Immediate(5), peers, ours);
  EXPECT_EQ(script_.InjectFrame(frame), DropReason::kNone);
  const Completion completion = script_.ExpectCompletion(1);
  EXPECT_EQ(completion.byte_length, kGrh + 2);
  EXPECT_EQ(completion.flags, Completion::kHasGrh | Completion::kHasImmediate);
  EXPECT_EQ(completion.immediate_or_rkey, 5u);
  EXPECT_EQ(script_.Bytes(kBuffer, kGrh), std::vector(frame.begin() + 14, frame.begin() + 54));
}

// IBA 9.6.1.4.1.
TEST_F(UdTest, AnotherQkeyIsDroppedAndCounted) {
  script_.PostReceive(1, kBuffer, 100);
  PacketSpec datagram = Datagram(peers_);
  for (const uint32_t qkey : {1u, Script::kQkey + 1, Script::kQkey | 0x8000'0000}) {
    datagram.deth.qkey = qkey;
    script_.ExpectDropped(DropReason::kBadQkey, datagram);
  }
  script_.ExpectNoCompletion();
  EXPECT_EQ(script_.Inject(Datagram(peers_)), DropReason::kNone);
  script_.ExpectCompletion(1);
}

TEST_F(UdTest, AQkeyThatWasChangedCountsAtOnce) {
  QpAttributes attributes;
  attributes.qkey = 99;
  EXPECT_EQ(script_.qp().Modify(attributes, QpAttributeMask::kQkey), Status::kOk);
  script_.PostReceive(1, kBuffer, 100);
  script_.ExpectDropped(DropReason::kBadQkey, Datagram(peers_));
  PacketSpec datagram = Datagram(peers_);
  datagram.deth.qkey = 99;
  EXPECT_EQ(script_.Inject(datagram), DropReason::kNone);
  script_.ExpectCompletion(1);
}

TEST_F(UdTest, DatagramWithoutAReceiveRequestIsDropped) {
  script_.ExpectDropped(DropReason::kReceiverNotReady, Datagram(peers_));
}

// IBA 9.9.3.1 class D: the header needs room too, and a receive request that is too small waits for
// a smaller datagram.
TEST_F(UdTest, DatagramTooLongForItsReceiveRequestIsDropped) {
  script_.PostReceive(1, kBuffer, kGrh + 4);
  script_.ExpectDropped(DropReason::kMessageTooLong, Datagram(peers_).With("12345"));
  EXPECT_EQ(script_.Inject(Datagram(peers_).With("1234")), DropReason::kNone);
  EXPECT_EQ(script_.ExpectCompletion(1).byte_length, kGrh + 4);
  script_.PostReceive(2, kBuffer, kGrh - 1);
  script_.ExpectDropped(DropReason::kMessageTooLong, Datagram(peers_));
}

// IBA 9.8.3.
TEST_F(UdTest, PsnsAreIgnored) {
  for (const uint32_t psn : {5u, 5u, 0xff'ffffu, 0u, 0x80'0000u}) {
    script_.PostReceive(psn, kBuffer, 100);
    EXPECT_EQ(script_.Inject(Datagram(Psn(psn))), DropReason::kNone);
    script_.ExpectCompletion(psn);
  }
}

// UD is not connected: any sender that knows the Q_Key is accepted.
TEST_F(UdTest, DatagramsFromAnySourceAreAccepted) {
  script_.PostReceive(1, kBuffer, 100);
  PacketSpec datagram = Datagram(peers_);
  datagram.deth.source_qpn = Qpn{0x77'7777};
  EXPECT_EQ(script_.InjectFrame(script_.Frame(datagram, Gid::FromIpv4({192, 0, 2, 200}))),
            DropReason::kNone);
  EXPECT_EQ(script_.ExpectCompletion(1).source_qpn, Qpn{0x77'7777});
}

// IBA 9.9.3.1 class A.
TEST_F(UdTest, AReceiveRequestOfWrongMemoryEndsTheQueuePair) {
  script_.PostReceive(1, kBuffer, 100);
  script_.PostReceive(2, kBuffer, 100);
  EXPECT_EQ(script_.endpoint().memory().Deregister(script_.lkey()), Status::kOk);
  script_.Inject(Datagram(peers_).With("x"));
  script_.ExpectCompletion(1, CompletionStatus::kLocalProtectionError);
  script_.ExpectCompletion(2, CompletionStatus::kFlushed);
  script_.ExpectState(QpState::kError);
}

// IBA 9.9.3.1 class E: the receive request that the datagram took is used up.
class UdSharedTest : public UdTest {
 protected:
  UdSharedTest() : UdTest(/*shared=*/true) {}
};

TEST_F(UdSharedTest, TooLongDatagramCompletesInErrorAndQueuePairStaysInRts) {
  script_.PostReceive(1, kBuffer, kGrh + 4);
  script_.PostReceive(2, kBuffer, kGrh + 5);
  script_.ExpectDropped(DropReason::kMessageTooLong, Datagram(peers_).With("12345"));
  EXPECT_EQ(script_.ExpectCompletion(1, CompletionStatus::kLocalLengthError).vendor_error,
            VendorError::kReceiveTooSmall);
  script_.ExpectState(QpState::kReadyToSend);
  EXPECT_EQ(script_.Inject(Datagram(peers_).With("12345")), DropReason::kNone);
  script_.ExpectCompletion(2);
}

class MulticastTest : public UdTest {
 protected:
  const Gid group_ = Gid::FromIpv4({239, 1, 2, 3});

  DropReason InjectToGroup(const PacketSpec& datagram) {
    PacketSpec packet = datagram;
    packet.destination_qpn = kMulticastQpn;
    return script_.InjectFrame(script_.Frame(packet, Script::kPeerGid, group_));
  }
};

// IBA 10.5.2.
TEST_F(MulticastTest, MemberReceivesGroupDatagramsUntilDetached) {
  PacketSpec packet = Datagram(peers_).With("x");
  packet.destination_qpn = kMulticastQpn;
  const auto frame = script_.Frame(packet, Script::kPeerGid, group_);
  script_.ExpectFrameDropped(DropReason::kNotAMember, frame);

  script_.PostReceive(1, kBuffer, 100);
  EXPECT_EQ(script_.endpoint().AttachMulticast(script_.qp(), group_), Status::kOk);
  EXPECT_EQ(InjectToGroup(Datagram(peers_).With("x")), DropReason::kNone);
  EXPECT_EQ(script_.ExpectCompletion(1).byte_length, kGrh + 1);
  // The header names the group.
  EXPECT_EQ(script_.Bytes(kBuffer + 36, 4), (std::vector<uint8_t>{239, 1, 2, 3}));

  EXPECT_EQ(script_.endpoint().DetachMulticast(script_.qp(), group_), Status::kOk);
  script_.ExpectFrameDropped(DropReason::kNotAMember, frame);
}

TEST_F(MulticastTest, TheQkeyCountsForTheGroupToo) {
  EXPECT_EQ(script_.endpoint().AttachMulticast(script_.qp(), group_), Status::kOk);
  script_.PostReceive(1, kBuffer, 100);
  PacketSpec datagram = Datagram(peers_);
  datagram.deth.qkey = 1;
  EXPECT_EQ(InjectToGroup(datagram), DropReason::kBadQkey);
}

// A member's QPN does not address its group, and the multicast QPN does not address a host.
TEST_F(MulticastTest, AGroupHasOneQpn) {
  EXPECT_EQ(script_.endpoint().AttachMulticast(script_.qp(), group_), Status::kOk);
  script_.PostReceive(1, kBuffer, 100);
  PacketSpec datagram = Datagram(peers_);
  script_.ExpectFrameDropped(DropReason::kUnknownQp,
                             script_.Frame(datagram, Script::kPeerGid, group_));
  datagram.destination_qpn = kMulticastQpn;
  script_.ExpectDropped(DropReason::kUnknownQp, datagram);
}

// A member receives its own datagrams, once, whichever other members there are.
// IBA 10.5.2.
TEST_F(MulticastTest, SenderThatIsAMemberReceivesItsOwnDatagramOnce) {
  EXPECT_EQ(script_.endpoint().AttachMulticast(script_.qp(), group_), Status::kOk);
  AddressVector address = script_.peer_address();
  address.destination_gid = group_;
  address.destination_mac = {1, 0, 0x5e, 1, 2, 3};
  SendWorkRequest request;
  request.wr_id = 7;
  request.signaled = true;
  request.address = &address;
  request.remote_qpn = kMulticastQpn;
  request.remote_qkey = Script::kQkey;
  script_.PostReceive(1, kBuffer, 100);
  script_.PostReceive(2, kBuffer, 100);
  EXPECT_EQ(script_.Post(request, 0, 3), Status::kOk);
  EXPECT_EQ(script_.TakeSent().size(), 1u);
  std::vector<Completion> completions = script_.TakeCompletions();
  ASSERT_EQ(completions.size(), 2u);
  std::ranges::sort(completions, {}, &Completion::wr_id);
  EXPECT_EQ(completions[0].wr_id, 1u);
  EXPECT_EQ(completions[0].source_qpn, script_.qp().qpn());
  EXPECT_EQ(completions[1].wr_id, 7u);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
