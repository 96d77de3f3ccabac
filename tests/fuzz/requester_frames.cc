// Checks frames of a requester: each may be sent now, and carries its request.
#include <algorithm>

#include "tests/fuzz/requester_model.h"
#include "tests/fuzz/require.h"
#include "transport/limits.h"

namespace uroce::transport {
namespace {

Operation OperationOf(SendOpcode opcode) {
  if (IsSend(opcode)) return Operation::kSend;
  if (IsWrite(opcode)) return Operation::kWrite;
  return opcode == SendOpcode::kRdmaRead         ? Operation::kReadRequest
         : opcode == SendOpcode::kFlush          ? Operation::kFlush
         : opcode == SendOpcode::kAtomicWrite    ? Operation::kAtomicWrite
         : opcode == SendOpcode::kCompareAndSwap ? Operation::kCompareAndSwap
                                                 : Operation::kFetchAndAdd;
}

Suffix SuffixOf(SendOpcode opcode) {
  if (opcode == SendOpcode::kSendWithInvalidate) return Suffix::kInvalidate;
  const bool immediate =
      opcode == SendOpcode::kSendWithImmediate || opcode == SendOpcode::kRdmaWriteWithImmediate;
  return immediate ? Suffix::kImmediate : Suffix::kNone;
}

}  // namespace

void RequesterModel::OnFrame(Time now, const Packet& packet) {
  UROCE_REQUIRE(packet.destination_qpn == connection_.peer_qpn && !packet.opcode.IsResponse());
  UROCE_REQUIRE(!packet.psn.IsBefore(unacked_psn_) && !packet.psn.IsAfter(sent_psn_));
  const bool is_new = packet.psn == sent_psn_;
  const Request* sent = Find(packet.psn);
  const Request& request = sent == nullptr ? Start(packet.psn) : *sent;
  RequireAllowed(now, request, packet);
  CheckFrame(request, packet);
  if (!is_new) return;
  // The timer starts with the first packet under way.
  if (unacked_psn_ == sent_psn_) last_progress_ = now;
  sent_psn_ =
      request.parameters.opcode == SendOpcode::kRdmaRead ? request.end_psn() : packet.psn + 1;
}

// An unused PSN: it belongs to the next request that goes on the wire.
RequesterModel::Request& RequesterModel::Start(Psn psn) {
  const auto next = std::ranges::find_if(
      requests_, [](const Request& request) { return !request.started && !request.is_local(); });
  UROCE_REQUIRE(next != requests_.end());
  next->started = true;
  next->first_psn = psn;
  const auto packets = static_cast<uint32_t>((next->length + mtu_bytes() - 1) / mtu_bytes());
  next->psns = IsAtomic(next->parameters.opcode) ? 1 : std::max(1u, packets);
  return *next;
}

void RequesterModel::RequireAllowed(Time now, const Request& request, const Packet& packet) const {
  const QpState state = qp_.state();
  UROCE_REQUIRE(state == QpState::kReadyToSend ||
                (state == QpState::kSendQueueDrain && packet.psn != request.first_psn) ||
                (state == QpState::kSendQueueDrain && packet.psn.IsBefore(sent_psn_)));
  UROCE_REQUIRE(now >= silent_until_);
  UROCE_REQUIRE(Outstanding(packet.psn) < static_cast<int32_t>(kMaxPacketsInFlight));

  const auto is_waiting = [this](const Request& r) {
    return r.has_own_response() && r.started && r.end_psn().IsAfter(unacked_psn_);
  };
  UROCE_REQUIRE(std::ranges::count_if(requests_, is_waiting) <= connection_.max_read_atomic);
  if (!request.parameters.fence) return;
  for (const Request& earlier : requests_) {
    if (&earlier == &request) break;
    UROCE_REQUIRE(!is_waiting(earlier));
  }
}

void RequesterModel::CheckFrame(const Request& request, const Packet& packet) const {
  const SendWorkRequest& asked = request.parameters;
  const uint64_t offset = uint64_t{mtu_bytes()} * packet.psn.DistanceFrom(request.first_psn);
  UROCE_REQUIRE(packet.opcode.operation == OperationOf(asked.opcode));
  if (asked.opcode == SendOpcode::kRdmaRead) {
    UROCE_REQUIRE(packet.reth.virtual_address == asked.remote_address + offset);
    UROCE_REQUIRE(packet.reth.rkey == asked.rkey);
    UROCE_REQUIRE(packet.reth.dma_length == request.length - offset);
  } else if (IsAtomic(asked.opcode)) {
    const bool swaps = asked.opcode == SendOpcode::kCompareAndSwap;
    UROCE_REQUIRE(packet.atomic.virtual_address == asked.remote_address);
    UROCE_REQUIRE(packet.atomic.rkey == asked.rkey);
    UROCE_REQUIRE(packet.atomic.swap_or_add == (swaps ? asked.swap : asked.compare_or_add));
    UROCE_REQUIRE(packet.atomic.compare == (swaps ? asked.compare_or_add : 0));
  } else if (asked.opcode == SendOpcode::kFlush) {
    UROCE_REQUIRE(packet.feth == (Feth{asked.placement, asked.selectivity}));
    UROCE_REQUIRE(packet.reth == (Reth{asked.remote_address, asked.rkey, asked.flush_length}));
  } else {
    CheckData(request, offset, packet);
  }
}

void RequesterModel::CheckData(const Request& request, uint64_t offset,
                               const Packet& packet) const {
  const SendWorkRequest& asked = request.parameters;
  const uint64_t length = std::min<uint64_t>(request.length - offset, mtu_bytes());
  const bool last = offset + length == request.length;
  UROCE_REQUIRE(packet.opcode.StartsMessage() == (offset == 0));
  UROCE_REQUIRE(packet.opcode.EndsMessage() == last);
  UROCE_REQUIRE(packet.solicited == (last && asked.solicited));
  UROCE_REQUIRE(packet.opcode.suffix == (last ? SuffixOf(asked.opcode) : Suffix::kNone));
  if (packet.opcode.HasImmediate()) UROCE_REQUIRE(packet.immediate == asked.immediate);
  if (packet.opcode.HasIeth()) UROCE_REQUIRE(packet.invalidate_rkey == asked.invalidate_rkey);
  if (packet.opcode.HasReth()) {
    const Reth expected = {asked.remote_address, asked.rkey, static_cast<uint32_t>(request.length)};
    UROCE_REQUIRE(packet.reth == expected);
  }
  UROCE_REQUIRE(!last || packet.ack_request);  // else no response would confirm the message
  UROCE_REQUIRE(std::ranges::equal(packet.payload, Gather(request, offset, length)));
}

std::vector<uint8_t> RequesterModel::Gather(const Request& request, uint64_t offset,
                                            uint64_t length) const {
  std::vector<uint8_t> bytes;
  if (request.inline_bytes) {
    const auto from = request.inline_bytes->begin() + static_cast<ptrdiff_t>(offset);
    return {from, from + static_cast<ptrdiff_t>(length)};
  }
  for (const ScatterGatherEntry& sge : request.sges) {
    const uint64_t skipped = std::min<uint64_t>(offset, sge.length);
    const uint64_t here = std::min(length - bytes.size(), sge.length - skipped);
    offset -= skipped;
    if (here == 0) continue;
    const uint8_t* at = memory_.Local(kOurPd, sge.lkey, sge.address + skipped, here, 0);
    UROCE_REQUIRE(at != nullptr);
    bytes.insert(bytes.end(), at, at + here);
  }
  return bytes;
}

}  // namespace uroce::transport
