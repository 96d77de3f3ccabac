// Queue pair 1: in virtual time, programs on two endpoints find each other through the connection
// manager.
#include "transport/general_services.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "tests/transport/connected_pair.h"
#include "transport/cm/messages.h"
#include "transport/cm/steering.h"
#include "transport/wire/frame_builder.h"

namespace uroce::transport {
namespace {

using cm::CommunicationId;
using cm::ConnectionManager;
using cm::Event;
using cm::EventKind;
using cm::ServiceId;
using Frame = std::vector<uint8_t>;

constexpr ServiceId kService = cm::ServiceIdOf(cm::PortSpace::kTcp, 7471);

class GeneralServicesTest : public testing::Test {
 protected:
  static ConnectionManager& ManagerOf(TestHost& host) {
    return host.endpoint.UseGeneralServices().connection_manager();
  }
  void Update(TestHost& host) { host.endpoint.UseGeneralServices().Update(now_); }

  cm::Path PathTo(TestHost& from, TestHost& to) {
    cm::Path path{
        .source_gid = from.endpoint.config().gids[1], .mtu = Mtu::k4096, .packet_life_time = 16};
    path.address.destination_gid = to.endpoint.config().gids[1];
    path.address.destination_mac = to.endpoint.config().mac;
    path.address.source_gid_index = 1;
    return path;
  }
  CommunicationId Connect(TestHost& from, TestHost& to) {
    ConnectionManager& manager = ManagerOf(from);
    const CommunicationId id = *manager.Create();
    EXPECT_EQ(manager.Connect(now_, id,
                              {.service_id = kService,
                               .path = PathTo(from, to),
                               .qpn = from.qp->qpn(),
                               .starting_psn = kFirstPsn,
                               .responder_resources = 4,
                               .initiator_depth = 4}),
              Status::kOk);
    Update(from);
    return id;
  }
  // Connects from `a_`, which does not know the Ethernet address of `b_`.
  GeneralServices& ConnectWithoutMac() {
    ConnectionManager& manager = ManagerOf(a_);
    cm::Path path = PathTo(a_, b_);
    path.address.destination_mac = {};
    EXPECT_EQ(manager.Connect(now_, *manager.Create(),
                              {.service_id = kService, .path = path, .qpn = a_.qp->qpn()}),
              Status::kOk);
    Update(a_);
    return a_.endpoint.UseGeneralServices();
  }
  void Listen(TestHost& host) {
    EXPECT_EQ(ManagerOf(host).Listen(*ManagerOf(host).Create(), kService), Status::kOk);
  }

  // Carries frames until none is left to send; `loses` may drop some.
  void Exchange() {
    for (bool any = true; any;) {
      any = false;
      for (const auto& [from, to] : {std::pair{&a_, &b_}, std::pair{&b_, &a_}}) {
        any |= Carry(*from, *to, Route::kWire);
        any |= Carry(*from, *from, Route::kLoopback);
      }
    }
  }
  bool Carry(TestHost& from, TestHost& to, Route route) {
    std::array<uint8_t, kMaxFrameBytes> frame;
    const size_t bytes = from.endpoint.PollTransmit(now_, route, frame);
    if (bytes == 0) return false;
    ++frames_;
    if (loses_ && loses_(frames_)) return true;
    to.endpoint.OnFrame(now_, std::span(frame).first(bytes), route);
    return true;
  }
  // Advances to the next deadline of both, and carries all resulting frames.
  void Advance() {
    now_ = std::min(a_.endpoint.NextDeadline(), b_.endpoint.NextDeadline());
    a_.endpoint.OnDeadline(now_);
    b_.endpoint.OnDeadline(now_);
    Exchange();
  }

  std::optional<Event> OnlyEvent(TestHost& host, EventKind kind) {
    auto event = ManagerOf(host).TakeEvent();
    if (!event || event->kind != kind || ManagerOf(host).HasEvent()) return std::nullopt;
    return event;
  }
  // Modifies the queue pair with the attributes from the connection manager.
  void Modify(TestHost& host, CommunicationId id, QpState state) {
    QpAttributes attributes;
    uint32_t mask = 0;
    ASSERT_EQ(ManagerOf(host).Attributes(id, state, attributes, mask), Status::kOk);
    attributes.rq_psn = kFirstPsn;  // starting_psn; the manager learns it in Accept()
    ASSERT_EQ(host.qp->Modify(attributes, mask), Status::kOk);
  }
  // The passive side answers the request, the active side confirms.
  void Establish(TestHost& active, CommunicationId id, TestHost& passive) {
    const auto request = OnlyEvent(passive, EventKind::kReqReceived);
    ASSERT_TRUE(request.has_value());
    for (const QpState state : {QpState::kInit, QpState::kReadyToReceive, QpState::kReadyToSend}) {
      Modify(passive, request->id, state);
    }
    ASSERT_EQ(ManagerOf(passive).Accept(now_, request->id,
                                        {.qpn = passive.qp->qpn(),
                                         .starting_psn = kFirstPsn,
                                         .responder_resources = 4,
                                         .initiator_depth = 4}),
              Status::kOk);
    Update(passive);
    Exchange();
    ASSERT_TRUE(OnlyEvent(active, EventKind::kRepReceived).has_value());
    for (const QpState state : {QpState::kInit, QpState::kReadyToReceive, QpState::kReadyToSend}) {
      Modify(active, id, state);
    }
    ASSERT_EQ(ManagerOf(active).ConfirmReady(id, {}), Status::kOk);
    Update(active);
    Exchange();
    ASSERT_TRUE(OnlyEvent(passive, EventKind::kRtuReceived).has_value());
  }
  void ExpectDataFlows(TestHost& from, TestHost& to) {
    constexpr uint32_t kBytes = 10'000;
    std::fill_n(from.memory.begin(), kBytes, uint8_t{0x5a});
    const ScatterGatherEntry room = {to.address(kBytes), kBytes, to.key};
    const ScatterGatherEntry data = {from.address(0), kBytes, from.key};
    ASSERT_EQ(to.qp->PostReceive({.wr_id = 1, .sges = {&room, 1}}), Status::kOk);
    SendWorkRequest send;
    send.opcode = SendOpcode::kSend;
    send.signaled = true;
    send.sges = {&data, 1};
    ASSERT_EQ(from.qp->PostSend(send), Status::kOk);
    Exchange();
    EXPECT_EQ(std::memcmp(from.memory.data(), to.memory.data() + kBytes, kBytes), 0);
    EXPECT_EQ(from.Poll().size(), 1u);
    EXPECT_EQ(to.Poll().size(), 1u);
  }

  // A datagram from queue pair 1 of `a_` to that of `b_`.
  struct Datagram {
    uint32_t qkey = kGeneralServicesQkey;
    Opcode opcode = {.service = Service::kUnreliableDatagram};
    size_t bytes = kMadBytes;
    Route from = Route::kWire;
  };
  DropReason Deliver(const Datagram& datagram) {
    const EndpointConfig& from = a_.endpoint.config();
    const FrameBuilder builder(from.mac, from.gids[1], PathTo(a_, b_).address, 0xc123);
    TransportHeaders headers;
    headers.opcode = datagram.opcode;
    headers.destination_qpn = kGeneralServicesQpn;
    headers.deth = {.qkey = datagram.qkey, .source_qpn = kGeneralServicesQpn};
    const std::vector<uint8_t> mad(datagram.bytes);
    const PayloadPiece piece{mad.data(), mad.size()};
    std::array<uint8_t, kMaxFrameBytes> frame;
    const size_t bytes = builder.Emit(headers, {&piece, 1}, frame);
    return b_.endpoint.OnFrame(now_, std::span(frame).first(bytes), datagram.from);
  }

  Time now_{1'000'000};
  TestHost a_{1};
  TestHost b_{2};
  uint64_t frames_ = 0;
  std::function<bool(uint64_t)> loses_;
};

TEST_F(GeneralServicesTest, ConnectionCarriesDataAndEnds) {
  EXPECT_EQ(a_.endpoint.general_services(), nullptr) << "made when it is used";
  Listen(b_);
  const CommunicationId id = Connect(a_, b_);
  EXPECT_TRUE(a_.endpoint.HasTransmit(Route::kWire));
  Exchange();
  Establish(a_, id, b_);
  ExpectDataFlows(a_, b_);
  ExpectDataFlows(b_, a_);
  ASSERT_EQ(ManagerOf(a_).Disconnect(now_, id, {}), Status::kOk);
  Update(a_);
  Exchange();
  const auto end = OnlyEvent(b_, EventKind::kDreqReceived);
  ASSERT_TRUE(end.has_value());
  ASSERT_EQ(ManagerOf(b_).ConfirmDisconnect(now_, end->id, {}), Status::kOk);
  Update(b_);
  Exchange();
  EXPECT_TRUE(OnlyEvent(a_, EventKind::kDrepReceived).has_value());
}

TEST_F(GeneralServicesTest, LostMessagesAreSentAgain) {
  loses_ = [](uint64_t frame) { return frame % 2 == 1; };
  Listen(b_);
  const CommunicationId id = Connect(a_, b_);
  Exchange();
  EXPECT_FALSE(ManagerOf(b_).HasEvent());
  Advance();  // the timeout of the request
  loses_ = {};
  Establish(a_, id, b_);
  ExpectDataFlows(a_, b_);
}

TEST_F(GeneralServicesTest, EndpointConnectsToItself) {
  Listen(a_);
  const CommunicationId id = Connect(a_, a_);
  EXPECT_TRUE(a_.endpoint.HasTransmit(Route::kLoopback));
  EXPECT_FALSE(a_.endpoint.HasTransmit(Route::kWire));
  Exchange();
  const auto request = OnlyEvent(a_, EventKind::kReqReceived);
  ASSERT_TRUE(request.has_value());
  EXPECT_NE(request->id, id);
  ASSERT_EQ(ManagerOf(a_).Accept(now_, request->id, {.qpn = {0x777}}), Status::kOk);
  Update(a_);
  EXPECT_TRUE(a_.endpoint.HasTransmit(Route::kLoopback));
  Exchange();
  EXPECT_TRUE(OnlyEvent(a_, EventKind::kRepReceived).has_value());
}

TEST_F(GeneralServicesTest, RequestWithoutListenerIsRejected) {
  ASSERT_TRUE(ManagerOf(a_).Create().has_value());
  Connect(a_, b_);
  Exchange();
  const auto event = OnlyEvent(a_, EventKind::kRejReceived);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(std::get<cm::Rej>(event->message).reason, cm::RejectReason::kInvalidServiceId);
}

// In a fabric the switch knows which process listens, and communication ids tell processes apart.
TEST_F(GeneralServicesTest, InAFabricRequestsGoByTheSwitch) {
  EndpointConfig config = a_.endpoint.config();
  config.has_links = true;
  config.first_qpn = {5 * kMaxQps};
  TestHost host(config);
  Listen(host);
  const CommunicationId id = Connect(host, host);
  EXPECT_EQ(cm::Steering::BlockOf(id), 5u);
  EXPECT_TRUE(host.endpoint.HasTransmit(Route::kWire));
  EXPECT_FALSE(host.endpoint.HasTransmit(Route::kLoopback));
  EXPECT_TRUE(Carry(host, host, Route::kWire));
  const auto request = OnlyEvent(host, EventKind::kReqReceived);
  ASSERT_TRUE(request.has_value());
  ASSERT_EQ(ManagerOf(host).Accept(now_, request->id, {.qpn = {5 * kMaxQps}}), Status::kOk);
  Update(host);
  EXPECT_TRUE(host.endpoint.HasTransmit(Route::kLoopback)) << "the receiver's id is ours";
}

TEST_F(GeneralServicesTest, InvalidManagementDatagramsAreDropped) {
  Listen(b_);
  EXPECT_EQ(Deliver({}), DropReason::kNone);
  EXPECT_EQ(Deliver({.qkey = 0x1111'1111}), DropReason::kBadQkey);
  EXPECT_EQ(Deliver({.opcode = {}}), DropReason::kWrongService);
  EXPECT_EQ(Deliver({.bytes = 252}), DropReason::kMessageTooLong);
  EXPECT_EQ(Deliver({.from = RouteToBlock(7)}), DropReason::kForeignSource) << "past the switch";
}

TEST_F(GeneralServicesTest, RequestWaitsForTheEthernetAddress) {
  Listen(b_);
  const Gid destination = PathTo(a_, b_).address.destination_gid;
  GeneralServices& services = ConnectWithoutMac();
  EXPECT_TRUE(services.WantsNeighbors());
  EXPECT_LE(a_.endpoint.NextDeadline(), now_);
  EXPECT_FALSE(a_.endpoint.HasTransmit());
  std::vector<Gid> asked;
  services.Resolve(now_, [&](const Gid& gid) -> std::optional<MacAddress> {
    asked.push_back(gid);
    return std::nullopt;
  });
  EXPECT_EQ(asked, std::vector{destination});
  EXPECT_FALSE(services.WantsNeighbors());
  a_.endpoint.UpdateNeighbor(destination, b_.endpoint.config().mac);
  EXPECT_TRUE(services.WantsNeighbors());
  services.Resolve(now_, [&](const Gid&) { return std::optional(b_.endpoint.config().mac); });
  Exchange();
  EXPECT_TRUE(OnlyEvent(b_, EventKind::kReqReceived).has_value());
}

TEST_F(GeneralServicesTest, WaitingForAnEthernetAddressEnds) {
  GeneralServices& services = ConnectWithoutMac();
  const auto unknown = [](const Gid&) { return std::optional<MacAddress>(); };
  int asked = 0;
  const Time end = now_ + GeneralServices::kUnresolvedFor;
  while (a_.endpoint.NextDeadline() <= end + GeneralServices::kAskAgain) {
    now_ = std::max(now_, a_.endpoint.NextDeadline());
    a_.endpoint.OnDeadline(now_);
    if (!services.WantsNeighbors()) break;
    services.Resolve(now_, unknown);
    ++asked;
  }
  EXPECT_GE(now_, end);
  EXPECT_GT(asked, 100);
  EXPECT_FALSE(a_.endpoint.HasTransmit());
}

TEST_F(GeneralServicesTest, DatagramsThatWaitAreBounded) {
  ConnectionManager& manager = ManagerOf(a_);
  GeneralServices& services = a_.endpoint.UseGeneralServices();
  cm::Path path = PathTo(a_, b_);
  path.address.destination_mac = {};
  for (size_t i = 0; i < GeneralServices::kMaxUnresolved + 100; ++i) {
    ASSERT_EQ(manager.Connect(now_, *manager.Create(),
                              {.service_id = kService, .path = path, .qpn = a_.qp->qpn()}),
              Status::kOk);
    services.Update(now_);
  }
  size_t asked = 0;
  services.Resolve(now_, [&](const Gid&) {
    ++asked;
    return std::optional<MacAddress>();
  });
  EXPECT_EQ(asked, GeneralServices::kMaxUnresolved);
}

}  // namespace
}  // namespace uroce::transport
