// The requests of verbs to uroced, and the effects of its messages. The fabric has a NIC, and the
// test plays uroced.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dpdk_nic/device/device_config.h"
#include "tests/dpdk_nic/control/fabric_names.h"
#include "tests/dpdk_nic/engine/thread_state.h"
#include "tests/dpdk_nic/port/fabric/fake_uroced.h"
#include "tests/verbs_provider/verbs_objects.h"
#include "transport/wire/frame_builder.h"

namespace uroce::verbs::testing {
namespace {

using nic::FakeUroced;
using transport::Gid;
using transport::MacAddress;
using transport::Qpn;

// Runs before main() restarts the program with the preload library.
__attribute__((constructor)) void ChooseFabric() {
  setenv(nic::kFabricVariable, nic::UniqueFabricName().c_str(), 0);
}

const Gid kRemote = Gid::FromIpv4({10, 0, 0, 2});
constexpr MacAddress kRemoteMac = {2, 2, 2, 2, 2, 2};
constexpr uint32_t kRemoteQpn = 0x123;
constexpr uint8_t kIpv4Index = 1;
constexpr nic::control::Block kBlock = 5;

ibv_gid ToIbv(const Gid& gid) {
  ibv_gid out;
  std::memcpy(out.raw, gid.bytes.data(), sizeof out.raw);
  return out;
}

class WireTest : public ::testing::Test {
 protected:
  // Serves uroced while another thread runs `f`. If uroced answered a call of `f`, it has also
  // handled all earlier messages.
  template <class F>
  auto Serving(F f) {
    auto result = std::async(std::launch::async, f);
    while (result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) uroced.Serve();
    return result.get();
  }
  FakeUroced::Client& client() { return uroced.client(kBlock); }
  template <class Message>
  void Tell(const Message& message) {
    ASSERT_TRUE(client().channel.Send(message));
    client().channel.Flush();
  }

  void SetUp() override {
    uroced.GiveOutNext(kBlock);
    Serving([&] { host = std::make_unique<Host>(size_t{1} << 20); });
    ASSERT_NE(host->mr, nullptr);
    cq = host->CreateCq(64);
    Tell(nic::control::Neighbor{kRemote, kRemoteMac, /*is_known=*/1, 0});
  }

  Qp Create(ibv_qp_type type) {
    ibv_qp_init_attr attr = Attributes(type, cq.get(), cq.get());
    Qp qp(ibv_create_qp(host->pd.get(), &attr));
    EXPECT_NE(qp, nullptr);
    return qp;
  }
  Qp CreateConnected(ibv_qp_type type, uint32_t remote_qpn = kRemoteQpn) {
    Qp qp = Create(type);
    EXPECT_EQ(ToInit(qp.get()), 0);
    EXPECT_EQ(Serving([&] { return ToRtr(qp.get(), remote_qpn, remote); }), 0);
    EXPECT_EQ(ToRts(qp.get()), 0);
    return qp;
  }
  Qp CreateUd() {
    Qp qp = Create(IBV_QPT_UD);
    Serving([&] { BringUp(qp.get()); });
    return qp;
  }
  int Attach(ibv_qp* qp, const ibv_gid& group) {
    return Serving([&] { return ibv_attach_mcast(qp, &group, 0); });
  }

  // The destination MAC of the next frame to the wire.
  MacAddress NextDestination() {
    nic::RingLink& uplink = *client().uplink;
    MacAddress mac{};
    std::copy_n(uplink.Receive().begin(), mac.size(), mac.begin());
    uplink.Release();
    uplink.Flush();
    return mac;
  }

  // Puts an empty message of the peer, which asks for an ACK, into the uplink. Flush of the uplink
  // wakes the progress thread.
  void SendFromWire(uint32_t qpn, transport::Psn psn) {
    const nic::control::Welcome ours = FakeUroced::WiredFabric();
    transport::AddressVector to;
    to.destination_gid = ours.gids[kIpv4Index];
    to.destination_mac = ours.mac;
    transport::FrameBuilder builder(kRemoteMac, kRemote, to, /*udp_source_port=*/0xc000);
    builder.SetConnection({.destination_qpn = {qpn}});
    const transport::PacketHeaders headers = {
        .opcode = transport::kRcSendOnly, .psn = psn, .ack_request = true};
    nic::RingLink& uplink = *client().uplink;
    uplink.Commit(builder.Emit(headers, {}, uplink.Acquire()));
  }

  const ibv_gid remote = ToIbv(kRemote);
  FakeUroced uroced{getenv(nic::kFabricVariable), FakeUroced::WiredFabric()};
  std::unique_ptr<Host> host;
  Cq cq;
};

const Gid kGroup = Gid::FromIpv4({239, 1, 2, 3});
const Gid kOtherGroup = Gid::FromIpv4({239, 1, 2, 4});

TEST_F(WireTest, GroupThatUrocedRefusesHasNoMember) {
  const Qp qp = CreateUd();
  const ibv_gid group = ToIbv(kGroup);
  uroced.join_error = [](const Gid&) { return ENOSPC; };
  EXPECT_EQ(Attach(qp.get(), group), ENOSPC);
  EXPECT_EQ(ibv_detach_mcast(qp.get(), &group, 0), EINVAL);
}

TEST_F(WireTest, GroupIsLeftWithItsLastMember) {
  const Qp a = CreateUd();
  const Qp b = CreateUd();
  const ibv_gid group = ToIbv(kGroup);
  const ibv_gid other_group = ToIbv(kOtherGroup);
  ASSERT_EQ(Attach(a.get(), group), 0);
  ASSERT_EQ(Attach(b.get(), group), 0);
  ASSERT_EQ(ibv_detach_mcast(a.get(), &group, 0), 0);
  ASSERT_EQ(Attach(a.get(), other_group), 0);
  EXPECT_TRUE(client().left.empty());
  ASSERT_EQ(ibv_detach_mcast(b.get(), &group, 0), 0);
  ASSERT_EQ(Attach(b.get(), other_group), 0);
  ASSERT_EQ(ibv_detach_mcast(a.get(), &other_group, 0), 0);
  ASSERT_EQ(ibv_detach_mcast(b.get(), &other_group, 0), 0);
  ASSERT_EQ(Attach(b.get(), group), 0);
  EXPECT_EQ(client().left, (std::vector<Gid>{kGroup, kOtherGroup}));
  ASSERT_EQ(ibv_detach_mcast(b.get(), &group, 0), 0);
}

TEST_F(WireTest, ConnectionIsForgottenThatIsResetOrDestroyed) {
  const Qp reset = CreateConnected(IBV_QPT_RC, 1);
  Qp destroyed = CreateConnected(IBV_QPT_RC, 2);
  const std::vector<Qpn> expected = {{reset->qp_num}, {destroyed->qp_num}};
  ASSERT_EQ(Modify(reset.get(), IBV_QPS_RESET), 0);
  destroyed.reset();
  const Qp next = CreateConnected(IBV_QPT_RC, 3);
  EXPECT_EQ(client().forgotten, expected);
}

TEST_F(WireTest, ForbiddenTransitionAsksForNoPath) {
  const Qp qp = Create(IBV_QPT_RC);
  EXPECT_EQ(Serving([&] { return ToRtr(qp.get(), 1, remote); }), EINVAL);
  ASSERT_EQ(ToInit(qp.get()), 0);
  ASSERT_EQ(Serving([&] { return ToRtr(qp.get(), 2, remote); }), 0);
  ASSERT_EQ(client().declared.size(), 1u);
  EXPECT_EQ(client().declared[0].remote, Qpn{2});
}

TEST_F(WireTest, AddressHandleFollowsItsNeighbor) {
  const Qp qp = CreateUd();
  ibv_ah_attr attr = AddressOf(remote, kIpv4Index);
  const Ah ah(Serving([&] { return ibv_create_ah(host->pd.get(), &attr); }));
  ASSERT_NE(ah, nullptr);
  const auto send = [&] {
    SendRequest request(IBV_WR_SEND, host->Sge(0, 8));
    EXPECT_EQ(request.To(ah.get(), kRemoteQpn, 1).Post(qp.get()), 0);
    EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
    return NextDestination();
  };
  EXPECT_EQ(send(), kRemoteMac);
  constexpr MacAddress kNewMac = {2, 3, 3, 3, 3, 3};
  Tell(nic::control::Neighbor{Gid::FromIpv4({10, 0, 0, 3}), {2, 9, 9, 9, 9, 9}, 1, 0});
  Tell(nic::control::Neighbor{kRemote, kNewMac, /*is_known=*/1, 0});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  MacAddress mac = kRemoteMac;
  while (mac == kRemoteMac && std::chrono::steady_clock::now() < deadline) mac = send();
  EXPECT_EQ(mac, kNewMac);
}

TEST_F(WireTest, CarrierChangeRaisesAPortEvent) {
  for (const uint32_t is_up : {0u, 1u}) {
    Tell(nic::control::PortState{is_up});
    ibv_async_event event = {};
    ASSERT_EQ(ibv_get_async_event(host->context.get(), &event), 0);
    EXPECT_EQ(event.event_type, is_up != 0 ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
    EXPECT_EQ(event.element.port_num, 1);
    ibv_ack_async_event(&event);
  }
}

pid_t ProgressThread() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(entry.path() / "comm") >> name;
    if (name == "uroce-engine") return std::stoi(entry.path().filename());
  }
  ADD_FAILURE() << "the engine has no progress thread";
  return gettid();
}

// Tries several times, as the progress thread may wake at that very moment for another reason.
TEST_F(WireTest, PollingFindsCompletionsWhileTheHelperSleeps) {
  constexpr int kPollsOfEveryLink = 64;
  const Qp qp = CreateConnected(IBV_QPT_RC);
  const pid_t progress_thread = ProgressThread();
  bool is_found = false;
  for (uint32_t attempt = 0; attempt < 3 && !is_found; ++attempt) {
    ASSERT_EQ(PostReceive(qp.get(), host->Sge(0, 8), attempt), 0);
    while (!IsAsleep(progress_thread)) std::this_thread::yield();
    SendFromWire(qp->qp_num, transport::Psn(attempt));
    ibv_wc wc;
    for (int i = 0; i < kPollsOfEveryLink && !is_found; ++i) {
      is_found = ibv_poll_cq(cq.get(), 1, &wc) == 1;
    }
    client().uplink->Flush();
    if (!is_found) WaitForCompletion(cq.get());
  }
  EXPECT_TRUE(is_found);
}

// Without the acknowledgement the peer's queue pair would end in error.
TEST_F(WireTest, DestroyWaitsForRoomForAnAcknowledgement) {
  constexpr auto kLeastWait = std::chrono::milliseconds(100);
  const Qp filler = CreateConnected(IBV_QPT_UC, 1);
  Qp receiver = CreateConnected(IBV_QPT_RC, kRemoteQpn);
  SendRequest too_much(IBV_WR_RDMA_WRITE, host->Sge(0, 1 << 20));
  ASSERT_EQ(too_much.Remote(0, 1).Post(filler.get()), 0);
  while (Query(filler.get()).sq_psn < nic::kSlots) std::this_thread::yield();

  ASSERT_EQ(PostReceive(receiver.get(), host->Sge(0, 8), 7), 0);
  SendFromWire(receiver->qp_num, transport::Psn(0));
  client().uplink->Flush();
  ASSERT_EQ(WaitForCompletion(cq.get()).wr_id, 7u);

  const auto began = std::chrono::steady_clock::now();
  receiver.reset();
  EXPECT_GE(std::chrono::steady_clock::now() - began, kLeastWait);
}

}  // namespace
}  // namespace uroce::verbs::testing
