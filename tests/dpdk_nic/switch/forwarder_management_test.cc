// Messages of the connection manager: between processes of the host, and requests for services
// without a listener.
#include <gtest/gtest.h>

#include <optional>
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
using transport::cm::RejectReason;
using Frame = std::vector<uint8_t>;
using Frames = std::vector<Frame>;

constexpr uint64_t kService = 0x0106'1d2f;
constexpr auto kAlmost = ConnectionRequests::kHoldFor - transport::Milliseconds(1);

// A MAD between two processes of this host, which have the same address.
RoceSpec Between(const MadSpec& mad) {
  RoceSpec spec = Management(mad, ToWire(kUdSendOnly));
  spec.destination = kOurIpv4;
  return spec;
}
MadSpec RequestOf(Block sender, uint32_t number = 1) {
  return {.attribute = Mad::kReq,
          .first_id = CommunicationId(sender, number),
          .request_service = kService};
}
// A request from the host beyond the wire.
Frame RequestFromWire(uint32_t id = 9, Mad attribute = Mad::kReq) {
  const MadSpec mad{.attribute = attribute, .first_id = id, .request_service = kService};
  return Management(mad, RoceSpec{}).Build();
}

struct Answer {
  Packet packet;
  transport::cm::ParsedMad mad;
};
// The parsed frame and its MAD; none if either is malformed.
std::optional<Answer> AnswerIn(const Frame& frame) {
  Answer answer;
  if (ParseFrame(frame, answer.packet) != transport::DropReason::kNone) return std::nullopt;
  answer.mad = transport::cm::ParseMessage(answer.packet.payload);
  if (answer.mad.malformed != transport::cm::Malformed::kNone) return std::nullopt;
  return answer;
}

class ForwarderManagementTest : public ::testing::Test {
 protected:
  ForwarderManagementTest() {
    rig_.Process(kAlice);
    rig_.Process(kBob);
  }

  void Listen(Block block) {
    ASSERT_EQ(rig_.forwarder.table().services().Add(block, ListenTo(kService)), 0);
  }
  void Send(Block block, const Frame& frame) { ASSERT_TRUE(rig_.Process(block).Send(frame)); }
  void Pass(transport::Duration time) {
    rig_.RunOnce(time);
    rig_.Run();
  }

  ForwarderRig rig_;
};

TEST_F(ForwarderManagementTest, ProcessesOfTheHostReachEachOthersListenersAndConnections) {
  Listen(kBob);
  const Frame request = Between(RequestOf(kAlice)).Build();
  const Frame reply = Between({.attribute = Mad::kRep,
                               .first_id = CommunicationId(kBob, 2),
                               .second_id = CommunicationId(kAlice, 1)})
                          .Build();
  Send(kAlice, request);
  Send(kBob, reply);
  rig_.Run();
  EXPECT_EQ(rig_.Process(kBob).Receive(), Frames{request});
  EXPECT_EQ(rig_.Process(kAlice).Receive(), Frames{reply});
  EXPECT_TRUE(rig_.cable->TakeSent().empty());
}

TEST_F(ForwarderManagementTest, ProcessReachesItsOwnListener) {
  Listen(kAlice);
  const Frame request = Between(RequestOf(kAlice)).Build();
  Send(kAlice, request);
  rig_.Run();
  EXPECT_EQ(rig_.Process(kAlice).Receive(), Frames{request});
}

TEST_F(ForwarderManagementTest, ProcessSpeaksForNoOther) {
  Listen(kBob);
  Send(kAlice, Between(RequestOf(kBob)).Build());
  Send(kAlice, Between({.attribute = Mad::kDreq,
                        .first_id = CommunicationId(kBob + 1, 1),
                        .second_id = CommunicationId(kBob, 1)})
                   .Build());
  rig_.Run();
  EXPECT_TRUE(rig_.Process(kBob).Receive().empty());
  EXPECT_EQ(rig_.counters().dropped_foreign_source, 2u);
}

// A server closes a listener and creates the next one meanwhile.
TEST_F(ForwarderManagementTest, RequestIsHeldUntilItsServiceHasAListener) {
  const Frame from_wire = RequestFromWire();
  const Frame from_alice = Between(RequestOf(kAlice)).Build();
  rig_.cable->Deliver(from_wire);
  Send(kAlice, from_alice);
  rig_.Run();
  Pass(kAlmost);
  EXPECT_TRUE(rig_.Process(kBob).Receive().empty());
  EXPECT_LT(rig_.forwarder.PlanSleep().until, transport::kNever);
  Listen(kBob);
  rig_.Run();
  EXPECT_EQ(rig_.Process(kBob).Receive(), (Frames{from_wire, from_alice}));
  Pass(ConnectionRequests::kHoldFor);
  EXPECT_TRUE(rig_.cable->TakeSent().empty());
  EXPECT_TRUE(rig_.Process(kAlice).Receive().empty());
}

TEST_F(ForwarderManagementTest, RequestWithoutListenerIsRefusedAsByLinux) {
  rig_.cable->Deliver(RequestFromWire(9));
  rig_.Run();
  EXPECT_TRUE(rig_.cable->TakeSent().empty());
  Pass(ConnectionRequests::kHoldFor);
  const Frames sent = rig_.cable->TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  const auto answer = AnswerIn(sent[0]);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->packet.flow.source, kOurIpv4);
  EXPECT_EQ(answer->packet.flow.destination, kFarIpv4);
  EXPECT_EQ(answer->packet.destination_qpn, kManagementQpn);
  EXPECT_EQ(answer->packet.deth.qkey, transport::kGeneralServicesQkey);
  const auto* rej = std::get_if<transport::cm::Rej>(&answer->mad.message);
  ASSERT_NE(rej, nullptr);
  EXPECT_EQ(rej->reason, RejectReason::kInvalidServiceId);
  EXPECT_EQ(rej->remote_id.value, 9u);
  EXPECT_EQ(rig_.counters().dropped_unknown_destination, 1u);
}

TEST_F(ForwarderManagementTest, ResolutionWithoutListenerIsNotSupported) {
  rig_.cable->Deliver(RequestFromWire(9, Mad::kSidrReq));
  rig_.Run();
  Pass(ConnectionRequests::kHoldFor);
  const Frames sent = rig_.cable->TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  const auto answer = AnswerIn(sent[0]);
  ASSERT_TRUE(answer.has_value());
  const auto* reply = std::get_if<transport::cm::SidrRep>(&answer->mad.message);
  ASSERT_NE(reply, nullptr);
  EXPECT_EQ(reply->status, transport::cm::SidrStatus::kUnsupportedService);
}

TEST_F(ForwarderManagementTest, RequestOfAProcessIsRefusedWithOrWithoutAWire) {
  for (const bool has_wire : {true, false}) {
    ForwarderRig rig({.has_wire = has_wire});
    ASSERT_TRUE(rig.Process(kAlice).Send(Between(RequestOf(kAlice)).Build()));
    rig.Run();
    rig.RunOnce(ConnectionRequests::kHoldFor);
    rig.Run();
    const Frames received = rig.Process(kAlice).Receive();
    ASSERT_EQ(received.size(), 1u);
    const auto answer = AnswerIn(received[0]);
    ASSERT_TRUE(answer.has_value());
    const auto* rej = std::get_if<transport::cm::Rej>(&answer->mad.message);
    ASSERT_NE(rej, nullptr);
    EXPECT_EQ(rej->remote_id.value, CommunicationId(kAlice, 1));
  }
}

TEST_F(ForwarderManagementTest, RepeatedRequestIsHeldOnce) {
  for (int i = 0; i < 5; ++i) rig_.cable->Deliver(RequestFromWire());
  rig_.Run();
  Listen(kBob);
  rig_.Run();
  EXPECT_EQ(rig_.Process(kBob).Receive(), Frames{RequestFromWire()});
}

// Requests beyond the bound are refused at once, and the other processes have room.
TEST_F(ForwarderManagementTest, FloodOfRequestsIsBounded) {
  constexpr uint32_t kFlood = 1'000;
  for (uint32_t i = 0; i < kFlood; ++i) {
    rig_.cable->Deliver(RequestFromWire(100 + i));
    Send(kAlice, Between(RequestOf(kAlice, 1 + i)).Build());
    rig_.Run();
    rig_.Process(kAlice).Receive();
  }
  EXPECT_EQ(rig_.cable->TakeSent().size(), kFlood - ConnectionRequests::kMaxHeldOfOne);
  const Frame from_bob = Between(RequestOf(kBob)).Build();
  Send(kBob, from_bob);
  rig_.Run();
  Listen(kBob);
  rig_.Run();
  const Frames received = rig_.Process(kBob).Receive();
  EXPECT_EQ(received.back(), from_bob);
  EXPECT_EQ(received.size(), 2 * ConnectionRequests::kMaxHeldOfOne + 1);
}

// One host asks for much, and the others of the wire have room all the same.
TEST_F(ForwarderManagementTest, HostsOfTheWireHaveAShareEach) {
  for (uint32_t i = 0; i < 2 * ConnectionRequests::kMaxHeldOfOne; ++i) {
    rig_.cable->Deliver(RequestFromWire(100 + i));
    rig_.Run();
  }
  RoceSpec spec =
      Management({.attribute = Mad::kReq, .first_id = 9, .request_service = kService}, RoceSpec{});
  spec.source = Gid::FromIpv4({192, 0, 2, 99});
  const Frame of_another = spec.Build();
  rig_.cable->Deliver(of_another);
  rig_.Run();
  Listen(kBob);
  rig_.Run();
  const Frames received = rig_.Process(kBob).Receive();
  EXPECT_EQ(received.size(), ConnectionRequests::kMaxHeldOfOne + 1);
  EXPECT_EQ(received.back(), of_another);
}

// A host that has many addresses, or forges them.
TEST_F(ForwarderManagementTest, WireLeavesRoomForRequestsOfProcesses) {
  for (uint32_t i = 0; i < 2 * ConnectionRequests::kMaxHeld; ++i) {
    RoceSpec spec = Management({.attribute = Mad::kReq, .first_id = 9, .request_service = kService},
                               RoceSpec{});
    spec.source = Gid::FromIpv4({198, 51, 100, static_cast<uint8_t>(i)});
    spec.source.bytes[13] = static_cast<uint8_t>(i / 256);
    rig_.cable->Deliver(spec.Build());
    rig_.Run();
  }
  const Frame from_alice = Between(RequestOf(kAlice)).Build();
  Send(kAlice, from_alice);
  rig_.Run();
  EXPECT_TRUE(rig_.Process(kAlice).Receive().empty()) << "held, and not refused";
  Listen(kBob);
  rig_.RunFor(transport::Milliseconds(5));
  const Frames received = rig_.Process(kBob).Receive();
  EXPECT_EQ(received.size(), ConnectionRequests::kMaxHeldOfWire + 1);
  EXPECT_EQ(received.back(), from_alice);
}

// Alice asks for a thousand connections at once. Requests must not be lost: they would be repeated
// only after seconds.
TEST_F(ForwarderManagementTest, RequestsWaitForASlowReceiver) {
  Listen(kBob);
  constexpr uint32_t kRequests = 1'000;
  size_t received = 0;
  for (uint32_t sent = 0; sent < kRequests;) {
    while (sent < kRequests &&
           rig_.Process(kAlice).Send(Between(RequestOf(kAlice, 1 + sent)).Build())) {
      ++sent;
    }
    Pass(transport::Milliseconds(1));
    EXPECT_EQ(rig_.forwarder.PlanSleep().kind, SleepPlan::Kind::kNap);
    received += rig_.Process(kBob).Receive().size();
  }
  rig_.RunFor(transport::Milliseconds(5));
  received += rig_.Process(kBob).Receive().size();
  rig_.RunFor(transport::Milliseconds(5));
  received += rig_.Process(kBob).Receive().size();
  EXPECT_EQ(received, kRequests);
  EXPECT_EQ(rig_.counters().dropped_no_room, 0u);
}

// The switch does not stop the wire for one process, and still loses none of its messages.
TEST_F(ForwarderManagementTest, MessagesFromTheWireAreQueuedForASlowReceiver) {
  Listen(kBob);
  Frames sent;
  for (uint32_t i = 0; i < 3 * kSlots; ++i) {
    sent.push_back(RequestFromWire(100 + i));
    rig_.cable->Deliver(sent.back());
  }
  rig_.Run();
  EXPECT_EQ(rig_.forwarder.PlanSleep().kind, SleepPlan::Kind::kNap);
  Frames received;
  for (int i = 0; i < 4; ++i) {
    for (Frame& frame : rig_.Process(kBob).Receive()) received.push_back(std::move(frame));
    rig_.RunFor(transport::Milliseconds(5));
  }
  EXPECT_EQ(received, sent);
  EXPECT_EQ(rig_.forwarder.PlanSleep().kind, SleepPlan::Kind::kSleep);
}

TEST_F(ForwarderManagementTest, QueueOfMessagesIsBoundedAndEndsAfterAWhile) {
  Listen(kBob);
  constexpr uint32_t kTooMany = 10;
  for (uint32_t i = 0; i < kSlots + Uplink::kMaxMessages + kTooMany; ++i) {
    rig_.cable->Deliver(RequestFromWire(100 + i));
  }
  rig_.Run();
  EXPECT_EQ(rig_.counters().dropped_no_room, kTooMany);
  rig_.RunFor(Uplink::kMessagesWaitFor);
  EXPECT_EQ(rig_.Process(kBob).Receive().size(), kSlots);
  rig_.RunFor(transport::Milliseconds(5));
  EXPECT_TRUE(rig_.Process(kBob).Receive().empty());
  EXPECT_EQ(rig_.counters().dropped_no_room, kTooMany + Uplink::kMaxMessages);
}

TEST_F(ForwarderManagementTest, AllRequestsOfAFloodAreRefused) {
  constexpr uint32_t kRequests = 1'000;
  for (uint32_t i = 0; i < kRequests; ++i) {
    Send(kAlice, Between(RequestOf(kAlice, 1 + i)).Build());
    if (i % kSlots == kSlots - 1) rig_.RunFor(transport::Milliseconds(20));
  }
  size_t received = 0;
  for (int i = 0; i < 10; ++i) {
    rig_.RunFor(ConnectionRequests::kHoldFor);
    received += rig_.Process(kAlice).Receive().size();
  }
  EXPECT_EQ(received, kRequests);
}

// A receiver that sleeps for ever delays other messages only once.
TEST_F(ForwarderManagementTest, ReceiverThatTakesNothingIsWaitedForOnce) {
  Listen(kBob);
  constexpr uint32_t kTooMany = 20;
  for (uint32_t i = 0; i < kSlots / 2 + kTooMany; ++i) {
    if (i == kSlots / 2) rig_.RunFor(transport::Milliseconds(1));  // the share of one process
    Send(kAlice, Between(RequestOf(kAlice, 1 + i)).Build());
  }
  Send(kAlice, DatagramToWire(QpOf(kAlice, 1)).Build());
  rig_.RunFor(WaitBudget::kMost - transport::Milliseconds(2));
  EXPECT_TRUE(rig_.cable->TakeSent().empty());
  rig_.RunFor(transport::Milliseconds(10));
  EXPECT_EQ(rig_.cable->TakeSent().size(), 1u);
  EXPECT_EQ(rig_.counters().dropped_no_room, kTooMany);
  Send(kAlice, Between(RequestOf(kAlice)).Build());
  Send(kAlice, DatagramToWire(QpOf(kAlice, 1)).Build());
  Pass(transport::Milliseconds(1));
  EXPECT_EQ(rig_.cable->TakeSent().size(), 1u);
}

TEST_F(ForwarderManagementTest, MessagesBeyondAProcessesShareWaitForTheNextMillisecond) {
  Listen(kBob);
  size_t received = 0;
  for (uint32_t i = 0; i < Forwarder::kLocalDatagrams + 44; ++i) {
    Send(kAlice, Between(RequestOf(kAlice, 1 + i)).Build());
    rig_.forwarder.RunOnce(rig_.now);
    received += rig_.Process(kBob).Receive().size();
  }
  EXPECT_EQ(received, Forwarder::kLocalDatagrams);
  Pass(transport::Milliseconds(1));
  EXPECT_EQ(rig_.Process(kBob).Receive().size(), 44u);
}

TEST_F(ForwarderManagementTest, RequestsOfARemovedProcessAreForgotten) {
  Send(kAlice, Between(RequestOf(kAlice)).Build());
  rig_.Run();
  rig_.forwarder.Remove(rig_.now, kAlice);
  Listen(kBob);
  Pass(ConnectionRequests::kHoldFor);
  EXPECT_TRUE(rig_.Process(kBob).Receive().empty());
}

// A peer that got no answer sends REJ "timeout", which names no id of the receiver.
TEST_F(ForwarderManagementTest, RejectThatNamesNoReceiverGoesWhereTheRequestWent) {
  Listen(kBob);
  rig_.cable->Deliver(RequestFromWire(9));
  rig_.Run();
  rig_.Process(kBob).Receive();
  const auto reject = [](uint32_t id) {
    return Management({.attribute = Mad::kRej, .first_id = id, .second_id = 0}, RoceSpec{}).Build();
  };
  rig_.cable->Deliver(reject(9));
  rig_.cable->Deliver(reject(10));
  rig_.Run();
  EXPECT_EQ(rig_.Process(kBob).Receive(), Frames{reject(9)});
  EXPECT_TRUE(rig_.Process(kAlice).Receive().empty());
  EXPECT_EQ(rig_.counters().dropped_unknown_destination, 1u);
}

}  // namespace
}  // namespace uroce::nic
