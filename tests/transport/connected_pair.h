#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transport/endpoint.h"
#include "transport/wire/frame_builder.h"

namespace uroce::transport {

inline constexpr PdId kTestPd{1};
inline constexpr uint16_t kTestPkey = 0x8001;
// Slightly below the wrap, so that every test that moves some data crosses it.
inline constexpr Psn kFirstPsn{0xff'fff0};
inline constexpr uint32_t kAllAccess = AccessFlags::kLocalWrite | AccessFlags::kRemoteWrite |
                                       AccessFlags::kRemoteRead | AccessFlags::kRemoteAtomic;

// An endpoint with one memory region, one completion queue and one queue pair.
struct TestHost {
  explicit TestHost(uint8_t number)
      : TestHost(EndpointConfig{
            .mac = {2, 0, 0, 0, 0, number},
            .gids = {Gid::LinkLocal({2, 0, 0, 0, 0, number}), Gid::FromIpv4({10, 0, 0, number})},
            .pkeys = {kDefaultPkey, kTestPkey}}) {}
  explicit TestHost(const EndpointConfig& config, bool signal_all = false)
      : endpoint(config), memory(1 << 20), cq(endpoint.CreateCompletionQueue(256, &cq_tag)) {
    key = *endpoint.memory().Register({.pd = kTestPd,
                                       .iova = address(0),
                                       .host_address = memory.data(),
                                       .length = memory.size(),
                                       .access = AccessFlags(kAllAccess)});
    const QpInitAttributes init = {.pd = kTestPd,
                                   .send_cq = cq.get(),
                                   .receive_cq = cq.get(),
                                   .capabilities = {.max_send_wr = 64,
                                                    .max_receive_wr = 64,
                                                    .max_send_sge = 4,
                                                    .max_receive_sge = 4,
                                                    .max_inline_bytes = 64},
                                   .signal_all = signal_all,
                                   .context = &qp_tag};
    EXPECT_EQ(endpoint.CreateQueuePair(init, &qp), Status::kOk);
  }

  uint64_t address(size_t offset) { return reinterpret_cast<uint64_t>(memory.data()) + offset; }
  RKey rkey() const { return {key.value}; }

  void Connect(const Gid& gid, const MacAddress& mac, Qpn peer, uint8_t gid_index, Mtu mtu,
               uint8_t rnr_retry = 7) {
    using M = QpAttributeMask;
    QpAttributes a;
    a.state = QpState::kInit;
    a.port_num = 1;
    a.access = AccessFlags(kAllAccess);
    ASSERT_EQ(qp->Modify(a, M::kState | M::kPkeyIndex | M::kPort | M::kAccessFlags), Status::kOk);
    a.state = QpState::kReadyToReceive;
    a.path_mtu = mtu;
    a.destination_qpn = peer;
    a.rq_psn = kFirstPsn;
    a.max_dest_read_atomic = 4;
    a.min_rnr_timer = 1;
    a.address = {.destination_gid = gid, .destination_mac = mac, .source_gid_index = gid_index};
    ASSERT_EQ(qp->Modify(a, M::kState | M::kAddressVector | M::kPathMtu | M::kDestinationQpn |
                                M::kRqPsn | M::kMaxDestReadAtomic | M::kMinRnrTimer),
              Status::kOk);
    a.state = QpState::kReadyToSend;
    a.sq_psn = kFirstPsn;
    a.timeout = 14;
    a.retry_count = 7;
    a.rnr_retry = rnr_retry;
    a.max_read_atomic = 4;
    ASSERT_EQ(qp->Modify(a, M::kState | M::kSqPsn | M::kTimeout | M::kRetryCount | M::kRnrRetry |
                                M::kMaxReadAtomic),
              Status::kOk);
  }

  std::vector<Completion> Poll() {
    std::vector<Completion> completions(64);
    completions.resize(cq->Poll(completions));
    return completions;
  }

  int cq_tag = 0;
  int qp_tag = 0;
  Endpoint endpoint;
  std::vector<uint8_t> memory;
  std::unique_ptr<CompletionQueue> cq;
  LKey key;
  QueuePair* qp = nullptr;
};

// Takes a datagram queue pair from RESET to RTS.
inline void BringUpDatagram(QueuePair& qp, uint32_t qkey, Psn first_psn = {}) {
  using M = QpAttributeMask;
  QpAttributes a;
  a.state = QpState::kInit;
  a.port_num = 1;
  a.qkey = qkey;
  ASSERT_EQ(qp.Modify(a, M::kState | M::kPkeyIndex | M::kPort | M::kQkey), Status::kOk);
  a.state = QpState::kReadyToReceive;
  ASSERT_EQ(qp.Modify(a, M::kState), Status::kOk);
  a.state = QpState::kReadyToSend;
  a.sq_psn = first_psn;
  ASSERT_EQ(qp.Modify(a, M::kState | M::kSqPsn), Status::kOk);
}

// Two hosts joined by a wire that loses nothing and takes no time.
struct ConnectedPair {
  explicit ConnectedPair(uint8_t gid_index = 1, Mtu mtu = Mtu::k1024) {
    const auto& client_config = client.endpoint.config();
    const auto& server_config = server.endpoint.config();
    client.Connect(server_config.gids[gid_index], server_config.mac, server.qp->qpn(), gid_index,
                   mtu);
    server.Connect(client_config.gids[gid_index], client_config.mac, client.qp->qpn(), gid_index,
                   mtu);
  }

  // Carries frames both ways until none is left.
  void Exchange() {
    for (bool moved = true; moved;) {
      moved = Move(client.endpoint, server.endpoint);
      moved |= Move(server.endpoint, client.endpoint);
    }
  }
  bool Move(Endpoint& from, Endpoint& to) {
    bool moved = false;
    while (const size_t bytes = from.PollTransmit(now, Route::kWire, FrameRoom(frame, icrc))) {
      moved = true;
      last_drop = to.OnFrame(now, std::span(frame).first(bytes), Route::kWire, icrc);
    }
    return moved;
  }

  // A request for `length` bytes at the beginning of the client's memory and at offset 4096 of the
  // server's.
  SendWorkRequest Request(SendOpcode opcode, uint32_t length) {
    sge = {client.address(0), length, client.key};
    SendWorkRequest request;
    request.wr_id = 7;
    request.opcode = opcode;
    request.signaled = true;
    request.remote_address = server.address(4096);
    request.rkey = server.rkey();
    request.sges = {&sge, 1};
    return request;
  }
  void PostReceive(uint32_t length) {
    const ScatterGatherEntry receive = {server.address(0), length, server.key};
    ASSERT_EQ(server.qp->PostReceive({.wr_id = 9, .sges = {&receive, 1}}), Status::kOk);
  }

  TestHost client{1};
  TestHost server{2};
  Time now{1'000};
  IcrcUse icrc = IcrcUse::kCarried;
  alignas(64) std::array<uint8_t, kMaxFrameBytes> frame;
  DropReason last_drop = DropReason::kNone;
  ScatterGatherEntry sge;
};

}  // namespace uroce::transport
