// Two communication managers connect, refuse and disconnect: message by message.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/transport/cm/manager_pair.h"
#include "transport/cm/limits.h"
#include "transport/cm/timeouts.h"
#include "transport/wire/byte_order.h"

namespace uroce::transport::cm {
namespace {

class CmConnectionTest : public testing::Test, protected ManagerPair {
 protected:
  void ExpectNothingLeft() { EXPECT_TRUE(NothingIsLeft()); }
  const Counters& counters() const { return passive.manager.counters(); }
};

TEST_F(CmConnectionTest, ReqRepRtuEstablish) {
  const CommunicationId listener = Listen();
  const CommunicationId asking = *active.manager.Create();
  ConnectParameters request = Request();
  const std::array<uint8_t, 3> hello = {1, 2, 3};
  request.private_data = hello;
  ASSERT_EQ(active.manager.Connect(now, asking, request), Status::kOk);
  EXPECT_EQ(active.manager.StateOf(asking), State::kReqSent);
  ToPassive();

  const auto asked = passive.OnlyEvent(EventKind::kReqReceived);
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->listener_id, listener);
  EXPECT_EQ(asked->source, passive.AddressOf(active));
  const Req& req = std::get<Req>(asked->message);
  EXPECT_EQ(req.local_id, asking);
  EXPECT_EQ(req.service_id, kService);
  EXPECT_EQ(req.local_ca_guid, 0x1001u);
  EXPECT_EQ(req.local_qpn, Qpn{0x111});
  EXPECT_EQ(req.path_mtu, 5);
  EXPECT_EQ(req.partition_key, 0xffff);
  EXPECT_EQ(req.primary.local_gid, active.gid);
  EXPECT_EQ(req.primary.remote_gid, passive.gid);
  EXPECT_EQ(req.primary.hop_limit, 64);
  EXPECT_EQ(req.primary.local_lid, 0xffff);  // routers may be on the path
  EXPECT_FALSE(req.primary.subnet_local);
  EXPECT_TRUE(std::equal(hello.begin(), hello.end(), req.private_data.begin()));

  ASSERT_EQ(passive.manager.Accept(now, asked->id, Acceptance()), Status::kOk);
  ToActive();
  const auto replied = active.OnlyEvent(EventKind::kRepReceived);
  ASSERT_TRUE(replied);
  const Rep& rep = std::get<Rep>(replied->message);
  EXPECT_EQ(rep.local_id, asked->id);
  EXPECT_EQ(rep.remote_id, asking);
  EXPECT_EQ(rep.target_ack_delay, kAckDelay);
  EXPECT_EQ(rep.local_ca_guid, 0x1002u);
  ASSERT_EQ(active.manager.ConfirmReady(asking, {}), Status::kOk);
  EXPECT_EQ(active.manager.StateOf(asking), State::kEstablished);
  ToPassive();
  EXPECT_TRUE(passive.OnlyEvent(EventKind::kRtuReceived));
  EXPECT_EQ(passive.manager.StateOf(asked->id), State::kEstablished);
  EXPECT_EQ(active.manager.NextDeadline(), kNever);
  EXPECT_EQ(passive.manager.NextDeadline(), kNever);
}

TEST_F(CmConnectionTest, OneLinkHasNoLids) {
  ConnectParameters request = Request();
  request.path.address.hop_limit = 1;
  (void)active.manager.Connect(now, *active.manager.Create(), request);
  const auto req = As<Req>(active.TakeMads().at(0));
  EXPECT_EQ(req->primary.local_lid, 0);
  EXPECT_TRUE(req->primary.subnet_local);
}

TEST_F(CmConnectionTest, WithoutListenerTheServiceIsInvalid) {
  const CommunicationId asking = *active.manager.Create();
  (void)active.manager.Connect(now, asking, Request());
  ToPassive();
  EXPECT_FALSE(passive.manager.HasEvent());
  EXPECT_EQ(passive.manager.id_count(), 0u);
  ToActive();
  const auto event = active.OnlyEvent(EventKind::kRejReceived);
  ASSERT_TRUE(event);
  EXPECT_EQ(std::get<Rej>(event->message).reason, RejectReason::kInvalidServiceId);
  EXPECT_EQ(active.manager.StateOf(asking), State::kIdle);
  active.manager.Destroy(now, asking);
  ExpectNothingLeft();
}

TEST_F(CmConnectionTest, UnsupportedReqIsRejectedWithTheReason) {
  Listen();
  const auto reason_of = [this](const auto& spoil) {
    (void)active.manager.Connect(now, *active.manager.Create(), Request());
    ParsedMad parsed = ParseMessage(active.TakeMads().at(0));
    spoil(std::get<Req>(parsed.message));
    passive.manager.OnMad(now, EmitMessage(1, parsed.message), passive.AddressOf(active));
    const auto answers = passive.TakeMads();
    return answers.empty() ? RejectReason{} : As<Rej>(answers[0])->reason;
  };
  EXPECT_EQ(reason_of([](Req& req) { req.transport_service_type = 2; }),
            RejectReason::kInvalidTransportType);
  EXPECT_EQ(reason_of([](Req& req) { req.transport_service_type = 3; }),
            RejectReason::kInvalidTransportType);
  EXPECT_EQ(reason_of([](Req& req) { req.path_mtu = 6; }), RejectReason::kInvalidMtu);
  EXPECT_EQ(reason_of([](Req& req) { req.path_mtu = 0; }), RejectReason::kInvalidMtu);
  EXPECT_EQ(reason_of([](Req& req) { req.primary.local_gid = {}; }), RejectReason::kInvalidGid);
  EXPECT_EQ(reason_of([](Req&) {}), RejectReason{});
}

TEST_F(CmConnectionTest, ReqIsRepeatedAtItsIntervalAndGivenUp) {
  const CommunicationId asking = *active.manager.Create();
  ConnectParameters request = Request();
  request.max_cm_retries = 3;
  request.remote_cm_response_timeout = 14;
  (void)active.manager.Connect(now, asking, request);
  // Expect: there, the peer's time, and back; the same bytes each time.
  const Duration interval = DurationOf(kLifeTime) * 2 + DurationOf(14);
  const MadBytes first = active.TakeMads().at(0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(active.manager.NextDeadline(), now + interval);
    AdvanceTo(active);
    EXPECT_EQ(active.TakeMads(), std::vector<MadBytes>{first});
  }
  EXPECT_FALSE(active.manager.HasEvent());
  AdvanceTo(active);
  EXPECT_TRUE(active.TakeMads().empty());
  EXPECT_TRUE(active.OnlyEvent(EventKind::kReqError));
  EXPECT_EQ(active.manager.counters().retries[IndexOf(Attribute::kReq)], 3u);
  active.manager.Destroy(now, asking);
  ExpectNothingLeft();
}

TEST_F(CmConnectionTest, RepIsRepeatedUntilTheRtu) {
  Listen();
  const Ends ends = Ask();
  (void)passive.manager.Accept(now, ends.passive, Acceptance());
  const MadBytes rep = passive.TakeMads().at(0);
  EXPECT_EQ(passive.manager.NextDeadline(), now + DurationOf(20));
  AdvanceTo(passive);
  EXPECT_EQ(passive.TakeMads(), std::vector<MadBytes>{rep});
  active.manager.OnMad(now, rep, active.AddressOf(passive));
  (void)active.manager.ConfirmReady(ends.active, {});
  const MadBytes rtu = active.TakeMads().at(0);  // lost
  // Expect: the same RTU for each repetition of the REP, and no event.
  (void)active.manager.TakeEvent();
  active.manager.OnMad(now, rep, active.AddressOf(passive));
  EXPECT_EQ(active.TakeMads(), std::vector<MadBytes>{rtu});
  EXPECT_FALSE(active.manager.HasEvent());
  EXPECT_EQ(active.manager.counters().duplicates[IndexOf(Attribute::kRep)], 1u);
}

TEST_F(CmConnectionTest, RepWithoutRtuIsGivenUp) {
  Listen();
  const Ends ends = Ask();
  (void)passive.manager.Accept(now, ends.passive, Acceptance());
  for (int i = 0; i < 16; ++i) AdvanceTo(passive);
  EXPECT_EQ(passive.TakeMads().size(), 16u);
  EXPECT_TRUE(passive.OnlyEvent(EventKind::kRepError));
  EXPECT_EQ(PassiveState(ends), State::kIdle);
  EXPECT_EQ(passive.manager.half_open_count(), 0u);
}

TEST_F(CmConnectionTest, TimeThatAPeerChoosesIsLimited) {
  Listen();
  ConnectParameters request = Request();
  request.local_cm_response_timeout = 31;  // 2.4 hours
  (void)active.manager.Connect(now, *active.manager.Create(), request);
  ToPassive();
  (void)passive.manager.Accept(now, passive.manager.TakeEvent()->id, Acceptance());
  EXPECT_EQ(passive.manager.NextDeadline(), now + DurationOf(kMaxPeerResponseTimeout));
}

TEST_F(CmConnectionTest, DuplicateReqRaisesNoSecondEvent) {
  Listen();
  const CommunicationId asking = *active.manager.Create();
  (void)active.manager.Connect(now, asking, Request());
  const MadBytes req = active.TakeMads().at(0);
  passive.manager.OnMad(now, req, passive.AddressOf(active));
  passive.manager.OnMad(now, req, passive.AddressOf(active));
  const auto event = passive.OnlyEvent(EventKind::kReqReceived);
  ASSERT_TRUE(event);
  EXPECT_EQ(counters().duplicates[IndexOf(Attribute::kReq)], 1u);
  EXPECT_TRUE(passive.TakeMads().empty());

  // An MRA that is requested for duplicates only goes out when a duplicate comes.
  ASSERT_EQ(passive.manager.AcknowledgeReceipt(event->id, 24, {}, true), Status::kOk);
  EXPECT_TRUE(passive.TakeMads().empty());
  passive.manager.OnMad(now, req, passive.AddressOf(active));
  const auto mra = As<Mra>(passive.TakeMads().at(0));
  ASSERT_TRUE(mra);
  EXPECT_EQ(mra->message, Answered::kReq);
  EXPECT_EQ(mra->service_timeout, 24);
  EXPECT_EQ(mra->remote_id, asking);
}

TEST_F(CmConnectionTest, MraMakesTheRequesterWait) {
  Listen();
  const Ends ends = Ask();
  ASSERT_EQ(passive.manager.AcknowledgeReceipt(ends.passive, 23, {}), Status::kOk);
  ToActive();
  EXPECT_TRUE(active.OnlyEvent(EventKind::kMraReceived));
  EXPECT_EQ(ActiveState(ends), State::kMraReqReceived);
  EXPECT_EQ(active.manager.NextDeadline(), now + DurationOf(23) + DurationOf(kLifeTime + 1));
  (void)passive.manager.Accept(now, ends.passive, Acceptance());
  ToActive();
  EXPECT_TRUE(active.OnlyEvent(EventKind::kRepReceived));
}

TEST_F(CmConnectionTest, MraOfRepMakesTheReplierWait) {
  Listen();
  const Ends ends = AskAndAccept();
  ASSERT_EQ(active.manager.AcknowledgeReceipt(ends.active, 31, {}), Status::kOk);
  ToPassive();
  EXPECT_TRUE(passive.OnlyEvent(EventKind::kMraReceived));
  EXPECT_EQ(PassiveState(ends), State::kMraRepReceived);
  // Expect: not 2.4 hours.
  EXPECT_LE(passive.manager.NextDeadline(), now + DurationOf(kMaxPeerServiceTimeout) * 2);
  (void)active.manager.ConfirmReady(ends.active, {});
  ToPassive();
  EXPECT_EQ(PassiveState(ends), State::kEstablished);
}

TEST_F(CmConnectionTest, DataInsteadOfTheRtuEstablishes) {
  Listen();
  const Ends ends = AskAndAccept();
  (void)active.manager.ConfirmReady(ends.active, {});
  const MadBytes rtu = active.TakeMads().at(0);
  ASSERT_EQ(passive.manager.CommunicationEstablished(ends.passive), Status::kOk);
  EXPECT_TRUE(passive.OnlyEvent(EventKind::kUserEstablished));
  EXPECT_EQ(passive.manager.NextDeadline(), kNever);
  passive.manager.OnMad(now, rtu, passive.AddressOf(active));
  EXPECT_FALSE(passive.manager.HasEvent());
}

TEST_F(CmConnectionTest, RejectCarriesReasonInformationAndPrivateData) {
  Listen();
  const Ends ends = Ask();
  const std::array<uint8_t, 2> information = {8, 9};
  const std::array<uint8_t, 148> data = {7};
  ASSERT_EQ(
      passive.manager.Reject(
          now, ends.passive,
          {.reason = RejectReason::kInvalidMtu, .information = information, .private_data = data}),
      Status::kOk);
  EXPECT_EQ(PassiveState(ends), State::kIdle);
  ToActive();
  const auto event = active.OnlyEvent(EventKind::kRejReceived);
  ASSERT_TRUE(event);
  const Rej& rej = std::get<Rej>(event->message);
  EXPECT_EQ(rej.reason, RejectReason::kInvalidMtu);
  EXPECT_EQ(rej.message, Answered::kReq);
  EXPECT_EQ(rej.local_id, CommunicationId{});  // the peer never learned an id
  EXPECT_EQ(rej.information_bytes, 2);
  EXPECT_EQ(rej.additional_information[1], 9);
  EXPECT_EQ(rej.private_data[0], 7);
  EXPECT_EQ(ActiveState(ends), State::kIdle);
}

TEST_F(CmConnectionTest, ActiveSideRejectsTheReply) {
  Listen();
  const Ends ends = AskAndAccept();
  ASSERT_EQ(active.manager.Reject(now, ends.active, {}), Status::kOk);
  ToPassive();
  const auto event = passive.OnlyEvent(EventKind::kRejReceived);
  ASSERT_TRUE(event);
  EXPECT_EQ(std::get<Rej>(event->message).message, Answered::kRep);
  EXPECT_EQ(PassiveState(ends), State::kIdle);
}

TEST_F(CmConnectionTest, DisconnectEndsInTimewaitOnBothSides) {
  const CommunicationId listener = Listen();
  const Ends ends = Establish();
  const std::array<uint8_t, 1> bye = {5};
  ASSERT_EQ(active.manager.Disconnect(now, ends.active, bye), Status::kOk);
  ToPassive();
  const auto asked = passive.OnlyEvent(EventKind::kDreqReceived);
  ASSERT_TRUE(asked);
  EXPECT_EQ(std::get<Dreq>(asked->message).private_data[0], 5);
  EXPECT_EQ(std::get<Dreq>(asked->message).remote_qpn, Qpn{0x1111});
  ASSERT_EQ(passive.manager.ConfirmDisconnect(now, ends.passive, {}), Status::kOk);
  ToActive();
  EXPECT_TRUE(active.OnlyEvent(EventKind::kDrepReceived));
  EXPECT_EQ(ActiveState(ends), State::kTimewait);
  EXPECT_EQ(PassiveState(ends), State::kTimewait);
  // Expect: for an ACK timeout of the path.
  const uint8_t code = AckTimeoutCode(kAckDelay, kLifeTime);
  EXPECT_EQ(active.manager.NextDeadline(), now + DurationOf(code));
  AdvanceTo(active);
  AdvanceTo(passive);
  EXPECT_TRUE(active.OnlyEvent(EventKind::kTimewaitExit));
  EXPECT_TRUE(passive.OnlyEvent(EventKind::kTimewaitExit));
  active.manager.Destroy(now, ends.active);
  passive.manager.Destroy(now, ends.passive);
  passive.manager.Destroy(now, listener);
  ExpectNothingLeft();
}

TEST_F(CmConnectionTest, LostDrepIsRepeated) {
  Listen();
  const Ends ends = Establish();
  (void)active.manager.Disconnect(now, ends.active, {});
  const MadBytes dreq = active.TakeMads().at(0);
  passive.manager.OnMad(now, dreq, passive.AddressOf(active));
  (void)passive.manager.ConfirmDisconnect(now, ends.passive, {});
  const MadBytes drep = passive.TakeMads().at(0);
  passive.manager.OnMad(now, dreq, passive.AddressOf(active));
  EXPECT_EQ(passive.TakeMads(), std::vector<MadBytes>{drep});

  // Expect: still an answer when the connection is long forgotten.
  passive.manager.Destroy(now, ends.passive);
  AdvanceTo(passive);
  passive.manager.OnMad(now, dreq, passive.AddressOf(active));
  const auto again = As<Drep>(passive.TakeMads().at(0));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->local_id, ends.passive);
  EXPECT_EQ(again->remote_id, ends.active);
}

TEST_F(CmConnectionTest, DreqForAnotherQueuePairIsIgnored) {
  Listen();
  const Ends ends = Establish();
  const Dreq dreq{.local_id = ends.active, .remote_id = ends.passive, .remote_qpn = {0x999}};
  passive.manager.OnMad(now, EmitMessage(1, dreq), passive.AddressOf(active));
  EXPECT_EQ(PassiveState(ends), State::kEstablished);
  EXPECT_TRUE(passive.TakeMads().empty());
  EXPECT_EQ(counters().unmatched, 1u);
}

TEST_F(CmConnectionTest, CrossingDisconnectsMeet) {
  const CommunicationId listener = Listen();
  const Ends ends = Establish();
  (void)active.manager.Disconnect(now, ends.active, {});
  (void)passive.manager.Disconnect(now, ends.passive, {});
  const auto dreqs = active.TakeMads();
  ToActive();
  passive.manager.OnMad(now, dreqs.at(0), passive.AddressOf(active));
  EXPECT_EQ(ActiveState(ends), State::kDreqReceived);
  EXPECT_EQ(PassiveState(ends), State::kDreqReceived);
  active.manager.Destroy(now, ends.active);
  ToPassive();
  EXPECT_EQ(PassiveState(ends), State::kTimewait);
  passive.manager.Destroy(now, ends.passive);
  passive.manager.Destroy(now, listener);
  ExpectNothingLeft();
}

TEST_F(CmConnectionTest, VanishedPeerEndsInTimewaitAfterTheRetries) {
  Listen();
  const Ends ends = Establish();
  (void)active.manager.Disconnect(now, ends.active, {});
  for (int i = 0; i < 16; ++i) AdvanceTo(active);
  EXPECT_EQ(active.TakeMads().size(), 16u);
  EXPECT_TRUE(active.OnlyEvent(EventKind::kDreqError));
  EXPECT_EQ(ActiveState(ends), State::kTimewait);
}

TEST_F(CmConnectionTest, NewRequestOfAConnectedQueuePairIsStale) {
  Listen();
  const Ends old = Establish();
  active.manager.Abandon(now, old.active);
  (void)active.TakeMads();  // the peer was restarted and does not answer
  const CommunicationId asking = *active.manager.Create();
  (void)active.manager.Connect(now, asking, Request());
  ToPassive();
  EXPECT_EQ(PassiveState(old), State::kDreqSent);
  EXPECT_FALSE(passive.manager.HasEvent());
  const auto mads = passive.TakeMads();
  ASSERT_EQ(mads.size(), 2u);
  EXPECT_EQ(As<Rej>(mads[0])->reason, RejectReason::kStaleConnection);
  EXPECT_EQ(As<Dreq>(mads[1])->local_id, old.passive);
  EXPECT_EQ(counters().stale, 1u);
  active.manager.OnMad(now, mads[0], active.AddressOf(passive));
  EXPECT_EQ(active.manager.StateOf(asking), State::kTimewait);
}

TEST_F(CmConnectionTest, QueuePairOfAnEndedConnectionIsNotStale) {
  Listen();
  const Ends parted = Establish(0x111);
  (void)active.manager.Disconnect(now, parted.active, {});
  ToPassive();
  (void)passive.OnlyEvent(EventKind::kDreqReceived);
  (void)passive.manager.ConfirmDisconnect(now, parted.passive, {});
  EXPECT_EQ(PassiveState(parted), State::kTimewait);
  EXPECT_NE(Ask(0x111).passive, CommunicationId{});

  const Ends destroyed = Establish(0x112);
  passive.manager.Destroy(now, destroyed.passive);
  EXPECT_NE(Ask(0x112).passive, CommunicationId{});
  EXPECT_EQ(counters().stale, 0u);
}

TEST_F(CmConnectionTest, TimewaitThatAPeerChoosesIsLimited) {
  Listen();
  const Ends ends = Ask();
  Rep rep{.local_id = {5},
          .remote_id = ends.active,
          .local_qpn = {6},
          .target_ack_delay = 31,
          .local_ca_guid = 7};
  active.manager.OnMad(now, EmitMessage(1, rep), active.AddressOf(passive));
  (void)active.manager.ConfirmReady(ends.active, {});
  (void)active.manager.Disconnect(now, ends.active, {});
  const Drep drep{.local_id = {5}, .remote_id = ends.active};
  active.manager.OnMad(now, EmitMessage(2, drep), active.AddressOf(passive));
  EXPECT_EQ(ActiveState(ends), State::kTimewait);
  EXPECT_EQ(active.manager.NextDeadline(), now + DurationOf(kMaxTimewait));
}

TEST_F(CmConnectionTest, StrangerCannotMakeAConnectionStale) {
  Listen();
  const Ends ends = Establish();
  Side stranger(3);
  // Expect: the same GUID and queue pair from another address mean another peer.
  ConnectParameters request = Request();
  (void)active.manager.Connect(now, *active.manager.Create(), request);
  passive.manager.OnMad(now, active.TakeMads().at(0), passive.AddressOf(stranger));
  EXPECT_EQ(PassiveState(ends), State::kEstablished);
  EXPECT_EQ(counters().stale, 0u);
}

TEST_F(CmConnectionTest, ReqThatComesAgainInTimewaitIsStale) {
  Listen();
  const CommunicationId asking = *active.manager.Create();
  (void)active.manager.Connect(now, asking, Request());
  const MadBytes req = active.TakeMads().at(0);
  passive.manager.OnMad(now, req, passive.AddressOf(active));
  const CommunicationId asked = passive.manager.TakeEvent()->id;
  (void)passive.manager.Accept(now, asked, Acceptance());
  passive.manager.Destroy(now, asked);
  EXPECT_EQ(passive.manager.id_count(), 2u);  // the listener, and the timewait
  (void)passive.TakeMads();
  passive.manager.OnMad(now, req, passive.AddressOf(active));
  EXPECT_EQ(As<Rej>(passive.TakeMads().at(0))->reason, RejectReason::kStaleConnection);
  EXPECT_FALSE(passive.manager.HasEvent());
}

TEST_F(CmConnectionTest, FirstAnswerOfAStrangerIsIgnored) {
  Listen();
  const Ends ends = Ask();
  (void)passive.manager.Accept(now, ends.passive, Acceptance());
  const MadBytes rep = passive.TakeMads().at(0);
  Side stranger(3);
  active.manager.OnMad(now, rep, active.AddressOf(stranger));
  const Rej rej{.remote_id = ends.active, .reason = RejectReason::kNoResources};
  active.manager.OnMad(now, EmitMessage(1, rej), active.AddressOf(stranger));
  EXPECT_EQ(ActiveState(ends), State::kReqSent);
  EXPECT_EQ(active.manager.counters().foreign_source, 2u);
  active.manager.OnMad(now, rep, active.AddressOf(passive));
  EXPECT_EQ(ActiveState(ends), State::kRepReceived);
}

TEST_F(CmConnectionTest, CallsOutOfPlaceChangeNothing) {
  Listen();
  const CommunicationId fresh = *passive.manager.Create();
  EXPECT_EQ(passive.manager.Accept(now, fresh, {}), Status::kInvalidArgument);
  EXPECT_EQ(passive.manager.ConfirmReady(fresh, {}), Status::kInvalidArgument);
  EXPECT_EQ(passive.manager.Reject(now, fresh, {}), Status::kInvalidArgument);
  EXPECT_EQ(passive.manager.Disconnect(now, fresh, {}), Status::kInvalidArgument);
  EXPECT_EQ(passive.manager.ConfirmDisconnect(now, fresh, {}), Status::kInvalidArgument);
  EXPECT_EQ(passive.manager.AcknowledgeReceipt(fresh, 1, {}), Status::kInvalidArgument);
  EXPECT_EQ(passive.manager.CommunicationEstablished(fresh), Status::kInvalidArgument);
  EXPECT_EQ(passive.manager.Connect(now, {12345}, Request()), Status::kInvalidArgument);
  const std::vector<uint8_t> long_data(93);
  ConnectParameters request = Request();
  request.private_data = long_data;
  EXPECT_EQ(passive.manager.Connect(now, fresh, request), Status::kInvalidArgument);
  EXPECT_EQ(passive.manager.StateOf(fresh), State::kIdle);
  const Ends ends = Establish();
  EXPECT_EQ(active.manager.Connect(now, ends.active, Request()), Status::kInvalidArgument);
  EXPECT_EQ(active.manager.Disconnect(now, ends.active, std::vector<uint8_t>(221)),
            Status::kInvalidArgument);
  EXPECT_EQ(ActiveState(ends), State::kEstablished);
}

TEST_F(CmConnectionTest, MalformedMessagesAreCountedByReason) {
  const MadBytes zeros{};
  passive.manager.OnMad(now, zeros, passive.AddressOf(active));
  passive.manager.OnMad(now, std::span(zeros).first(100), passive.AddressOf(active));
  EXPECT_EQ(counters().malformed[static_cast<size_t>(Malformed::kBadBaseVersion)], 1u);
  EXPECT_EQ(counters().malformed[static_cast<size_t>(Malformed::kWrongLength)], 1u);
}

}  // namespace
}  // namespace uroce::transport::cm
