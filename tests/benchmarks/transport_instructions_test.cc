// How many instructions a message takes in each stage of the transport: two endpoints in one
// thread, frames handed over in one buffer.
#include <array>
#include <string>
#include <vector>

#include "tests/benchmarks/instruction_counter.h"
#include "tests/transport/connected_pair.h"

namespace uroce::transport {
namespace {

using benchmarks::InstructionCounter;
using benchmarks::Require;

constexpr int kBatch = 16;
constexpr int kRounds = 4;  // the first finds everything as it was made

using Frames = std::vector<std::vector<uint8_t>>;

Frames BuildAll(Endpoint& from, Time now, Frames frames) {
  size_t count = 0;
  while (const size_t bytes = from.PollTransmit(now, Route::kWire, frames[count])) {
    frames[count++].resize(bytes);
  }
  frames.resize(count);
  return frames;
}

void ReceiveAll(Endpoint& to, Time now, const Frames& frames) {
  for (const auto& frame : frames) Require(to.OnFrame(now, frame) == DropReason::kNone);
}

// One batch, of which the last request is signaled.
void MeasureBatch(ConnectedPair& pair, const std::string& name, SendOpcode opcode,
                  uint32_t length) {
  const Frames buffers(kBatch + 1, std::vector<uint8_t>(kMaxFrameBytes));
  std::array<Completion, kBatch> completions;
  InstructionCounter::Begin();
  for (int i = 0; i < kBatch; ++i) {
    SendWorkRequest request = pair.Request(opcode, length);
    request.signaled = i == kBatch - 1;
    Require(pair.client.qp->PostSend(request) == Status::kOk);
  }
  InstructionCounter::End(name + "/post", kBatch);

  Frames requests = buffers;
  InstructionCounter::Begin();
  requests = BuildAll(pair.client.endpoint, pair.now, std::move(requests));
  InstructionCounter::End(name + "/build", kBatch);
  Require(requests.size() == kBatch);

  InstructionCounter::Begin();
  ReceiveAll(pair.server.endpoint, pair.now, requests);
  InstructionCounter::End(name + "/receive", kBatch);

  Frames responses = buffers;
  InstructionCounter::Begin();
  responses = BuildAll(pair.server.endpoint, pair.now, std::move(responses));
  ReceiveAll(pair.client.endpoint, pair.now, responses);
  InstructionCounter::End(name + "/ack", kBatch);

  InstructionCounter::Begin();
  Require(pair.client.cq->Poll(completions) == 1);
  InstructionCounter::End(name + "/poll", 1);
  Require(completions[0].status == CompletionStatus::kSuccess);
  pair.server.cq->Poll(completions);
}

void Measure() {
  ConnectedPair pair(/*gid_index=*/1, Mtu::k4096);
  for (int round = 0; round < kRounds; ++round) {
    // Before the WRITEs, whose acknowledgements tell the client of them.
    InstructionCounter::Begin();
    for (int i = 0; i < kBatch; ++i) pair.PostReceive(2);
    InstructionCounter::End("send-2/post-receive", kBatch);
    MeasureBatch(pair, "write-64", SendOpcode::kRdmaWrite, 64);
    MeasureBatch(pair, "send-2", SendOpcode::kSend, 2);
    MeasureBatch(pair, "write-4096", SendOpcode::kRdmaWrite, 4'096);
  }
}

TEST(TransportInstructionsTest, AreAsManyAsTheyWere) {
  benchmarks::ExpectInstructions("tests/benchmarks/transport_instructions.golden", Measure);
}

}  // namespace
}  // namespace uroce::transport
