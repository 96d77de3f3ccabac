#include "tests/dpdk_nic/engine/engine_host.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/engine/published_state.h"
#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/port/fabric/fabric_port.h"
#include "tests/dpdk_nic/port/fabric/test_fabric.h"

namespace uroce::nic {

using transport::AccessFlags;
using transport::Completion;
using transport::Endpoint;
using transport::Gid;
using transport::QpAttributeMask;
using transport::QpState;
using transport::SendOpcode;
using transport::Status;

namespace {

constexpr transport::PdId kPd{1};
constexpr uint32_t kAllAccess = AccessFlags::kLocalWrite | AccessFlags::kRemoteWrite |
                                AccessFlags::kRemoteRead | AccessFlags::kRemoteAtomic;
constexpr transport::Duration kPathTimeout = transport::Milliseconds(10'000);
constexpr transport::Duration kMuchTooLong = transport::Milliseconds(60'000);

std::unique_ptr<Engine> NewEngine(const std::string& fabric, Engine::Options options,
                                  const EngineHost::WrapPort& wrap) {
  options.published_state = PublishedState::Create();
  FabricPort::Options port_options;
  port_options.fabric = fabric;
  port_options.ip = Gid::FromIpv4({127, 0, 0, 1});  // all ends have it, as by default
  port_options.published_state_fd = options.published_state->fd();
  if (!wrap) port_options.icrc = transport::IcrcUse::kWaived;  // as a device sets it
  auto fabric_port = std::make_unique<FabricPort>(port_options);
  const auto error = fabric_port->Attach();
  EXPECT_FALSE(error.has_value()) << error->sentence;

  transport::EndpointConfig config;
  config.mac = fabric_port->mac();
  config.gids = {Gid::LinkLocal(config.mac), port_options.ip};
  config.has_links = true;
  config.has_wire = false;
  config.port_mtu = fabric_port->mtu();
  config.first_qpn = {fabric_port->fabric().block * transport::kMaxQps};
  std::unique_ptr<PacketPort> port = std::move(fabric_port);
  if (wrap) port = wrap(std::move(port));
  return std::make_unique<Engine>(std::move(port), config, std::move(options));
}

}  // namespace

EngineHost::EngineHost(Engine::Options options, WrapPort wrap)
    : EngineHost(TestFabric(), std::move(options), std::move(wrap)) {}

EngineHost::EngineHost(const std::string& fabric, Engine::Options options, WrapPort wrap)
    : owned_engine_(NewEngine(fabric, std::move(options), wrap)),
      engine_(*owned_engine_),
      memory_(kMemoryBytes) {
  CreateObjects();
}

EngineHost::EngineHost(Engine& engine) : engine_(engine), memory_(kMemoryBytes) { CreateObjects(); }

void EngineHost::CreateObjects() {
  engine_.WithEndpoint([&](Endpoint& endpoint) {
    const auto base = reinterpret_cast<uint64_t>(memory_.data());
    key_ = *endpoint.memory().Register({.pd = kPd,
                                        .iova = base,
                                        .host_address = memory_.data(),
                                        .length = memory_.size(),
                                        .access = AccessFlags(kAllAccess)});
    cq_ = endpoint.CreateCompletionQueue(4 * kQueueDepth, this);
  });
  ReplaceQueuePair();
}

EngineHost::~EngineHost() {
  engine_.WithEndpoint([&](Endpoint& endpoint) {
    endpoint.DestroyQueuePair(qp_);
    endpoint.DestroyCompletionQueue(std::move(cq_));
    EXPECT_EQ(endpoint.memory().Deregister(key_), Status::kOk);
  });
}

std::vector<uint8_t>& EngineHost::memory() {
  engine_.WithEndpoint([](Endpoint&) {});
  return memory_;
}

QpState EngineHost::state() {
  return engine_.WithEndpoint([&](Endpoint&) { return qp_->state(); });
}

void EngineHost::ReplaceQueuePair() {
  const transport::QpInitAttributes init = {.pd = kPd,
                                            .send_cq = cq_.get(),
                                            .receive_cq = cq_.get(),
                                            .capabilities = {.max_send_wr = kQueueDepth,
                                                             .max_receive_wr = kQueueDepth,
                                                             .max_send_sge = 1,
                                                             .max_receive_sge = 1,
                                                             .max_inline_bytes = 64}};
  engine_.WithEndpoint([&](Endpoint& endpoint) {
    if (qp_ != nullptr) endpoint.DestroyQueuePair(qp_);
    EXPECT_EQ(endpoint.CreateQueuePair(init, &qp_), Status::kOk);
  });
}

ConnectionInfo EngineHost::info() {
  return engine_.WithEndpoint([&](Endpoint& endpoint) {
    return ConnectionInfo{.gid = endpoint.config().gids[1],
                          .mac = endpoint.config().mac,
                          .qpn = qp_->qpn(),
                          .rkey = {key_.value},
                          .address = reinterpret_cast<uint64_t>(memory_.data())};
  });
}

PacketPort::PathState EngineHost::PreparePath() {
  const PacketPort::Path path = engine_.WithEndpoint([&](Endpoint& endpoint) {
    return PacketPort::Path{.route = endpoint.config().RouteTo(peer_.gid, peer_.qpn),
                            .local = qp_->qpn(),
                            .remote = peer_.qpn,
                            .remote_gid = peer_.gid};
  });
  return engine_.PreparePath(path, kPathTimeout);
}

void EngineHost::Connect(const ConnectionInfo& peer, uint8_t timeout, uint8_t retry_count) {
  using M = QpAttributeMask;
  peer_ = peer;
  PreparePath();
  engine_.WithEndpoint([&](Endpoint&) {
    transport::QpAttributes a;
    a.state = QpState::kInit;
    a.port_num = 1;
    a.access = AccessFlags(kAllAccess);
    EXPECT_EQ(qp_->Modify(a, M::kState | M::kPkeyIndex | M::kPort | M::kAccessFlags), Status::kOk);
    a.state = QpState::kReadyToReceive;
    a.path_mtu = transport::Mtu::k4096;
    a.destination_qpn = peer.qpn;
    a.max_dest_read_atomic = 4;
    a.min_rnr_timer = 1;
    a.address = {.destination_gid = peer.gid, .destination_mac = peer.mac, .source_gid_index = 1};
    EXPECT_EQ(qp_->Modify(a, M::kState | M::kAddressVector | M::kPathMtu | M::kDestinationQpn |
                                 M::kRqPsn | M::kMaxDestReadAtomic | M::kMinRnrTimer),
              Status::kOk);
    a.state = QpState::kReadyToSend;
    a.timeout = timeout;
    a.retry_count = retry_count;
    a.rnr_retry = 7;
    a.max_read_atomic = 4;
    EXPECT_EQ(qp_->Modify(a, M::kState | M::kSqPsn | M::kTimeout | M::kRetryCount | M::kRnrRetry |
                                 M::kMaxReadAtomic),
              Status::kOk);
  });
}

Status EngineHost::Post(SendOpcode opcode, size_t offset, uint32_t length, uint64_t wr_id) {
  const transport::ScatterGatherEntry sge = {reinterpret_cast<uint64_t>(memory_.data()) + offset,
                                             length, key_};
  transport::SendWorkRequest request;
  request.wr_id = wr_id;
  request.opcode = opcode;
  request.signaled = true;
  request.remote_address = peer_.address + offset;
  request.rkey = peer_.rkey;
  request.sges = {&sge, 1};
  const Engine::Verb verb(engine_);
  return engine_.PostSend(verb, *qp_, request);
}

Status EngineHost::PostReceive(size_t offset, uint32_t length, uint64_t wr_id) {
  const transport::ScatterGatherEntry sge = {reinterpret_cast<uint64_t>(memory_.data()) + offset,
                                             length, key_};
  return engine_.WithEndpoint([&](Endpoint&) {
    return qp_->PostReceive({.wr_id = wr_id, .sges = {&sge, 1}});
  });
}

void EngineHost::Arm() {
  engine_.WithEndpoint([&](Endpoint&) { cq_->Arm(transport::CompletionQueue::NotifyOn::kAny); });
}

std::vector<Completion> EngineHost::Poll(size_t count) {
  return Collect(count, [this] { engine_.TryRunOnce(); });
}

std::vector<Completion> EngineHost::WaitWithoutDriving(size_t count) {
  return Collect(count, [] { usleep(100); });
}

std::vector<Completion> EngineHost::Collect(size_t count, const std::function<void()>& idle) {
  const transport::Time give_up = Now() + kMuchTooLong;
  std::vector<Completion> completions(count);
  size_t found = 0;
  while (found < count) {
    const uint32_t polled = cq_->Poll(std::span(completions).subspan(found));
    found += polled;
    if (polled != 0) continue;
    if (Now() >= give_up) {
      ADD_FAILURE() << "only " << found << " of " << count << " completions came";
      break;
    }
    idle();
  }
  completions.resize(found);
  return completions;
}

EnginePair::EnginePair(std::function<Engine::Options()> options)
    : a(options ? options() : Engine::Options{}), b(options ? options() : Engine::Options{}) {
  ConnectBoth(a, b);
}

void ConnectBoth(EngineHost& a, EngineHost& b, uint8_t timeout) {
  a.Connect(b.info(), timeout);
  b.Connect(a.info(), timeout);
}

}  // namespace uroce::nic
