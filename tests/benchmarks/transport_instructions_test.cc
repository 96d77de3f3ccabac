// Counts the instructions per message in each stage of the transport: two endpoints in one thread
// pass frames in one buffer, as on a wire and ("link-") without ICRC as between two processes that
// share memory. Also counts those per frame of the ring between such processes.
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dpdk_nic/port/ring/ring_link.h"
#include "tests/benchmarks/instruction_counter.h"
#include "tests/transport/connected_pair.h"

namespace uroce::transport {
namespace {

using benchmarks::InstructionCounter;
using benchmarks::Require;

constexpr int kBatch = 16;
constexpr int kRounds = 4;  // the first round starts from fresh objects

using Frames = std::vector<std::vector<uint8_t>>;

// Returns the number of frames.
size_t BuildAll(Endpoint& from, Time now, IcrcUse icrc, Frames& frames) {
  size_t count = 0;
  while (const size_t bytes =
             from.PollTransmit(now, Route::kWire, FrameRoom(frames[count], icrc))) {
    frames[count++].resize(bytes);
  }
  return count;
}

void ReceiveAll(Endpoint& to, Time now, IcrcUse icrc, std::span<const Frames::value_type> frames) {
  for (const auto& frame : frames) {
    Require(to.OnFrame(now, frame, Route::kWire, icrc) == DropReason::kNone);
  }
}

// One batch; only its last request is signaled.
void MeasureBatch(ConnectedPair& pair, IcrcUse icrc, const std::string& operation,
                  SendOpcode opcode, uint32_t length) {
  const std::string name = (icrc == IcrcUse::kWaived ? "link-" : "") + operation;
  const Frames buffers(kBatch + 1, std::vector<uint8_t>(kMaxFrameBytes));
  std::array<Completion, kBatch> completions;
  InstructionCounter::Begin(name + "/post", kBatch);
  for (int i = 0; i < kBatch; ++i) {
    SendWorkRequest request = pair.Request(opcode, length);
    request.signaled = i == kBatch - 1;
    Require(pair.client.qp->PostSend(request) == Status::kOk);
  }
  InstructionCounter::End();

  Frames requests = buffers;
  InstructionCounter::Begin(name + "/build", kBatch);
  const size_t request_count = BuildAll(pair.client.endpoint, pair.now, icrc, requests);
  InstructionCounter::End();
  Require(request_count == kBatch);

  InstructionCounter::Begin(name + "/receive", kBatch);
  ReceiveAll(pair.server.endpoint, pair.now, icrc, std::span(requests).first(request_count));
  InstructionCounter::End();

  Frames responses = buffers;
  InstructionCounter::Begin(name + "/ack", kBatch);
  const size_t response_count = BuildAll(pair.server.endpoint, pair.now, icrc, responses);
  ReceiveAll(pair.client.endpoint, pair.now, icrc, std::span(responses).first(response_count));
  InstructionCounter::End();

  InstructionCounter::Begin(name + "/poll", 1);
  Require(pair.client.cq->Poll(completions) == 1);
  InstructionCounter::End();
  Require(completions[0].status == CompletionStatus::kSuccess);
  pair.server.cq->Poll(completions);
}

// A message that fills four packets, from the side that has the data to the other. Counts are those
// of one packet. A SEND finds the receive request that the ACK before it told the client of.
constexpr int kLongPackets = 4;
constexpr uint32_t kLongBytes = kLongPackets * 4'096;

void MeasureLongMessage(ConnectedPair& pair, IcrcUse icrc, const std::string& operation,
                        SendOpcode opcode) {
  const std::string name = (icrc == IcrcUse::kWaivedWithHeaders ? "bare-" : "") + operation;
  const bool is_read = opcode == SendOpcode::kRdmaRead;
  Endpoint& client = pair.client.endpoint;
  Endpoint& server = pair.server.endpoint;
  Require(pair.client.qp->PostSend(pair.Request(opcode, kLongBytes)) == Status::kOk);
  pair.icrc = icrc;
  if (is_read) Require(pair.Move(client, server));

  Frames frames(kLongPackets + 1, std::vector<uint8_t>(kMaxFrameBytes));
  InstructionCounter::Begin(name + "/build", kLongPackets);
  const size_t count = BuildAll(is_read ? server : client, pair.now, icrc, frames);
  InstructionCounter::End();
  Require(count == kLongPackets);
  InstructionCounter::Begin(name + "/receive", kLongPackets);
  ReceiveAll(is_read ? client : server, pair.now, icrc, std::span(frames).first(count));
  InstructionCounter::End();
  pair.Exchange();
  std::array<Completion, 2> completions;
  Require(pair.client.cq->Poll(completions) == 1);
  Require(completions[0].status == CompletionStatus::kSuccess);
  pair.server.cq->Poll(completions);
}

// A batch of WRITEs between two processes that share memory: each is sent as it is posted, and they
// arrive as one burst.
void MeasureBareFrames(ConnectedPair& pair) {
  constexpr IcrcUse kIcrc = IcrcUse::kWaivedWithHeaders;
  Endpoint& client = pair.client.endpoint;
  Endpoint& server = pair.server.endpoint;
  QueuePair& qp = *pair.client.qp;
  Frames requests(kBatch, std::vector<uint8_t>(kMaxFrameBytes));
  InstructionCounter::Begin("bare-write-64/post-at-once", kBatch);
  for (int i = 0; i < kBatch; ++i) {
    const SendWorkRequest request = pair.Request(SendOpcode::kRdmaWrite, 64);
    const PlainSendRequest plain = {.opcode = request.opcode,
                                    .signaled = i == kBatch - 1,
                                    .wr_id = request.wr_id,
                                    .piece = request.sges.front(),
                                    .remote_address = request.remote_address,
                                    .rkey = request.rkey};
    Require(qp.QueueSend(plain) == Status::kOk);
    Require(client.MaySendAtOnce(qp));
    requests[i].resize(client.BuildAtOnce(pair.now, qp, FrameRoom(requests[i], kIcrc)));
  }
  InstructionCounter::End();

  InstructionCounter::Begin("bare-write-64/receive", kBatch);
  ReceiveAll(server, pair.now, kIcrc, requests);
  InstructionCounter::End();

  Frames responses(kBatch + 1, std::vector<uint8_t>(kMaxFrameBytes));
  InstructionCounter::Begin("bare-write-64/build-ack", 1);
  const size_t response_count = BuildAll(server, pair.now, kIcrc, responses);
  InstructionCounter::End();
  Require(response_count == 1);

  InstructionCounter::Begin("bare-write-64/receive-ack", kBatch);
  ReceiveAll(client, pair.now, kIcrc, std::span(responses).first(response_count));
  InstructionCounter::End();
  Completion completion;
  Require(pair.client.cq->Poll({&completion, 1}) == 1);
  Require(completion.status == CompletionStatus::kSuccess);
}

// A batch of frames through the ring of a link, moved as a port moves them.
void MeasureRingLink(nic::RingLink& from, nic::RingLink& to, size_t frame_bytes) {
  InstructionCounter::Begin("ring-link/send", kBatch);
  for (int i = 0; i < kBatch; ++i) {
    Require(from.Acquire().size() >= kMaxFrameBytes);
    from.Commit(frame_bytes);
  }
  from.Flush();
  InstructionCounter::End();
  InstructionCounter::Begin("ring-link/receive", kBatch);
  for (int i = 0; i < kBatch; ++i) {
    Require(to.Receive().size() == frame_bytes);
    to.Release();
  }
  to.Flush();
  InstructionCounter::End();
}

void Measure() {
  ConnectedPair pair(/*gid_index=*/1, Mtu::k4096);
  auto offer = nic::RingLink::Create();
  Require(offer.has_value());
  const auto other_end = nic::RingLink::Accept(std::move(offer->memory), std::move(offer->socket));
  Require(other_end != nullptr);
  for (int round = 0; round < kRounds; ++round) {
    for (const IcrcUse icrc : {IcrcUse::kCarried, IcrcUse::kWaived}) {
      // Before the WRITEs, whose acknowledgements tell the client of these receives.
      InstructionCounter::Begin("send-2/post-receive", kBatch);
      for (int i = 0; i < kBatch; ++i) pair.PostReceive(2);
      InstructionCounter::End();
      MeasureBatch(pair, icrc, "write-64", SendOpcode::kRdmaWrite, 64);
      MeasureBatch(pair, icrc, "send-2", SendOpcode::kSend, 2);
      MeasureBatch(pair, icrc, "write-4096", SendOpcode::kRdmaWrite, 4'096);
    }
    for (const IcrcUse icrc : {IcrcUse::kCarried, IcrcUse::kWaivedWithHeaders}) {
      pair.PostReceive(kLongBytes);
      MeasureLongMessage(pair, icrc, "long-write", SendOpcode::kRdmaWrite);
      MeasureLongMessage(pair, icrc, "long-send", SendOpcode::kSend);
      MeasureLongMessage(pair, icrc, "long-read", SendOpcode::kRdmaRead);
    }
    MeasureBareFrames(pair);
    MeasureRingLink(*offer->link, *other_end, 62);
  }
}

TEST(TransportInstructionsTest, AreAsManyAsTheyWere) {
  benchmarks::ExpectInstructions("tests/benchmarks/transport_instructions.golden", Measure);
}

}  // namespace
}  // namespace uroce::transport
