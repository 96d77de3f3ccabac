#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/engine/engine.h"
#include "dpdk_nic/engine/published_state.h"
#include "tests/dpdk_nic/engine/scripted_port.h"

namespace uroce::nic {

// Waits until `condition` holds; false after a minute.
inline bool WaitUntil(const std::function<bool()>& condition) {
  const transport::Time give_up = Now() + transport::Milliseconds(60'000);
  while (!condition()) {
    if (Now() >= give_up) return false;
    usleep(1'000);
  }
  return true;
}

// An engine on a ScriptedPort, with links to the processes that have the other blocks of QPNs.
class EnginePortTest : public ::testing::Test {
 protected:
  using Endpoint = transport::Endpoint;
  using Gid = transport::Gid;
  using QpState = transport::QpState;
  using Status = transport::Status;

  static constexpr uint32_t kQueueDepth = 256;
  static constexpr Gid kOwnIp = Gid::FromIpv4({10, 0, 0, 1});
  // The address of all peers.
  static constexpr transport::MacAddress kPeerMac = {2, 0, 0, 0, 0, 2};
  static constexpr Gid kPeerGid = Gid::LinkLocal(kPeerMac);

  void SetUp() override {
    auto port = std::make_unique<ScriptedPort>();
    port_ = port.get();
    transport::EndpointConfig config;
    config.mac = port->mac();
    config.gids = {Gid::LinkLocal(config.mac), kOwnIp};
    config.has_links = true;
    config.has_wire = false;
    config.port_mtu = port->mtu();
    Engine::Options options;
    options.published_state = PublishedState::Create();
    auto link_layer = std::make_unique<ScriptedLinkLayer>();
    link_layer_ = link_layer.get();
    options.link_layer = std::move(link_layer);
    options.event_sink = [this](const transport::Event& event) { events_.push_back(event.type); };
    engine_ = std::make_unique<Engine>(std::move(port), config, std::move(options));
    engine_->WithEndpoint([&](Endpoint& endpoint) {
      cq_ = endpoint.CreateCompletionQueue(2 * kQueueDepth, nullptr);
    });
  }

  void TearDown() override {
    engine_->WithEndpoint([&](Endpoint& endpoint) {
      for (transport::QueuePair* qp : queue_pairs_) endpoint.DestroyQueuePair(qp);
      endpoint.DestroyCompletionQueue(std::move(cq_));
    });
  }

  // Creates a UD queue pair in RTS.
  transport::QueuePair& CreateQueuePair() {
    using M = transport::QpAttributeMask;
    const transport::QpInitAttributes init = {
        .pd = {1},
        .type = transport::QpType::kUnreliableDatagram,
        .send_cq = cq_.get(),
        .receive_cq = cq_.get(),
        .capabilities = {.max_send_wr = kQueueDepth, .max_send_sge = 1}};
    transport::QpAttributes a;
    a.port_num = 1;
    transport::QueuePair* qp = nullptr;
    engine_->WithEndpoint([&](Endpoint& endpoint) {
      EXPECT_EQ(endpoint.CreateQueuePair(init, &qp), Status::kOk);
      a.state = QpState::kInit;
      EXPECT_EQ(qp->Modify(a, M::kState | M::kPkeyIndex | M::kPort | M::kQkey), Status::kOk);
      a.state = QpState::kReadyToReceive;
      EXPECT_EQ(qp->Modify(a, M::kState), Status::kOk);
      a.state = QpState::kReadyToSend;
      EXPECT_EQ(qp->Modify(a, M::kState | M::kSqPsn), Status::kOk);
    });
    queue_pairs_.push_back(qp);
    return *qp;
  }

  // Creates a queue pair connected to one of the process that has `block`, which never answers. By
  // default it waits for ever for an answer.
  transport::QueuePair& Connect(uint32_t block, uint8_t timeout = 0) {
    using M = transport::QpAttributeMask;
    const transport::QpInitAttributes init = {
        .pd = {1},
        .send_cq = cq_.get(),
        .receive_cq = cq_.get(),
        .capabilities = {.max_send_wr = kQueueDepth, .max_send_sge = 1, .max_inline_bytes = 64}};
    transport::QpAttributes a;
    a.port_num = 1;
    a.access = transport::AccessFlags(transport::AccessFlags::kRemoteWrite);
    a.destination_qpn = {block * transport::kMaxQps + 1};
    a.address = {.destination_gid = kPeerGid, .destination_mac = kPeerMac};
    transport::QueuePair* qp = nullptr;
    engine_->WithEndpoint([&](Endpoint& endpoint) {
      EXPECT_EQ(endpoint.CreateQueuePair(init, &qp), Status::kOk);
      a.state = QpState::kInit;
      EXPECT_EQ(qp->Modify(a, M::kState | M::kPkeyIndex | M::kPort | M::kAccessFlags), Status::kOk);
      a.state = QpState::kReadyToReceive;
      EXPECT_EQ(qp->Modify(a, M::kState | M::kAddressVector | M::kPathMtu | M::kDestinationQpn |
                                  M::kRqPsn | M::kMaxDestReadAtomic | M::kMinRnrTimer),
                Status::kOk);
      a.state = QpState::kReadyToSend;
      a.timeout = timeout;
      EXPECT_EQ(qp->Modify(a, M::kState | M::kSqPsn | M::kTimeout | M::kRetryCount | M::kRnrRetry |
                                  M::kMaxReadAtomic),
                Status::kOk);
    });
    queue_pairs_.push_back(qp);
    return *qp;
  }

  Status PostWrite(const Engine::Verb& verb, transport::QueuePair& qp, bool fence = false) {
    static constexpr std::array<uint8_t, 8> kBytes{};
    const transport::ScatterGatherEntry sge = {
        reinterpret_cast<uint64_t>(kBytes.data()), kBytes.size(), {}};
    transport::SendWorkRequest request;
    request.opcode = transport::SendOpcode::kRdmaWrite;
    request.inline_data = true;
    request.fence = fence;
    request.sges = {&sge, 1};
    return engine_->PostSend(verb, qp, request);
  }

  // Posts `count` datagrams to the process that has `block`.
  void Post(transport::QueuePair& qp, uint32_t block, int count) {
    const transport::AddressVector address = {.destination_gid = kPeerGid,
                                              .destination_mac = kPeerMac};
    transport::SendWorkRequest request;
    request.remote_qpn = {block * transport::kMaxQps + 1};
    request.inline_data = true;
    request.address = &address;
    engine_->WithEndpoint([&](Endpoint&) {
      for (int i = 0; i < count; ++i) ASSERT_EQ(qp.PostSend(request), Status::kOk);
    });
  }

  // Polls, as a program does, until the progress thread stands by: from then on frames may wait for
  // others.
  bool PollUntilFramesMayWait() {
    return WaitUntil([&] {
      const int before = port_->flushes_soon;
      for (int i = 0; i < 100'000 && port_->flushes_soon == before; ++i) {
        if (i % 1'000 == 0) port_->WakeSleeper();  // a sleeping progress thread sees no driver
        engine_->TryRunOnce();
      }
      return port_->flushes_soon != before;
    });
  }
  // Posts requests, which are never answered, until one waits for others. The first one must not
  // wait.
  bool PostUntilOneWaits() {
    return WaitUntil([&] {
      transport::QueuePair& qp = Connect(7);
      if (!PollUntilFramesMayWait()) return false;
      const size_t before = port_->frames_sent;
      for (int posted = 0; posted < 8; ++posted) {
        const Engine::Verb verb(*engine_);
        EXPECT_TRUE(posted != 1 || port_->frames_flushed == before + 1) << "the first was alone";
        EXPECT_EQ(PostWrite(verb, qp), Status::kOk);
      }
      return port_->frames_flushed != port_->frames_sent;
    });
  }

  std::unique_ptr<Engine> engine_;
  ScriptedPort* port_ = nullptr;
  ScriptedLinkLayer* link_layer_ = nullptr;
  std::vector<transport::EventType> events_;  // under the engine's lock
  std::unique_ptr<transport::CompletionQueue> cq_;
  std::vector<transport::QueuePair*> queue_pairs_;
};

}  // namespace uroce::nic
