// What the transport itself costs: two endpoints in one thread, frames handed over in one buffer.

#include <benchmark/benchmark.h>

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

BENCHMARK(Write)->Arg(8)->Arg(64)->Arg(4096)->Arg(65536)->Arg(1 << 19);
BENCHMARK(Read)->Arg(8)->Arg(65536);
BENCHMARK(Send)->Arg(8)->Arg(65536);

}  // namespace
}  // namespace uroce::transport
