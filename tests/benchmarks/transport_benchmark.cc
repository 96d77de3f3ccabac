// The cost of the transport itself: two endpoints in one thread pass frames in one buffer.

#include <benchmark/benchmark.h>

#include <array>
#include <span>
#include <vector>

#include "tests/transport/connected_pair.h"

namespace uroce::transport {
namespace {

void RunRequests(benchmark::State& state, SendOpcode opcode) {
  constexpr int kBatch = 32;
  const auto length = static_cast<uint32_t>(state.range(0));
  ConnectedPair pair(/*gid_index=*/1, Mtu::k4096);
  std::array<Completion, kBatch> completions;
  for (auto _ : state) {
    for (int i = 0; i < kBatch; ++i) {
      if (opcode == SendOpcode::kSend) pair.PostReceive(length);
      SendWorkRequest request = pair.Request(opcode, length);
      request.signaled = i == kBatch - 1;
      if (pair.client.qp->PostSend(request) != Status::kOk) state.SkipWithError("post");
    }
    pair.Exchange();
    if (pair.client.cq->Poll(completions) != 1) state.SkipWithError("completion");
    pair.server.cq->Poll(completions);
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
  state.SetBytesProcessed(state.iterations() * kBatch * length);
}

void Write(benchmark::State& state) { RunRequests(state, SendOpcode::kRdmaWrite); }
void Read(benchmark::State& state) { RunRequests(state, SendOpcode::kRdmaRead); }
void Send(benchmark::State& state) { RunRequests(state, SendOpcode::kSend); }

// Uses queue pairs in turn; the argument says how many each side has. With many of them their state
// leaves the cache between turns and must be fetched again. Frames are bare, as between two
// processes that share memory, and go at once; the peer takes them in bursts.
class ManyQueuePairs {
 public:
  explicit ManyQueuePairs(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      client_.qp = Create(client_);
      server_.qp = Create(server_);
      const EndpointConfig& client = client_.endpoint.config();
      const EndpointConfig& server = server_.endpoint.config();
      client_.Connect(server.gids[kGid], server.mac, server_.qp->qpn(), kGid, Mtu::k4096);
      server_.Connect(client.gids[kGid], client.mac, client_.qp->qpn(), kGid, Mtu::k4096);
      senders_.push_back(client_.qp);
    }
  }

  // False if any step fails.
  bool RunBurst() {
    now_ = now_ + Microseconds(1);
    for (size_t& length : lengths_) {
      QueuePair& qp = *senders_[next_];
      next_ = next_ + 1 == senders_.size() ? 0 : next_ + 1;
      const PlainSendRequest request = {.opcode = SendOpcode::kRdmaWrite,
                                        .signaled = true,
                                        .piece = {client_.address(0), kBytes, client_.key},
                                        .remote_address = server_.address(0),
                                        .rkey = server_.rkey()};
      if (qp.QueueSend(request) != Status::kOk || !client_.endpoint.MaySendAtOnce(qp)) return false;
      length = client_.endpoint.BuildAtOnce(now_, qp, RoomAt(&length - lengths_.data()));
    }
    Deliver(server_.endpoint, kBurst);
    size_t answers = 0;
    while (answers < kBurst) {
      const size_t length = server_.endpoint.PollTransmit(now_, Route::kWire, RoomAt(answers));
      if (length == 0) break;
      lengths_[answers++] = length;
    }
    Deliver(client_.endpoint, answers);
    return client_.cq->Poll(completions_) == kBurst;
  }

  static constexpr size_t kBurst = 32;

 private:
  static constexpr uint8_t kGid = 1;
  static constexpr uint32_t kBytes = 64;
  static constexpr size_t kRoomBytes = 192;  // enough even for whole frames of kBytes

  static QueuePair* Create(TestHost& host) {
    QpInitAttributes init = host.qp->init_attributes();
    init.capabilities = {.max_send_wr = 8, .max_send_sge = 1};
    QueuePair* qp = nullptr;
    EXPECT_EQ(host.endpoint.CreateQueuePair(init, &qp), Status::kOk);
    return qp;
  }

  FrameRoom RoomAt(size_t index) { return FrameRoom(frames_[index], IcrcUse::kWaivedWithHeaders); }
  void Deliver(Endpoint& to, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      to.OnFrame(now_, std::span(frames_[i]).first(lengths_[i]), Route::kWire,
                 IcrcUse::kWaivedWithHeaders);
    }
  }

  TestHost client_{1};
  TestHost server_{2};
  std::vector<QueuePair*> senders_;
  size_t next_ = 0;
  Time now_{1'000};
  alignas(64) std::array<std::array<uint8_t, kRoomBytes>, kBurst> frames_;
  std::array<size_t, kBurst> lengths_;
  std::array<Completion, kBurst> completions_;
};

void WriteByQueuePairs(benchmark::State& state) {
  ManyQueuePairs queue_pairs(state.range(0));
  for (auto _ : state) {
    if (!queue_pairs.RunBurst()) state.SkipWithError("burst");
  }
  state.SetItemsProcessed(state.iterations() * ManyQueuePairs::kBurst);
}

// kMaxQps - 1: each host already has one queue pair.
BENCHMARK(WriteByQueuePairs)->Arg(16)->Arg(256)->Arg(2'048)->Arg(kMaxQps - 1);
BENCHMARK(Write)->Arg(8)->Arg(64)->Arg(4096)->Arg(65536)->Arg(1 << 19);
BENCHMARK(Read)->Arg(8)->Arg(65536);
BENCHMARK(Send)->Arg(8)->Arg(65536);

}  // namespace
}  // namespace uroce::transport
