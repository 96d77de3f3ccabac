#pragma once

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <vector>

#include "tests/transport/xrc_processes.h"
#include "transport/peer_progress.h"
#include "transport/qp/xrc_frames.h"

namespace uroce::transport {

// The initiator is in process 1, its target in process 2; processes 2, 3 and 4 have a shared
// receive queue each.
class XrcRelayTest : public ::testing::Test {
 protected:
  // `progress`: the owner's links.
  explicit XrcRelayTest(PeerProgress* progress = nullptr) : owner_(2, progress) { Connect(); }

  void Connect(uint8_t rnr_retry = 7) {
    const QpInitAttributes init = {.pd = kTestPd,
                                   .type = QpType::kXrcSend,
                                   .send_cq = first_.cq.get(),
                                   .capabilities = {.max_send_wr = 64, .max_send_sge = 1}};
    EXPECT_EQ(first_.endpoint.CreateQueuePair(init, &initiator_), Status::kOk);
    const QpInitAttributes target = {.type = QpType::kXrcReceive,
                                     .xrc_domain = kDomain,
                                     .xrc_key = kKey,
                                     .context = &target_tag_};
    EXPECT_EQ(owner_.endpoint.CreateQueuePair(target, &target_), Status::kOk);
    BringUp(*initiator_, target_->qpn(), rnr_retry);
    BringUp(*target_, initiator_->qpn(), rnr_retry);
    Exchange();
  }
  static void BringUp(QueuePair& qp, Qpn peer, uint8_t rnr_retry) {
    using M = QpAttributeMask;
    const bool is_target = qp.init_attributes().type == QpType::kXrcReceive;
    QpAttributes a;
    a.state = QpState::kInit;
    a.port_num = 1;
    a.access = AccessFlags(kAllAccess);
    ASSERT_EQ(qp.Modify(a, M::kState | M::kPkeyIndex | M::kPort | M::kAccessFlags), Status::kOk);
    a.state = QpState::kReadyToReceive;
    a.path_mtu = Mtu::k1024;
    a.destination_qpn = peer;
    a.rq_psn = kFirstPsn;
    a.max_dest_read_atomic = 8;
    a.min_rnr_timer = 1;
    a.address = {.destination_gid = kHostGid, .destination_mac = kHostMac, .source_gid_index = 1};
    ASSERT_EQ(
        qp.Modify(a, M::kState | M::kAddressVector | M::kPathMtu | M::kDestinationQpn | M::kRqPsn |
                         (is_target ? M::kMaxDestReadAtomic | M::kMinRnrTimer : 0)),
        Status::kOk);
    a.state = QpState::kReadyToSend;
    a.sq_psn = kFirstPsn;
    a.timeout = 14;
    a.retry_count = 7;
    a.rnr_retry = rnr_retry;
    a.max_read_atomic = 8;
    ASSERT_EQ(qp.Modify(a, M::kState | M::kSqPsn | M::kTimeout |
                               (is_target ? 0 : M::kRetryCount | M::kRnrRetry | M::kMaxReadAtomic)),
              Status::kOk);
  }

  // Posts a request for the queue `srqn`, with `bytes` of the initiator's memory from `offset` on.
  void Post(SendOpcode opcode, Srqn srqn, uint32_t bytes, uint64_t wr_id, Process* memory = nullptr,
            uint64_t remote_offset = 0, size_t offset = 0) {
    const ScatterGatherEntry sge = {first_.address(offset), bytes, first_.key};
    SendWorkRequest request;
    request.opcode = opcode;
    request.signaled = true;
    request.wr_id = wr_id;
    request.immediate = static_cast<uint32_t>(wr_id);
    request.remote_srqn = srqn;
    request.compare_or_add = 5;
    request.swap = 99;
    request.sges = {&sge, 1};
    if (memory != nullptr) {
      request.remote_address = memory->address(remote_offset);
      request.rkey = memory->rkey();
    }
    ASSERT_EQ(initiator_->PostSend(request), Status::kOk);
  }
  void Send(Srqn srqn, const std::vector<uint8_t>& bytes, uint64_t wr_id, size_t offset = 0) {
    std::copy(bytes.begin(), bytes.end(), first_.memory.begin() + static_cast<ptrdiff_t>(offset));
    Post(SendOpcode::kSendWithImmediate, srqn, static_cast<uint32_t>(bytes.size()), wr_id, nullptr,
         0, offset);
  }

  // Carries frames between the processes until there are none. A frame that `drop_` holds for is
  // lost.
  void Exchange() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Process* const from : processes_) {
        for (Process* const to : processes_) moved |= Move(*from, *to);
      }
    }
  }
  bool Move(Process& from, Process& to) {
    const Route route = &from == &to ? Route::kLoopback : RouteToBlock(to.number);
    bool moved = false;
    const FrameRoom room(frame_, IcrcUse::kWaivedWithHeaders);
    while (const size_t bytes = from.endpoint.PollTransmit(now_, route, room)) {
      moved = true;
      if (&to == gone_ || (drop_ && drop_(from, to))) continue;
      const Route back = &from == &to ? Route::kLoopback : RouteToBlock(from.number);
      (void)to.endpoint.OnFrame(now_, std::span(frame_).first(bytes), back,
                                IcrcUse::kWaivedWithHeaders);
    }
    return moved;
  }
  // Lets timers expire, and carries frames, until the initiator has completed `count` requests.
  std::vector<Completion> Complete(size_t count) {
    std::vector<Completion> all;
    for (int i = 0; i < 64 && all.size() < count; ++i) {
      Exchange();
      for (const Completion& completion : first_.Poll()) all.push_back(completion);
      if (all.size() >= count) break;
      now_ = now_ + Milliseconds(100);
      for (Process* const process : processes_) process->endpoint.OnDeadline(now_);
    }
    EXPECT_EQ(all.size(), count);
    return all;
  }
  void ExpectSuccess(size_t count) {
    for (const Completion& completion : Complete(count)) {
      EXPECT_EQ(completion.status, CompletionStatus::kSuccess) << completion.wr_id;
    }
  }
  // Process `from` begins or ends the stream of a target to the third process.
  struct Change {
    XrcKey key;
    uint32_t begins = 1;
    Qpn target;
  };
  void Begin(const Change& wanted, const Process& from) {
    const XrcStreamChange change = {.key = wanted.key,
                                    .epoch = 1,
                                    .gid = Gid::LinkLocal(kHostMac),
                                    .target = wanted.target,
                                    .begins = wanted.begins,
                                    .mtu = static_cast<uint32_t>(Mtu::k1024)};
    const FrameBuilder builder = XrcRelayBuilder(from.endpoint.config(), wanted.target);
    const size_t bytes =
        EmitXrcStreamChange(builder, change, Psn(), RouteToBlock(third_.number), frame_);
    (void)third_.endpoint.OnFrame(now_, std::span(frame_).first(bytes), RouteToBlock(from.number));
  }
  void EndProcess(Process& process) {
    gone_ = &process;
    for (Process* const other : processes_) {
      if (other != &process) other->endpoint.OnPeerGone(RouteToBlock(process.number));
    }
  }

  Process first_{1};
  Process owner_;
  Process third_{3};
  Process fourth_{4};
  const std::array<Process*, 4> processes_ = {&first_, &owner_, &third_, &fourth_};
  int target_tag_ = 0;
  QueuePair* initiator_ = nullptr;
  QueuePair* target_ = nullptr;
  Process* gone_ = nullptr;
  std::function<bool(Process& from, Process& to)> drop_;
  Time now_{1'000};
  alignas(64) std::array<uint8_t, kMaxFrameBytes> frame_;
};

}  // namespace uroce::transport
