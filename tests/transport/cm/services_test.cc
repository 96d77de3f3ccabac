// Listeners, service id resolution, alternate paths, and attributes for queue pairs.
#include <gtest/gtest.h>

#include "tests/transport/cm/manager_pair.h"
#include "transport/cm/timeouts.h"

namespace uroce::transport::cm {
namespace {

using Mask = QpAttributeMask;

class CmServicesTest : public testing::Test, protected ManagerPair {
 protected:
  ResolveParameters Question() const {
    return {.service_id = kService, .path = active.PathTo(passive), .max_cm_retries = 2};
  }
  // The passive side's answer, which ends the resolution of the active side.
  void ExpectAnswer(SidrStatus status) {
    ToActive();
    const auto event = active.OnlyEvent(EventKind::kSidrRepReceived);
    ASSERT_TRUE(event);
    EXPECT_EQ(std::get<SidrRep>(event->message).status, status);
  }
  Status ListenTo(uint64_t service_id, uint64_t mask) {
    return passive.manager.Listen(*passive.manager.Create(), {service_id}, mask);
  }
};

TEST_F(CmServicesTest, OverlappingListenersExcludeEachOther) {
  EXPECT_EQ(ListenTo(0x0106'1234, kExactServiceMask), Status::kOk);
  EXPECT_EQ(ListenTo(0x0106'1234, kExactServiceMask), Status::kBusy);
  EXPECT_EQ(ListenTo(0x0106'0000, 0xffff'ffff'ffff'0000), Status::kBusy);
  EXPECT_EQ(ListenTo(0x0111'0000, 0xffff'ffff'ffff'0000), Status::kOk);
  EXPECT_EQ(ListenTo(0x0111'5678, kExactServiceMask), Status::kBusy);
  EXPECT_EQ(ListenTo(0x34, 0xff), Status::kBusy);  // 0x...1234 matches both listeners
  EXPECT_EQ(ListenTo(0x0106'1235, kExactServiceMask), Status::kOk);
}

TEST_F(CmServicesTest, MaskedListenerTakesItsRange) {
  const CommunicationId id = *passive.manager.Create();
  ASSERT_EQ(passive.manager.Listen(id, {0x0106'0000}, 0xffff'ffff'ffff'0000), Status::kOk);
  const auto ends = Ask();
  EXPECT_EQ(PassiveState(ends), State::kReqReceived);
  passive.manager.Destroy(now, id);
  EXPECT_EQ(Ask(0x112).passive, CommunicationId{});
  EXPECT_EQ(ListenTo(0x0106'1234, kExactServiceMask), Status::kOk);
}

TEST_F(CmServicesTest, ServiceIdsAreAssigned) {
  const CommunicationId first = *passive.manager.Create();
  const CommunicationId second = *passive.manager.Create();
  ASSERT_EQ(passive.manager.Listen(first, kAssignServiceId), Status::kOk);
  ASSERT_EQ(passive.manager.Listen(second, kAssignServiceId), Status::kOk);
  EXPECT_NE(passive.manager.ListeningOn(first), passive.manager.ListeningOn(second));
  EXPECT_EQ(passive.manager.ListeningOn(first)->value >> 56, 2u);
  EXPECT_EQ(ListenTo(kAssignServiceId.value + 77, kExactServiceMask), Status::kInvalidArgument);
}

// --- SIDR

TEST_F(CmServicesTest, ResolutionReturnsQueuePairAndKey) {
  const CommunicationId listener = Listen();
  const CommunicationId asking = *active.manager.Create();
  ASSERT_EQ(active.manager.Resolve(now, asking, Question()), Status::kOk);
  ToPassive();
  const auto asked = passive.OnlyEvent(EventKind::kSidrReqReceived);
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->listener_id, listener);
  EXPECT_EQ(std::get<SidrReq>(asked->message).request_id, asking);
  const std::array<uint8_t, 2> data = {4, 5};
  ASSERT_EQ(passive.manager.AnswerResolution(
                asked->id, {.qpn = {0x456}, .qkey = 0x0123'4567, .private_data = data}),
            Status::kOk);
  ToActive();
  const auto answered = active.OnlyEvent(EventKind::kSidrRepReceived);
  ASSERT_TRUE(answered);
  const SidrRep& reply = std::get<SidrRep>(answered->message);
  EXPECT_EQ(reply.status, SidrStatus::kValidQpn);
  EXPECT_EQ(reply.qpn, Qpn{0x456});
  EXPECT_EQ(reply.qkey, 0x0123'4567u);
  EXPECT_EQ(reply.service_id, kService);
  EXPECT_EQ(reply.private_data[1], 5);
  EXPECT_EQ(active.manager.NextDeadline(), kNever);
  EXPECT_EQ(passive.manager.remote_count(), 0u);
  EXPECT_EQ(passive.manager.half_open_count(), 0u);
}

TEST_F(CmServicesTest, DuplicateResolutionRaisesNoSecondEventUntilAnswered) {
  Listen();
  (void)active.manager.Resolve(now, *active.manager.Create(), Question());
  ToPassive();
  AdvanceTo(active);
  ToPassive();
  const auto asked = passive.OnlyEvent(EventKind::kSidrReqReceived);
  ASSERT_TRUE(asked);
  (void)passive.manager.AnswerResolution(asked->id, {});
  (void)passive.TakeMads();  // lost
  AdvanceTo(active);
  ToPassive();
  EXPECT_TRUE(passive.OnlyEvent(EventKind::kSidrReqReceived));
}

TEST_F(CmServicesTest, ResolutionWithoutListenerIsUnsupported) {
  (void)active.manager.Resolve(now, *active.manager.Create(), Question());
  ToPassive();
  ExpectAnswer(SidrStatus::kUnsupportedService);
  EXPECT_EQ(passive.manager.id_count(), 0u);
}

TEST_F(CmServicesTest, DestroyedResolutionIsRejected) {
  Listen();
  (void)active.manager.Resolve(now, *active.manager.Create(), Question());
  ToPassive();
  passive.manager.Destroy(now, passive.manager.TakeEvent()->id);
  ExpectAnswer(SidrStatus::kRejected);
  EXPECT_EQ(passive.manager.remote_count(), 0u);
}

TEST_F(CmServicesTest, ResolutionIsGivenUp) {
  (void)active.manager.Resolve(now, *active.manager.Create(), Question());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(active.manager.NextDeadline(), now + Question().timeout);
    AdvanceTo(active);
  }
  EXPECT_EQ(active.TakeMads().size(), 3u);
  EXPECT_TRUE(active.OnlyEvent(EventKind::kSidrReqError));
}

// --- alternate paths

TEST_F(CmServicesTest, AlternatePathIsLoadedAndUsed) {
  Listen();
  const Ends ends = Establish();
  Path path = active.PathTo(passive);
  path.source_gid = Gid::FromIpv4({10, 1, 0, 1});
  path.address.destination_gid = Gid::FromIpv4({10, 1, 0, 2});
  ASSERT_EQ(active.manager.LoadAlternatePath(now, ends.active, path, {}), Status::kOk);
  EXPECT_EQ(active.manager.LoadAlternatePath(now, ends.active, path, {}), Status::kInvalidArgument);
  ToPassive();
  const auto asked = passive.OnlyEvent(EventKind::kLapReceived);
  ASSERT_TRUE(asked);
  EXPECT_EQ(std::get<Lap>(asked->message).alternate.remote_gid, path.address.destination_gid);
  // The user needs time: it sends an MRA, and the requester waits.
  ASSERT_EQ(passive.manager.AcknowledgeReceipt(ends.passive, 20, {}), Status::kOk);
  ToActive();
  EXPECT_TRUE(active.OnlyEvent(EventKind::kMraReceived));
  ASSERT_EQ(passive.manager.AnswerAlternatePath(ends.passive, {}), Status::kOk);
  ToActive();
  EXPECT_TRUE(active.OnlyEvent(EventKind::kAprReceived));
  EXPECT_EQ(active.manager.NextDeadline(), kNever);

  QpAttributes attributes;
  uint32_t mask = 0;
  ASSERT_EQ(active.manager.Attributes(ends.active, QpState::kReadyToSend, attributes, mask),
            Status::kOk);
  EXPECT_EQ(mask, Mask::kAlternatePath | Mask::kMigrationState);
  EXPECT_EQ(attributes.migration_state, MigrationState::kRearm);
  EXPECT_EQ(attributes.alternate_address.destination_gid, path.address.destination_gid);
  ASSERT_EQ(passive.manager.Attributes(ends.passive, QpState::kReadyToSend, attributes, mask),
            Status::kOk);
  EXPECT_EQ(attributes.alternate_address.destination_gid, path.source_gid);

  ASSERT_EQ(active.manager.PathMigrated(ends.active), Status::kOk);
  (void)active.manager.Disconnect(now, ends.active, {});
  const auto dreq = active.manager.PollTransmit();
  EXPECT_EQ(dreq->destination.path.destination_gid, path.address.destination_gid);
}

TEST_F(CmServicesTest, RefusedAlternatePathIsNotTaken) {
  Listen();
  const Ends ends = Establish();
  (void)active.manager.LoadAlternatePath(now, ends.active, active.PathTo(passive), {});
  ToPassive();
  (void)passive.manager.AnswerAlternatePath(ends.passive, {.status = 1});
  ToActive();
  EXPECT_EQ(active.manager.PathMigrated(ends.active), Status::kInvalidArgument);
  EXPECT_EQ(passive.manager.PathMigrated(ends.passive), Status::kInvalidArgument);
}

TEST_F(CmServicesTest, AlternatePathWithoutAnswerIsGivenUp) {
  Listen();
  const Ends ends = Establish();
  (void)active.manager.LoadAlternatePath(now, ends.active, active.PathTo(passive), {});
  for (int i = 0; i < 16; ++i) AdvanceTo(active);
  EXPECT_TRUE(active.OnlyEvent(EventKind::kLapError));
  EXPECT_EQ(ActiveState(ends), State::kEstablished);
  EXPECT_EQ(active.manager.NextDeadline(), kNever);
}

// --- attributes of queue pairs

TEST_F(CmServicesTest, AttributesOfBothEndsFit) {
  Listen();
  const Ends ends = Ask();
  QpAttributes init;
  uint32_t mask = 0;
  ASSERT_EQ(active.manager.Attributes(ends.active, QpState::kInit, init, mask), Status::kOk);
  EXPECT_EQ(mask, Mask::kState | Mask::kAccessFlags | Mask::kPkeyIndex | Mask::kPort);
  EXPECT_EQ(init.state, QpState::kInit);
  EXPECT_EQ(init.port_num, 1);
  EXPECT_TRUE(init.access.Allows(AccessFlags::kRemoteWrite | AccessFlags::kRemoteRead |
                                 AccessFlags::kRemoteAtomic));
  // The peer is unknown before its reply.
  EXPECT_EQ(active.manager.Attributes(ends.active, QpState::kReadyToReceive, init, mask),
            Status::kInvalidArgument);
  (void)passive.manager.Accept(now, ends.passive, Acceptance());
  ToActive();

  QpAttributes receive;
  ASSERT_EQ(active.manager.Attributes(ends.active, QpState::kReadyToReceive, receive, mask),
            Status::kOk);
  EXPECT_EQ(mask, Mask::kState | Mask::kAddressVector | Mask::kPathMtu | Mask::kDestinationQpn |
                      Mask::kRqPsn | Mask::kMaxDestReadAtomic | Mask::kMinRnrTimer);
  EXPECT_EQ(receive.address, active.PathTo(passive).address);
  EXPECT_EQ(receive.path_mtu, Mtu::k4096);
  EXPECT_EQ(receive.destination_qpn, Qpn{0x222});
  EXPECT_EQ(receive.rq_psn, Psn(0x1111));      // the PSN that the active side asked for
  EXPECT_EQ(receive.max_dest_read_atomic, 1);  // the peer's initiator depth
  QpAttributes send;
  ASSERT_EQ(active.manager.Attributes(ends.active, QpState::kReadyToSend, send, mask), Status::kOk);
  EXPECT_EQ(mask, Mask::kState | Mask::kSqPsn | Mask::kRetryCount | Mask::kRnrRetry |
                      Mask::kMaxReadAtomic | Mask::kTimeout);
  EXPECT_EQ(send.sq_psn, Psn(0x2222));
  EXPECT_EQ(send.retry_count, 6);
  EXPECT_EQ(send.rnr_retry, 4);  // the peer's
  EXPECT_EQ(send.max_read_atomic, 2);
  EXPECT_EQ(send.timeout, AckTimeoutCode(kAckDelay, kLifeTime));

  ASSERT_EQ(passive.manager.Attributes(ends.passive, QpState::kReadyToReceive, receive, mask),
            Status::kOk);
  EXPECT_EQ(receive.address.destination_gid, active.gid);
  EXPECT_EQ(receive.address.destination_mac, passive.PathTo(active).address.destination_mac);
  EXPECT_EQ(receive.destination_qpn, Qpn{0x111});
  EXPECT_EQ(receive.rq_psn, Psn(0x2222));
  EXPECT_EQ(receive.max_dest_read_atomic, 2);
  ASSERT_EQ(passive.manager.Attributes(ends.passive, QpState::kReadyToSend, send, mask),
            Status::kOk);
  EXPECT_EQ(send.sq_psn, Psn(0x1111));
  EXPECT_EQ(send.retry_count, 6);
  EXPECT_EQ(send.rnr_retry, 5);
  EXPECT_EQ(send.max_read_atomic, 1);
  EXPECT_EQ(send.timeout, AckTimeoutCode(kAckDelay, kLifeTime));
  EXPECT_EQ(passive.manager.Attributes(ends.passive, QpState::kError, send, mask),
            Status::kInvalidArgument);
}

TEST_F(CmServicesTest, PassiveSideAcceptsReadsIfThePeerWantsThem) {
  Listen();
  ConnectParameters request = Request();
  request.initiator_depth = 0;
  (void)active.manager.Connect(now, *active.manager.Create(), request);
  ToPassive();
  QpAttributes attributes;
  uint32_t mask = 0;
  const CommunicationId asked = passive.manager.TakeEvent()->id;
  (void)passive.manager.Attributes(asked, QpState::kInit, attributes, mask);
  EXPECT_EQ(attributes.access, AccessFlags(AccessFlags::kRemoteWrite));
}

TEST_F(CmServicesTest, UnreliableConnectionHasNoRetries) {
  Listen();
  ConnectParameters request = Request();
  request.service = TransportService::kUnreliableConnection;
  const CommunicationId asking = *active.manager.Create();
  (void)active.manager.Connect(now, asking, request);
  ToPassive();
  const CommunicationId asked = passive.manager.TakeEvent()->id;
  QpAttributes attributes;
  uint32_t mask = 0;
  (void)passive.manager.Attributes(asked, QpState::kReadyToReceive, attributes, mask);
  EXPECT_EQ(mask, Mask::kState | Mask::kAddressVector | Mask::kPathMtu | Mask::kDestinationQpn |
                      Mask::kRqPsn);
  (void)passive.manager.Attributes(asked, QpState::kReadyToSend, attributes, mask);
  EXPECT_EQ(mask, Mask::kState | Mask::kSqPsn);
}

TEST_F(CmServicesTest, XrcTargetIsInTheEeContext) {
  Listen();
  ConnectParameters request = Request();
  request.service = TransportService::kXrc;
  const CommunicationId asking = *active.manager.Create();
  (void)active.manager.Connect(now, asking, request);
  ToPassive();
  const auto asked = passive.manager.TakeEvent();
  const Req& req = std::get<Req>(asked->message);
  EXPECT_EQ(req.transport_service_type, 3);
  EXPECT_EQ(req.extended_transport_type, 1);
  EXPECT_EQ(req.responder_resources, 0);
  (void)passive.manager.Accept(now, asked->id, Acceptance());
  ToActive();
  const auto replied = active.manager.TakeEvent();
  EXPECT_EQ(std::get<Rep>(replied->message).local_eecn, 0x222u);
  EXPECT_EQ(std::get<Rep>(replied->message).local_qpn, Qpn{});
  QpAttributes attributes;
  uint32_t mask = 0;
  (void)active.manager.Attributes(asking, QpState::kReadyToReceive, attributes, mask);
  EXPECT_EQ(attributes.destination_qpn, Qpn{0x222});
}

// Like cm_init_qp_rtr_attr and cm_init_qp_rts_attr of Linux: each half of XRC gets only its own
// attributes.
TEST_F(CmServicesTest, XrcAttributesAreThoseOfTheHalf) {
  Listen();
  ConnectParameters request = Request();
  request.service = TransportService::kXrc;
  const CommunicationId asking = *active.manager.Create();
  (void)active.manager.Connect(now, asking, request);
  ToPassive();
  const CommunicationId asked = passive.manager.TakeEvent()->id;
  (void)passive.manager.Accept(now, asked, Acceptance());
  ToActive();
  constexpr uint32_t kPeer =
      Mask::kState | Mask::kAddressVector | Mask::kPathMtu | Mask::kDestinationQpn | Mask::kRqPsn;
  QpAttributes attributes;
  uint32_t mask = 0;
  (void)active.manager.Attributes(asking, QpState::kReadyToReceive, attributes, mask);
  EXPECT_EQ(mask, kPeer);
  (void)active.manager.Attributes(asking, QpState::kReadyToSend, attributes, mask);
  EXPECT_EQ(mask, Mask::kState | Mask::kSqPsn | Mask::kTimeout | Mask::kRetryCount |
                      Mask::kRnrRetry | Mask::kMaxReadAtomic);
  (void)passive.manager.Attributes(asked, QpState::kReadyToReceive, attributes, mask);
  EXPECT_EQ(mask, kPeer | Mask::kMaxDestReadAtomic | Mask::kMinRnrTimer);
  (void)passive.manager.Attributes(asked, QpState::kReadyToSend, attributes, mask);
  EXPECT_EQ(mask, Mask::kState | Mask::kSqPsn | Mask::kTimeout);
}

TEST_F(CmServicesTest, AckTimeoutsAreThoseOfTheKernel) {
  // From the formula 2^ack = 2^delay + 2 * 2^life, rounded as Linux does.
  EXPECT_EQ(AckTimeoutCode(0, 0), 2);
  EXPECT_EQ(AckTimeoutCode(15, 16), 17);
  EXPECT_EQ(AckTimeoutCode(16, 16), 18);
  EXPECT_EQ(AckTimeoutCode(17, 16), 18);
  EXPECT_EQ(AckTimeoutCode(18, 16), 19);
  EXPECT_EQ(AckTimeoutCode(19, 16), 19);
  EXPECT_EQ(AckTimeoutCode(31, 31), 31);
  EXPECT_EQ(DurationOf(20).ns, 4'294'967'296);
}

}  // namespace
}  // namespace uroce::transport::cm
