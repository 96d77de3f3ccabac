#include "tests/interop/replay/responder_replay.h"

#include <algorithm>
#include <cstring>

#include "transport/limits.h"

namespace uroce::transport::interop {
namespace {

// Large enough for any message of the captures.
constexpr uint32_t kReceiveBytes = 64 * 1'024;

bool IsRnrNak(const Packet& packet) {
  return packet.opcode.operation == Operation::kAcknowledge &&
         packet.aeth.syndrome.kind() == Syndrome::Kind::kRnrNak;
}

}  // namespace

ResponderReplay::ResponderReplay(const Capture& capture, const Flow& flow)
    : capture_(capture), flow_(flow), stand_in_(Options()) {
  for (const CapturedFrame& frame : capture_) {
    if (!flow_.HasAnswer(frame)) continue;
    theirs_.emplace_back(frame.number, frame.packet, flow_.first_psn);
    if (IsRnrNak(frame.packet)) ++rnr_naks_[frame.packet.psn.value()];
  }
}

StandIn::Options ResponderReplay::Options() const {
  StandIn::Options options{.service = flow_.service,
                           .self = flow_.responder,
                           .peer = flow_.requester,
                           .mtu = flow_.mtu,
                           .rq_psn = flow_.first_psn,
                           .start = capture_.front().at,
                           .local_bytes = kReceiveBytes};
  for (const CapturedFrame& frame : capture_) {
    if (!flow_.HasRequest(frame)) continue;
    const Packet& packet = frame.packet;
    if (packet.opcode.HasDeth()) options.qkey = packet.deth.qkey;
    if (packet.opcode.HasReth() && packet.reth.dma_length != 0) {
      options.remote_memory[packet.reth.rkey].Include(packet.reth.virtual_address,
                                                      packet.reth.dma_length);
    }
    if (packet.opcode.HasAtomicEth()) {
      options.remote_memory[packet.atomic.rkey].Include(packet.atomic.virtual_address,
                                                        sizeof(uint64_t));
    }
  }
  return options;
}

void ResponderReplay::Run() {
  for (const CapturedFrame& frame : capture_) {
    stand_in_.AdvanceTo(frame.at);
    // A damaged frame cannot be assigned to a flow; every responder gets it and drops it.
    const bool is_damaged = frame.verdict != DropReason::kNone;
    if (!is_damaged && !flow_.HasRequest(frame)) continue;
    if (!is_damaged) Prepare(frame);
    Take(frame, stand_in_.Receive(frame.bytes));
  }
}

void ResponderReplay::Prepare(const CapturedFrame& request) {
  const Packet& packet = request.packet;
  if (packet.opcode.operation == Operation::kReadRequest) return PrepareRead(request);
  if (packet.opcode.HasAtomicEth()) return PrepareAtomic(request);
  PrepareReceive(packet);
}

// Puts the data of later responses, within the range of this READ, into the memory that it reads.
void ResponderReplay::PrepareRead(const CapturedFrame& request) {
  const Reth& reth = request.packet.reth;
  const auto packets = static_cast<int32_t>(PsnsOf(request.packet, flow_.mtu));
  for (const CapturedFrame& frame : capture_) {
    if (frame.number < request.number || !flow_.HasAnswer(frame)) continue;
    const Packet& packet = frame.packet;
    const int32_t distance = packet.psn.DistanceFrom(request.packet.psn);
    const bool has_bytes =
        packet.opcode.operation == Operation::kReadResponse && !packet.payload.empty();
    if (!has_bytes || distance < 0 || distance >= packets) continue;
    uint8_t* to = stand_in_.Remote(
        reth.rkey,
        reth.virtual_address + static_cast<uint32_t>(distance) * uint64_t{Bytes(flow_.mtu)},
        packet.payload.size());
    if (to != nullptr) std::ranges::copy(packet.payload, to);
  }
}

void ResponderReplay::PrepareAtomic(const CapturedFrame& request) {
  const AtomicEth& atomic = request.packet.atomic;
  if (atomics_seen_[atomic.virtual_address]) return;
  for (const CapturedFrame& frame : capture_) {
    if (!flow_.HasAnswer(frame) || frame.packet.psn != request.packet.psn) continue;
    atomics_seen_[atomic.virtual_address] = true;
    uint8_t* word = stand_in_.Remote(atomic.rkey, atomic.virtual_address, sizeof(uint64_t));
    if (word != nullptr) std::memcpy(word, &frame.packet.atomic_original, sizeof(uint64_t));
    return;
  }
}

void ResponderReplay::PrepareReceive(const Packet& packet) {
  const bool is_send = packet.opcode.operation == Operation::kSend;
  const bool takes_receive = is_send ? packet.opcode.StartsMessage() : packet.opcode.HasImmediate();
  if (!takes_receive || receive_posted_) return;
  if (flow_.service == Service::kReliableConnection) {
    if (packet.psn != stand_in_.expected_psn()) return;
    if (const auto naks = rnr_naks_.find(packet.psn.value());
        naks != rnr_naks_.end() && naks->second > 0) {
      --naks->second;
      return;
    }
  }
  const ScatterGatherEntry sge = stand_in_.Local(0, kReceiveBytes);
  receive_posted_ = stand_in_.qp().PostReceive({.sges = {&sge, 1}}) == Status::kOk;
}

void ResponderReplay::Take(const CapturedFrame& request, DropReason reason) {
  for (const CapturedFrame& frame : stand_in_.TakeSent()) {
    if (frame.verdict != DropReason::kNone) failures_.push_back("we sent a frame that is no frame");
    ours_.emplace_back(request.number, frame.packet, flow_.first_psn);
  }
  const bool is_send =
      reason == DropReason::kNone && request.packet.opcode.operation == Operation::kSend;
  if (is_send) {
    if (request.packet.opcode.StartsMessage()) message_.clear();
    const auto& payload = request.packet.payload;
    message_.insert(message_.end(), payload.begin(), payload.end());
  }
  CheckReceived(request);
}

void ResponderReplay::CheckReceived(const CapturedFrame& request) {
  const size_t header_bytes = flow_.service == Service::kUnreliableDatagram ? kGrhBytes : 0;
  for (const Completion& completion : stand_in_.TakeCompletions()) {
    receive_posted_ = false;
    ++messages_received_;
    const std::string where = "frame " + std::to_string(request.number) + ": ";
    if (completion.status != CompletionStatus::kSuccess) {
      failures_.push_back(where + "a receive request failed");
    } else if (request.packet.opcode.HasImmediate() &&
               completion.immediate_or_rkey != request.packet.immediate) {
      failures_.push_back(where + "other immediate data");
    }
    if (completion.opcode != CompletionOpcode::kReceive) continue;
    if (completion.byte_length != header_bytes + message_.size() ||
        !std::ranges::equal(message_,
                            std::span(stand_in_.local() + header_bytes, message_.size()))) {
      failures_.push_back(where + "the message is not what was sent");
    }
  }
}

}  // namespace uroce::transport::interop
