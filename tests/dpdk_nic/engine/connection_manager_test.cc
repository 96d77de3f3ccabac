// Programs of one host connect by the connection manager: engines, a fabric, its uroced and the
// switch, which forwards the MADs.
#include "transport/cm/connection_manager.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "dpdk_nic/base/clock.h"
#include "tests/dpdk_nic/engine/engine_host.h"

namespace uroce::nic {
namespace {

using transport::Endpoint;
using transport::Gid;
using transport::Milliseconds;
using transport::QpAttributes;
using transport::QpState;
using transport::Status;
using transport::Time;
using transport::cm::CommunicationId;
using transport::cm::ConnectionManager;
using transport::cm::Event;
using transport::cm::EventKind;
using transport::cm::PortSpace;
using transport::cm::ServiceId;
using ServiceState = PacketPort::ServiceState;

constexpr transport::Duration kLong = Milliseconds(60'000);
constexpr transport::Psn kStartingPsn{0xff'fff0};
constexpr QpState kStates[] = {QpState::kInit, QpState::kReadyToReceive, QpState::kReadyToSend};

// A service that no other test uses: all tests of this process share a fabric.
ServiceId NewService() {
  static uint16_t port = 20'000;
  return transport::cm::ServiceIdOf(PortSpace::kTcp, ++port);
}

PacketPort::Service Bound(ServiceId id, bool shares = false) {
  return {.id = id, .address = {}, .shares = shares};
}
PacketPort::Service Listening(ServiceId id) { return {.id = id, .address = {}, .listens = true}; }

// A program: an engine with a queue pair, or a further queue pair on another Program's engine.
class Program {
 public:
  Program() : told_(std::make_shared<std::atomic<uint64_t>>(0)), host_(OptionsThatCount(told_)) {}
  explicit Program(Program& other) : told_(other.told_), host_(other.engine()) {}

  EngineHost& host() { return host_; }
  Engine& engine() { return host_.engine(); }
  uint64_t told() const { return *told_; }

  template <class F>
  auto With(F&& f) {
    return engine().WithConnectionManager(std::forward<F>(f));
  }

  void Listen(ServiceId service) {
    With([&](ConnectionManager& cm, Time) {
      EXPECT_EQ(cm.Listen(*cm.Create(), service), Status::kOk);
    });
    EXPECT_EQ(engine().ReserveService(Listening(service), kLong), ServiceState::kReserved);
  }
  CommunicationId Connect(ServiceId service) {
    const ConnectionInfo info = host_.info();
    transport::cm::Path path{
        .source_gid = info.gid, .mtu = transport::Mtu::k1024, .packet_life_time = 19};
    path.address.destination_gid = info.gid;  // the same for all ends of the test's fabric
    path.address.source_gid_index = 1;
    return With([&](ConnectionManager& cm, Time now) {
      const CommunicationId id = *cm.Create();
      EXPECT_EQ(cm.Connect(now, id,
                           {.service_id = service,
                            .path = path,
                            .qpn = info.qpn,
                            .starting_psn = kStartingPsn,
                            .responder_resources = 4,
                            .initiator_depth = 4}),
                Status::kOk);
      return id;
    });
  }
  // The next event, which must be of this kind.
  std::optional<Event> Await(EventKind kind) {
    const Time give_up = Now() + kLong;
    while (Now() < give_up) {
      auto event = With([](ConnectionManager& cm, Time) { return cm.TakeEvent(); });
      if (event) {
        EXPECT_EQ(event->kind, kind);
        return event;
      }
      engine().TryRunOnce();
    }
    ADD_FAILURE() << "the event did not come: " << static_cast<int>(kind);
    return std::nullopt;
  }
  // As rdma_cm does it: with the attributes that the connection manager gives.
  void ModifyQueuePair(CommunicationId id) {
    const transport::Qpn qpn = host_.info().qpn;
    for (const QpState state : kStates) {
      QpAttributes attributes;
      uint32_t mask = 0;
      ASSERT_EQ(With([&](ConnectionManager& cm, Time) {
                  return cm.Attributes(id, state, attributes, mask);
                }),
                Status::kOk);
      attributes.rq_psn = kStartingPsn;  // the passive end sends it only in its REP
      if (state == QpState::kReadyToReceive) Prepare(qpn, attributes);
      EXPECT_EQ(engine().WithEndpoint([&](Endpoint& endpoint) {
        return endpoint.Find(qpn)->Modify(attributes, mask);
      }),
                Status::kOk);
    }
  }
  void Accept(CommunicationId id) {
    ModifyQueuePair(id);
    const transport::Qpn qpn = host_.info().qpn;
    With([&](ConnectionManager& cm, Time now) {
      EXPECT_EQ(cm.Accept(now, id,
                          {.qpn = qpn,
                           .starting_psn = kStartingPsn,
                           .responder_resources = 4,
                           .initiator_depth = 4}),
                Status::kOk);
    });
  }
  void ConfirmReady(CommunicationId id) {
    ModifyQueuePair(id);
    With([&](ConnectionManager& cm, Time) { EXPECT_EQ(cm.ConfirmReady(id, {}), Status::kOk); });
  }

 private:
  static Engine::Options OptionsThatCount(const std::shared_ptr<std::atomic<uint64_t>>& count) {
    Engine::Options options;
    options.connection_sink = [count] { ++*count; };
    return options;
  }
  void Prepare(transport::Qpn qpn, QpAttributes& attributes) {
    const Gid& gid = attributes.address.destination_gid;
    const auto mac = engine().ResolveNeighbor(gid, kLong);
    ASSERT_TRUE(mac.has_value());
    attributes.address.destination_mac = *mac;
    const transport::Route route = engine().WithEndpoint([&](Endpoint& endpoint) {
      return endpoint.config().RouteTo(gid, attributes.destination_qpn);
    });
    EXPECT_EQ(
        engine().PreparePath(
            {.route = route, .local = qpn, .remote = attributes.destination_qpn, .remote_gid = gid},
            kLong),
        PacketPort::PathState::kReady);
  }

  const std::shared_ptr<std::atomic<uint64_t>> told_;
  EngineHost host_;
};

// Connects, sends a message each way, disconnects.
void LiveThrough(Program& active, Program& passive) {
  const ServiceId service = NewService();
  passive.Listen(service);
  const CommunicationId id = active.Connect(service);
  const auto request = passive.Await(EventKind::kReqReceived);
  ASSERT_TRUE(request.has_value());
  passive.Accept(request->id);
  ASSERT_TRUE(active.Await(EventKind::kRepReceived).has_value());
  active.ConfirmReady(id);
  ASSERT_TRUE(passive.Await(EventKind::kRtuReceived).has_value());

  for (const auto& [from, to] : {std::pair{&active, &passive}, std::pair{&passive, &active}}) {
    ASSERT_EQ(to->host().PostReceive(0, 5'000), Status::kOk);
    ASSERT_EQ(from->host().Post(transport::SendOpcode::kSend, 0, 5'000), Status::kOk);
    for (Program* end : {from, to}) {
      const auto completions = end->host().Poll(1);
      ASSERT_EQ(completions.size(), 1u);
      EXPECT_EQ(completions[0].status, transport::CompletionStatus::kSuccess);
    }
  }

  active.With(
      [&](ConnectionManager& cm, Time now) { EXPECT_EQ(cm.Disconnect(now, id, {}), Status::kOk); });
  const auto end = passive.Await(EventKind::kDreqReceived);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->id, request->id);
  passive.With([&](ConnectionManager& cm, Time now) {
    EXPECT_EQ(cm.ConfirmDisconnect(now, end->id, {}), Status::kOk);
  });
  EXPECT_TRUE(active.Await(EventKind::kDrepReceived).has_value());
  EXPECT_NE(passive.told(), 0u);
  EXPECT_NE(active.told(), 0u);
  passive.engine().ReleaseService(Bound(service));
}

TEST(ConnectionManagerTest, ProcessesConnectTransferAndDisconnect) {
  Program active, passive;
  LiveThrough(active, passive);
}

TEST(ConnectionManagerTest, ProcessConnectsToItself) {
  Program passive;
  Program active(passive);
  const ServiceId service = NewService();
  passive.Listen(service);
  const CommunicationId id = active.Connect(service);
  const auto request = passive.Await(EventKind::kReqReceived);
  ASSERT_TRUE(request.has_value());
  passive.Accept(request->id);
  const auto reply = active.Await(EventKind::kRepReceived);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->id, id);
  active.ConfirmReady(id);
  ASSERT_TRUE(passive.Await(EventKind::kRtuReceived).has_value());
  ASSERT_EQ(passive.host().PostReceive(0, 64), Status::kOk);
  ASSERT_EQ(active.host().Post(transport::SendOpcode::kSend, 0, 64), Status::kOk);
  EXPECT_EQ(active.host().Poll(1).size(), 1u);
  EXPECT_EQ(passive.host().Poll(1).size(), 1u);
}

TEST(ConnectionManagerTest, RequestWithoutListenerIsRejected) {
  Program active;
  const CommunicationId id = active.Connect(NewService());
  const auto event = active.Await(EventKind::kRejReceived);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->id, id);
  EXPECT_EQ(std::get<transport::cm::Rej>(event->message).reason,
            transport::cm::RejectReason::kInvalidServiceId);
}

TEST(ConnectionManagerTest, ServiceOfOneProcessIsInUseForOtherProcesses) {
  Program first, second;
  const ServiceId service = NewService();
  const auto reserve = [](Program& program, const PacketPort::Service& wanted) {
    return program.engine().ReserveService(wanted, kLong);
  };
  EXPECT_EQ(reserve(first, Bound(service)), ServiceState::kReserved);
  EXPECT_EQ(reserve(first, Bound(service)), ServiceState::kReserved);
  EXPECT_EQ(reserve(second, Bound(service)), ServiceState::kInUse);
  EXPECT_EQ(reserve(second, Bound(service)), ServiceState::kInUse);
  first.engine().ReleaseService(Bound(service));
  EXPECT_EQ(reserve(second, Bound(service, true)), ServiceState::kReserved);
  EXPECT_EQ(reserve(first, Bound(service, true)), ServiceState::kReserved);
  EXPECT_EQ(reserve(first, Listening(service)), ServiceState::kInUse) << "the other shares it";
  second.engine().ReleaseService(Bound(service));
  EXPECT_EQ(reserve(first, Listening(service)), ServiceState::kReserved) << "kept meanwhile";
}

TEST(ConnectionManagerTest, ServiceIsFreeWhenItsProcessHasGone) {
  const ServiceId service = NewService();
  auto first = std::make_unique<Program>();
  Program second;
  EXPECT_EQ(first->engine().ReserveService(Bound(service), kLong), ServiceState::kReserved);
  EXPECT_EQ(second.engine().ReserveService(Bound(service), kLong), ServiceState::kInUse);
  first.reset();
  const Time give_up = Now() + kLong;
  auto state = ServiceState::kInUse;
  while (state == ServiceState::kInUse && Now() < give_up) {
    state = second.engine().ReserveService(Bound(service), kLong);
  }
  EXPECT_EQ(state, ServiceState::kReserved);
}

}  // namespace
}  // namespace uroce::nic
