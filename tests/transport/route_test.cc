#include "transport/route.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/transport/linked_processes.h"
#include "transport/qp/transmit_schedule.h"

namespace uroce::transport {
namespace {

const Gid kElsewhere = Gid::FromIpv4({10, 0, 0, 1});
const Gid kGroup = Gid::FromIpv4({239, 1, 2, 3});

Qpn InBlock(uint32_t block) { return {block * kMaxQps + 7}; }

TEST(RouteTest, BlocksAndRoutesNameEachOther) {
  for (const uint32_t block : {0u, 1u, 512u, kQpnBlocks - 1}) {
    EXPECT_EQ(BlockOf(InBlock(block)), block);
    EXPECT_EQ(BlockOf(RouteToBlock(block)), block);
    EXPECT_TRUE(IsLink(RouteToBlock(block)));
    EXPECT_LT(static_cast<size_t>(RouteToBlock(block)), kRoutes);
  }
  EXPECT_EQ(BlockOf(Qpn{kMaxQpn}), kQpnBlocks - 1);
  EXPECT_FALSE(IsLink(Route::kWire));
  EXPECT_FALSE(IsLink(Route::kLoopback));
}

TEST(RouteTest, WithoutLinksOnlyOurOwnBlockIsNotBeyondTheWire) {
  EndpointConfig config = ProcessConfig(3, true);
  config.has_links = false;
  EXPECT_EQ(config.RouteTo(kHostGid, InBlock(3)), Route::kLoopback);
  EXPECT_EQ(config.RouteTo(kHostGid, InBlock(4)), Route::kWire);
  EXPECT_EQ(config.RouteTo(kElsewhere, InBlock(3)), Route::kWire);
}

TEST(RouteTest, ProcessesThatShareOurAddressHaveLinks) {
  const EndpointConfig config = ProcessConfig(3, true);
  EXPECT_EQ(config.RouteTo(kHostGid, InBlock(3)), Route::kLoopback);
  EXPECT_EQ(config.RouteTo(kHostGid, InBlock(4)), RouteToBlock(4));
  EXPECT_EQ(config.RouteTo(kElsewhere, InBlock(3)), Route::kWire);
  EXPECT_EQ(config.RouteTo(kElsewhere, InBlock(4)), Route::kWire);
  EXPECT_EQ(config.RouteTo(kGroup, kMulticastQpn), Route::kWire);
}

TEST(RouteTest, WithoutAWireEveryAddressIsOfThisHost) {
  const EndpointConfig config = ProcessConfig(3, false);
  EXPECT_EQ(config.RouteTo(kHostGid, InBlock(3)), Route::kLoopback);
  EXPECT_EQ(config.RouteTo(kElsewhere, InBlock(4)), RouteToBlock(4));
  EXPECT_EQ(config.RouteTo(kGroup, kMulticastQpn), Route::kWire);
}

// Has `frames` frames to send, one byte each.
class Sender : public TransmitClient {
 public:
  explicit Sender(int frames) : frames_(frames) {}
  size_t BuildFrame(Time, const FrameRoom&) override { return frames_-- > 0 ? 1 : 0; }

 private:
  int frames_;
};

TEST(TransmitScheduleTest, RoutesAreFoundInTheirOrder) {
  TransmitSchedule schedule;
  EXPECT_EQ(schedule.FirstReady(Route{}), std::nullopt);
  const std::vector<Route> routes = {Route::kWire, RouteToBlock(1), RouteToBlock(61),
                                     RouteToBlock(62), RouteToBlock(kQpnBlocks - 1)};
  std::vector<Sender> senders(routes.size(), Sender(1));
  for (size_t i = routes.size(); i-- > 0;) schedule.Add(routes[i], senders[i]);

  std::vector<Route> found;
  for (Route from{}; const auto route = schedule.FirstReady(from);) {
    found.push_back(*route);
    from = static_cast<Route>(static_cast<uint16_t>(*route) + 1);
  }
  EXPECT_EQ(found, routes);
}

TEST(TransmitScheduleTest, ARouteThatRanDryIsNotFoundAgain) {
  TransmitSchedule schedule;
  Sender sender(1);
  std::array<uint8_t, 1> frame;
  schedule.Add(RouteToBlock(5), sender);
  EXPECT_EQ(schedule.BuildFrame({}, RouteToBlock(5), frame), 1u);
  EXPECT_EQ(schedule.BuildFrame({}, RouteToBlock(5), frame), 0u);
  EXPECT_EQ(schedule.FirstReady(Route{}), std::nullopt);
  schedule.Add(RouteToBlock(5), sender);
  schedule.Remove(RouteToBlock(5), sender);
  EXPECT_EQ(schedule.FirstReady(Route{}), std::nullopt);
}

// The frame of a WRITE by the first of two linked processes.
std::span<const uint8_t> Write(LinkedProcesses& pair) {
  const ScatterGatherEntry sge = {pair.first.address(0), 8, pair.first.key};
  SendWorkRequest request;
  request.opcode = SendOpcode::kRdmaWrite;
  request.remote_address = pair.second.address(0);
  request.rkey = pair.second.rkey();
  request.sges = {&sge, 1};
  EXPECT_EQ(pair.first.qp->PostSend(request), Status::kOk);
  return pair.Send();
}

TEST(LinkedProcessesTest, FramesTakeTheLinkOfThePeersBlock) {
  LinkedProcesses pair;
  const auto frame = Write(pair);
  ASSERT_FALSE(frame.empty());
  EXPECT_FALSE(pair.first.endpoint.HasTransmit(Route::kWire));
  EXPECT_EQ(pair.Receive(frame), DropReason::kNone);
}

TEST(LinkedProcessesTest, FramesOfThePeerFromOtherRoutesAreDropped) {
  LinkedProcesses pair;
  const auto frame = Write(pair);
  for (const Route from : {Route::kWire, Route::kLoopback, RouteToBlock(3)}) {
    EXPECT_EQ(pair.second.endpoint.OnFrame({}, frame, from), DropReason::kForeignSource);
  }
  EXPECT_EQ(pair.Receive(frame), DropReason::kNone);
}

// A process with a datagram queue pair on the host's address.
struct DatagramProcess {
  explicit DatagramProcess(uint32_t block, bool has_wire) : host(ProcessConfig(block, has_wire)) {
    QpInitAttributes init;
    init.pd = kTestPd;
    init.type = QpType::kUnreliableDatagram;
    init.send_cq = init.receive_cq = host.cq.get();
    init.capabilities = {
        .max_send_wr = 4, .max_receive_wr = 4, .max_send_sge = 1, .max_receive_sge = 1};
    EXPECT_EQ(host.endpoint.CreateQueuePair(init, &qp), Status::kOk);
    BringUpDatagram(*qp, 5);
  }
  // The frame of a datagram from this process to `to`.
  std::vector<uint8_t> SendTo(const DatagramProcess& to) {
    const ScatterGatherEntry sge = {host.address(0), 8, host.key};
    const AddressVector address = {
        .destination_gid = kHostGid, .destination_mac = kHostMac, .source_gid_index = 1};
    SendWorkRequest request;
    request.opcode = SendOpcode::kSend;
    request.sges = {&sge, 1};
    request.remote_qpn = to.qp->qpn();
    request.remote_qkey = 5;
    request.address = &address;
    EXPECT_EQ(qp->PostSend(request), Status::kOk);
    std::vector<uint8_t> frame(kMaxFrameBytes);
    const Route route = host.endpoint.FirstTransmit(Route::kWire).value();
    frame.resize(host.endpoint.PollTransmit({}, route, frame));
    return frame;
  }

  TestHost host;
  QueuePair* qp = nullptr;
};

TEST(DatagramRouteTest, ProcessOfTheHostSendsByItsLinkOrByTheSwitch) {
  for (const bool has_wire : {true, false}) {
    DatagramProcess sender(1, has_wire), receiver(2, has_wire);
    const auto frame = sender.SendTo(receiver);
    for (const Route from : {RouteToBlock(3), Route::kLoopback}) {
      EXPECT_EQ(receiver.host.endpoint.OnFrame({}, frame, from), DropReason::kForeignSource);
    }
    for (const Route from : {RouteToBlock(1), Route::kWire}) {
      EXPECT_NE(receiver.host.endpoint.OnFrame({}, frame, from), DropReason::kForeignSource);
    }
  }
}

}  // namespace
}  // namespace uroce::transport
