// The ends of connections: of processes that die, and of processes that are stopped; and replies
// that make no connection.
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "tests/dpdk_nic/switch/forwarder_rig.h"
#include "tests/dpdk_nic/switch/switch_frames.h"
#include "transport/cm/message_codec.h"
#include "transport/cm/messages.h"
#include "transport/wire/frame_parser.h"

namespace uroce::nic {
namespace {

using control::Block;
using transport::Gid;
using transport::Packet;
using transport::cm::Drep;
using transport::cm::Dreq;
using transport::cm::Rej;
using transport::cm::RejectReason;
using transport::cm::Rep;
using transport::cm::Req;
using transport::cm::Rtu;
using Frame = std::vector<uint8_t>;
using Frames = std::vector<Frame>;

constexpr uint64_t kService = 0x0106'1d2f;
constexpr uint32_t kFarId = 0xabc'0009;
constexpr uint32_t kBobId = CommunicationId(kBob, 5);
constexpr uint32_t kAliceId = CommunicationId(kAlice, 6);
constexpr uint64_t kTransaction = 0x1234;
constexpr transport::Qpn kFarQpn{0x777};

// A complete MAD with `message`.
Frame Whole(RoceSpec spec, const transport::cm::Message& message) {
  spec = Management({}, spec);
  const transport::MadBytes mad = transport::cm::EmitMessage(kTransaction, message);
  spec.payload.assign(mad.begin(), mad.end());
  return spec.Build();
}
Frame FromWire(const transport::cm::Message& message) { return Whole(RoceSpec{}, message); }
Frame FromProcess(const transport::cm::Message& message) {
  return Whole(ToWire(kUdSendOnly), message);
}
// Between two processes of this host.
Frame Between(const transport::cm::Message& message) {
  RoceSpec spec = ToWire(kUdSendOnly);
  spec.destination = kOurIpv4;
  return Whole(spec, message);
}

// The message in a frame between our host and the far one; none if it is malformed.
transport::cm::ParsedMad MadIn(const Frame& frame) {
  Packet packet;
  transport::cm::ParsedMad mad;
  EXPECT_EQ(ParseFrame(frame, packet), transport::DropReason::kNone);
  mad = transport::cm::ParseMessage(packet.payload);
  EXPECT_EQ(mad.malformed, transport::cm::Malformed::kNone);
  return mad;
}
template <class Message>
std::optional<Message> MessageIn(const Frames& frames) {
  if (frames.size() != 1) return std::nullopt;
  const transport::cm::ParsedMad mad = MadIn(frames[0]);
  const auto* const message = std::get_if<Message>(&mad.message);
  return message == nullptr ? std::nullopt : std::optional(*message);
}

class ForwarderDisconnectTest : public ::testing::Test {
 protected:
  ForwarderDisconnectTest() {
    rig_.Process(kAlice);
    rig_.Process(kBob);
    EXPECT_EQ(rig_.forwarder.table().services().Add(kBob, ListenTo(kService)), 0);
  }

  void Send(Block block, const Frame& frame) { ASSERT_TRUE(rig_.Process(block).Send(frame)); }
  void Deliver(const Frame& frame) {
    rig_.cable->Deliver(frame);
    rig_.Run();
  }
  Frames SentBy(Block block) { return rig_.Process(block).Receive(); }
  // Removes the process. Returns what the switch sends on the wire.
  Frames Die(Block block) {
    rig_.forwarder.Remove(rig_.now, block);
    return rig_.cable->TakeSent();
  }

  // Bob answers a request of the host beyond the wire.
  void Answer() {
    Deliver(FromWire(Req{.local_id = {kFarId}, .service_id = {kService}, .local_qpn = kFarQpn}));
    Send(kBob,
         FromProcess(Rep{.local_id = {kBobId}, .remote_id = {kFarId}, .local_qpn = QpOf(kBob, 1)}));
    rig_.Run();
    rig_.cable->TakeSent();
  }
  // ... which then has a connection with him.
  void Accept() {
    Answer();
    Deliver(FromWire(Rtu{.local_id = {kFarId}, .remote_id = {kBobId}}));
    SentBy(kBob);
  }
  // Alice connects to Bob.
  void ConnectLocally(uint32_t number) {
    const uint32_t alice = CommunicationId(kAlice, number);
    const uint32_t bob = CommunicationId(kBob, number);
    Send(kAlice,
         Between(Req{
             .local_id = {alice}, .service_id = {kService}, .local_qpn = QpOf(kAlice, number)}));
    Pass();
    Send(kBob,
         Between(Rep{.local_id = {bob}, .remote_id = {alice}, .local_qpn = QpOf(kBob, number)}));
    Pass();
    Send(kAlice, Between(Rtu{.local_id = {alice}, .remote_id = {bob}}));
    Pass();
    SentBy(kAlice);
    SentBy(kBob);
  }
  void Pass() {
    rig_.RunOnce(transport::Microseconds(10));
    rig_.Run();
  }
  static Frame FarDreq() {
    return FromWire(Dreq{.local_id = {kFarId}, .remote_id = {kBobId}, .remote_qpn = QpOf(kBob, 1)});
  }

  ForwarderRig rig_;
};

TEST_F(ForwarderDisconnectTest, ConnectionsThatADeadProcessAcceptedEnd) {
  Accept();
  const Frames sent = Die(kBob);
  const auto dreq = MessageIn<Dreq>(sent);
  ASSERT_TRUE(dreq.has_value());
  EXPECT_EQ(dreq->local_id.value, kBobId);
  EXPECT_EQ(dreq->remote_id.value, kFarId);
  EXPECT_EQ(dreq->remote_qpn, kFarQpn);
  Packet packet;
  ASSERT_EQ(ParseFrame(sent[0], packet), transport::DropReason::kNone);
  EXPECT_EQ(packet.flow.source, kOurIpv4);
  EXPECT_EQ(packet.flow.destination, kFarIpv4);
  EXPECT_TRUE(Die(kBob).empty()) << "once";
}

TEST_F(ForwarderDisconnectTest, ConnectionsThatADeadProcessAskedForEnd) {
  Send(kAlice, FromProcess(Req{.local_id = {kAliceId}, .local_qpn = QpOf(kAlice, 1)}));
  rig_.Run();
  Deliver(FromWire(Rep{.local_id = {kFarId}, .remote_id = {kAliceId}, .local_qpn = kFarQpn}));
  Send(kAlice, FromProcess(Rtu{.local_id = {kAliceId}, .remote_id = {kFarId}}));
  rig_.Run();
  rig_.cable->TakeSent();
  const auto dreq = MessageIn<Dreq>(Die(kAlice));
  ASSERT_TRUE(dreq.has_value());
  EXPECT_EQ(dreq->local_id.value, kAliceId);
  EXPECT_EQ(dreq->remote_id.value, kFarId);
  EXPECT_EQ(dreq->remote_qpn, kFarQpn);
}

// The target of an XRC connection names its queue pair in another field.
TEST_F(ForwarderDisconnectTest, ConnectionToAnXrcTargetEnds) {
  Send(kAlice, FromProcess(Req{.local_id = {kAliceId}, .local_qpn = QpOf(kAlice, 1)}));
  rig_.Run();
  Deliver(
      FromWire(Rep{.local_id = {kFarId}, .remote_id = {kAliceId}, .local_eecn = kFarQpn.value}));
  Send(kAlice, FromProcess(Rtu{.local_id = {kAliceId}, .remote_id = {kFarId}}));
  rig_.Run();
  rig_.cable->TakeSent();
  const auto dreq = MessageIn<Dreq>(Die(kAlice));
  ASSERT_TRUE(dreq.has_value());
  EXPECT_EQ(dreq->remote_qpn, kFarQpn);
}

// A DREQ would mean nothing to a peer that has not said RTU.
TEST_F(ForwarderDisconnectTest, ConnectionThatADeadProcessWasMakingIsRejected) {
  Answer();
  const auto by_replier = MessageIn<Rej>(Die(kBob));
  ASSERT_TRUE(by_replier.has_value());
  EXPECT_EQ(by_replier->local_id.value, kBobId);
  EXPECT_EQ(by_replier->remote_id.value, kFarId);
  EXPECT_EQ(by_replier->reason, RejectReason::kConsumerDefined);
  EXPECT_EQ(by_replier->message, transport::cm::Answered::kOther);

  Send(kAlice, FromProcess(Req{.local_id = {kAliceId}, .local_qpn = QpOf(kAlice, 1)}));
  rig_.Run();
  Deliver(FromWire(Rep{.local_id = {kFarId}, .remote_id = {kAliceId}, .local_qpn = kFarQpn}));
  rig_.cable->TakeSent();
  const auto by_requester = MessageIn<Rej>(Die(kAlice));
  ASSERT_TRUE(by_requester.has_value());
  EXPECT_EQ(by_requester->message, transport::cm::Answered::kRep);
}

TEST_F(ForwarderDisconnectTest, LocalPeerOfADeadProcessReceivesADreq) {
  ConnectLocally(7);
  rig_.forwarder.Remove(rig_.now, kAlice);
  const auto dreq = MessageIn<Dreq>(SentBy(kBob));
  ASSERT_TRUE(dreq.has_value());
  EXPECT_EQ(dreq->remote_id.value, CommunicationId(kBob, 7));
  EXPECT_EQ(dreq->remote_qpn, QpOf(kBob, 7));
  Send(kBob, Between(Drep{.local_id = {CommunicationId(kBob, 7)},
                          .remote_id = {CommunicationId(kAlice, 7)}}));
  rig_.Run();
  rig_.Restart(kAlice);
  rig_.forwarder.Remove(rig_.now, kBob);
  rig_.Run();
  EXPECT_TRUE(SentBy(kAlice).empty()) << "his DREP has ended it";
}

TEST_F(ForwarderDisconnectTest, ProcessHearsOfTheEndsOfAThousandConnections) {
  constexpr uint32_t kConnections = 1'000;
  for (uint32_t i = 1; i <= kConnections; ++i) ConnectLocally(i);
  rig_.forwarder.Remove(rig_.now, kAlice);
  size_t received = 0;
  for (int i = 0; i < 8; ++i) {
    received += SentBy(kBob).size();
    rig_.RunFor(transport::Milliseconds(1));
  }
  EXPECT_EQ(received, kConnections);
}

// Bob is stopped when his thousand peers end. He hears of it when he goes on.
TEST_F(ForwarderDisconnectTest, StoppedProcessHearsOfAThousandEndsAfterwards) {
  constexpr uint32_t kConnections = 1'000;
  for (uint32_t i = 1; i <= kConnections; ++i) ConnectLocally(i);
  rig_.forwarder.Remove(rig_.now, kAlice);
  rig_.RunFor(Uplink::kMessagesWaitFor + transport::Milliseconds(10));
  EXPECT_EQ(rig_.counters().dropped_no_room, 0u);
  EXPECT_EQ(rig_.forwarder.PlanSleep().kind, SleepPlan::Kind::kSleep) << "no polling meanwhile";
  size_t received = 0;
  for (int i = 0; i < 8; ++i) {
    received += SentBy(kBob).size();
    rig_.RunFor(ConnectionTracker::kAnswerWithin + transport::Milliseconds(1));
  }
  EXPECT_EQ(received, kConnections);
}

TEST_F(ForwarderDisconnectTest, ConnectionsThatHaveEndedAreForgotten) {
  Accept();
  Send(kBob, FromProcess(Dreq{.local_id = {kBobId}, .remote_id = {kFarId}}));
  rig_.Run();
  rig_.cable->TakeSent();
  EXPECT_TRUE(Die(kBob).empty());
}

TEST_F(ForwarderDisconnectTest, StrangerEndsNoConnection) {
  Accept();
  RoceSpec spec =
      Management({.attribute = Mad::kDreq, .first_id = kFarId, .second_id = kBobId}, RoceSpec{});
  spec.source = Gid::FromIpv4({192, 0, 2, 99});
  Deliver(spec.Build());
  EXPECT_TRUE(MessageIn<Dreq>(Die(kBob)).has_value());
}

// --- a DREQ without an answer

TEST_F(ForwarderDisconnectTest, DreqIsAnsweredWhenItsReceiverDies) {
  Accept();
  Deliver(FarDreq());
  EXPECT_EQ(SentBy(kBob), Frames{FarDreq()});
  const Frames sent = Die(kBob);
  const auto drep = MessageIn<Drep>(sent);
  ASSERT_TRUE(drep.has_value());
  EXPECT_EQ(drep->local_id.value, kBobId);
  EXPECT_EQ(drep->remote_id.value, kFarId);
  EXPECT_EQ(MadIn(sent[0]).header.transaction_id, kTransaction);
}

TEST_F(ForwarderDisconnectTest, DreqForAProcessThatIsGoneIsAnswered) {
  Die(kBob);
  Deliver(FarDreq());
  const auto drep = MessageIn<Drep>(rig_.cable->TakeSent());
  ASSERT_TRUE(drep.has_value());
  EXPECT_EQ(drep->local_id.value, kBobId);
  EXPECT_EQ(drep->remote_id.value, kFarId);
  Send(kAlice, Between(Dreq{.local_id = {kAliceId}, .remote_id = {kBobId}}));
  rig_.Run();
  EXPECT_TRUE(MessageIn<Drep>(SentBy(kAlice)).has_value());
  EXPECT_EQ(rig_.counters().dropped_unknown_destination, 0u);
}

// A process may be connected to uroced's predecessor, and come in a moment.
TEST_F(ForwarderDisconnectTest, ProcessThatWasNeverSeenIsAwaitedBeforeItsDreqIsAnswered) {
  const Frame dreq =
      FromWire(Dreq{.local_id = {kFarId}, .remote_id = {CommunicationId(kBob + 1, 1)}});
  rig_.RunOnce();
  rig_.RunOnce(Forwarder::kReattachWithin - transport::Milliseconds(1));
  Deliver(dreq);
  EXPECT_TRUE(rig_.cable->TakeSent().empty());
  rig_.RunOnce(transport::Milliseconds(1));
  Deliver(dreq);
  EXPECT_TRUE(MessageIn<Drep>(rig_.cable->TakeSent()).has_value());
}

TEST_F(ForwarderDisconnectTest, RepToAProcessThatIsGoneIsRejected) {
  Send(kAlice, FromProcess(Req{.local_id = {kAliceId}, .local_qpn = QpOf(kAlice, 1)}));
  rig_.Run();
  Die(kAlice);
  Deliver(FromWire(Rep{.local_id = {kFarId}, .remote_id = {kAliceId}, .local_qpn = kFarQpn}));
  const auto rej = MessageIn<Rej>(rig_.cable->TakeSent());
  ASSERT_TRUE(rej.has_value());
  EXPECT_EQ(rej->local_id.value, kAliceId);
  EXPECT_EQ(rej->remote_id.value, kFarId);
  EXPECT_EQ(rej->reason, RejectReason::kInvalidCommunicationId);
}

TEST_F(ForwarderDisconnectTest, DreqToAStoppedProcessIsAnsweredForIt) {
  Accept();
  Deliver(FarDreq());
  rig_.RunOnce(ConnectionTracker::kAnswerWithin - transport::Milliseconds(1));
  EXPECT_TRUE(rig_.cable->TakeSent().empty());
  EXPECT_LE(rig_.forwarder.PlanSleep().until, rig_.now + transport::Milliseconds(1));
  rig_.RunOnce(transport::Milliseconds(1));
  const Frames sent = rig_.cable->TakeSent();
  const auto drep = MessageIn<Drep>(sent);
  ASSERT_TRUE(drep.has_value());
  EXPECT_EQ(drep->local_id.value, kBobId);
  EXPECT_EQ(drep->remote_id.value, kFarId);
  EXPECT_EQ(MadIn(sent[0]).header.transaction_id, kTransaction);
  Deliver(FarDreq());  // the DREP was lost
  EXPECT_EQ(rig_.cable->TakeSent(), sent);
  EXPECT_EQ(SentBy(kBob), Frames{FarDreq()}) << "when it goes on, once";
  EXPECT_TRUE(Die(kBob).empty());
}

TEST_F(ForwarderDisconnectTest, LocalDreqToAStoppedProcessIsAnsweredForIt) {
  ConnectLocally(7);
  Send(kAlice, Between(Dreq{.local_id = {CommunicationId(kAlice, 7)},
                            .remote_id = {CommunicationId(kBob, 7)},
                            .remote_qpn = QpOf(kBob, 7)}));
  rig_.Run();
  EXPECT_TRUE(SentBy(kAlice).empty());
  rig_.RunFor(ConnectionTracker::kAnswerWithin);
  EXPECT_TRUE(MessageIn<Drep>(SentBy(kAlice)).has_value());
}

TEST_F(ForwarderDisconnectTest, ProcessThatAnswersItsDreqIsNotAnsweredFor) {
  Accept();
  Deliver(FarDreq());
  Send(kBob, FromProcess(Drep{.local_id = {kBobId}, .remote_id = {kFarId}}));
  rig_.Run();
  EXPECT_EQ(rig_.cable->TakeSent().size(), 1u);
  rig_.RunFor(ConnectionTracker::kAnswerWithin * 2);
  EXPECT_TRUE(rig_.cable->TakeSent().empty());
}

// The ring of a stopped process fills, and its peer does not repeat a DREQ that was answered.
TEST_F(ForwarderDisconnectTest, StoppedProcessGetsItsDreqWhenItHasRoom) {
  Accept();
  ConnectLocally(7);
  Frames earlier;
  for (uint32_t i = 0; i < kSlots; ++i) {
    earlier.push_back(FromWire(Req{.local_id = {1'000 + i}, .service_id = {kService}}));
    Deliver(earlier.back());
  }
  const Frame local = Between(Dreq{.local_id = {CommunicationId(kAlice, 7)},
                                   .remote_id = {CommunicationId(kBob, 7)},
                                   .remote_qpn = QpOf(kBob, 7)});
  Deliver(FarDreq());
  Send(kAlice, local);
  rig_.RunFor(Uplink::kMessagesWaitFor * 2);
  EXPECT_TRUE(MessageIn<Drep>(rig_.cable->TakeSent()).has_value());
  EXPECT_TRUE(MessageIn<Drep>(SentBy(kAlice)).has_value());
  EXPECT_EQ(SentBy(kBob), earlier);
  rig_.RunFor(ConnectionTracker::kAnswerWithin * 2);
  const Frames received = SentBy(kBob);
  EXPECT_EQ(std::set(received.begin(), received.end()), (std::set{FarDreq(), local}));
  EXPECT_EQ(rig_.counters().dropped_no_room, 0u);
}

// --- a REP without its REQ

TEST_F(ForwarderDisconnectTest, RepsWithoutTheirReqTakeNoPlace) {
  Send(kBob, FromProcess(Req{.local_id = {kBobId}, .local_qpn = QpOf(kBob, 1)}));
  rig_.Run();
  const auto rep_from = [&](const Gid& source, uint32_t id, uint32_t to) {
    RoceSpec spec;
    spec.source = source;
    Deliver(Whole(spec, Rep{.local_id = {id}, .remote_id = {to}, .local_qpn = kFarQpn}));
    SentBy(kBob);
  };
  const Gid stranger = Gid::FromIpv4({192, 0, 2, 99});
  for (uint32_t i = 0; i < ConnectionTracker::kMaxConnections; ++i) {
    rep_from(stranger, 1, CommunicationId(kBob, 100 + i));
  }
  rep_from(stranger, 1, kBobId);
  Send(kAlice, Between(Rep{.local_id = {kAliceId}, .remote_id = {kBobId}, .local_qpn = {1}}));
  rig_.Run();
  rep_from(kFarIpv4, kFarId, kBobId);
  Send(kBob, FromProcess(Rtu{.local_id = {kBobId}, .remote_id = {kFarId}}));
  rig_.Run();
  rig_.cable->TakeSent();
  const auto dreq = MessageIn<Dreq>(Die(kBob));
  ASSERT_TRUE(dreq.has_value());
  EXPECT_EQ(dreq->remote_id.value, kFarId);
  EXPECT_TRUE(Die(kAlice).empty());
}

// Requests of the wire push out only those of the wire.
TEST_F(ForwarderDisconnectTest, FloodOfRequestsMakesTheSwitchForgetNoRequestOfAProcess) {
  Send(kAlice, FromProcess(Req{.local_id = {kAliceId}, .local_qpn = QpOf(kAlice, 1)}));
  rig_.Run();
  for (uint32_t i = 0; i <= transport::kMaxQps; ++i) {
    rig_.cable->Deliver(FromWire(Req{.local_id = {1'000 + i}, .service_id = {kService}}));
    rig_.RunOnce();
    SentBy(kBob);
  }
  Deliver(FromWire(Rep{.local_id = {kFarId}, .remote_id = {kAliceId}, .local_qpn = kFarQpn}));
  rig_.cable->TakeSent();
  EXPECT_TRUE(MessageIn<Rej>(Die(kAlice)).has_value());
}

}  // namespace
}  // namespace uroce::nic
