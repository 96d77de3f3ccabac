#include "tests/simulation/wire_monitor.h"

#include <algorithm>

#include "tests/simulation/describe.h"
#include "transport/wire/frame_parser.h"

namespace uroce::simulation {

using transport::DropReason;
using transport::NakCode;
using transport::Operation;
using transport::Packet;
using transport::Psn;
using transport::Qpn;
using transport::QpState;
using transport::QueuePair;
using transport::Syndrome;

void WireMonitor::AddConnection(const End& a, const End& b) {
  for (const auto& [requester, responder] : {std::pair{a, b}, std::pair{b, a}}) {
    Direction direction;
    direction.requester = requester;
    direction.responder = responder.qp;
    directions_[requester.qp->qpn()] = direction;
    peers_[requester.qp->qpn()] = responder.qp->qpn();
  }
}

WireMonitor::Direction* WireMonitor::Find(const Packet& packet) {
  const auto peer = peers_.find(packet.destination_qpn);
  if (peer == peers_.end()) return nullptr;
  return &directions_.at(packet.opcode.IsResponse() ? packet.destination_qpn : peer->second);
}

int64_t WireMonitor::Unwrap(const Direction& direction, Psn psn, int64_t near) {
  const Psn near_psn = direction.requester.first_psn + static_cast<uint32_t>(near);
  return near + psn.DistanceFrom(near_psn);
}

int64_t WireMonitor::PacketsOf(const Direction& direction, const Packet& request) {
  if (request.opcode.operation != Operation::kReadRequest) return 1;
  const uint32_t mtu = direction.requester.mtu_bytes;
  return std::max<int64_t>(1, (int64_t{request.reth.dma_length} + mtu - 1) / mtu);
}

void WireMonitor::OnSent(std::span<const uint8_t> frame) {
  Packet packet;
  const DropReason reason = ParseFrame(frame, packet);
  if (reason != DropReason::kNone) {
    return verdict_.Fail("a frame was sent that a receiver drops: ", Name(reason), ": ",
                         DescribeFrame(frame));
  }
  Direction* direction = Find(packet);
  if (direction == nullptr) {
    return verdict_.Fail("a frame was sent to nobody: ", DescribeFrame(frame));
  }
  if (packet.payload.size() > direction->requester.mtu_bytes) {
    verdict_.Fail("a frame longer than the path MTU: ", DescribeFrame(frame));
  }
  CheckSender(*direction, packet);
  if (!strict_) return;
  if (packet.opcode.IsResponse()) {
    OnResponseSent(*direction, packet);
  } else {
    OnRequestSent(*direction, packet);
  }
}

// A queue pair in ERR sends nothing, but for what its responder owed when it refused a request, and
// the NAK that says why (IBA 9.9.3).
void WireMonitor::CheckSender(Direction& direction, const Packet& packet) {
  const bool is_response = packet.opcode.IsResponse();
  const QueuePair& sender = is_response ? *direction.responder : *direction.requester.qp;
  const bool in_error = sender.state() == QpState::kError;
  const bool is_nak = packet.opcode.operation == Operation::kAcknowledge &&
                      packet.aeth.syndrome.kind() == Syndrome::Kind::kNak;
  if (in_error ? !is_response || direction.responder_is_silent
               : sender.state() != QpState::kReadyToSend) {
    verdict_.Fail("QP ", sender.qpn().value, " in state ", static_cast<int>(sender.state()),
                  " sends to QP ", packet.destination_qpn.value, ", psn ", packet.psn.value());
  }
  if (in_error && is_nak) direction.responder_is_silent = true;
}

void WireMonitor::OnRequestSent(Direction& direction, const Packet& packet) {
  const int64_t begin = Unwrap(direction, packet.psn, direction.sent_end);
  const int64_t end = begin + PacketsOf(direction, packet);
  const uint32_t qpn = direction.requester.qp->qpn().value;
  if (begin > direction.sent_end) {
    verdict_.Fail("QP ", qpn, " leaves out PSNs: sends ", packet.psn.value());
  }
  if (begin < direction.acknowledged_end) {
    verdict_.Fail("QP ", qpn, " sends again what was acknowledged: psn ", packet.psn.value());
  }
  if (end - direction.acknowledged_end > 1 << 23) {
    verdict_.Fail("QP ", qpn, " has more than half of all PSNs in flight");
  }
  if (begin == direction.sent_end) {  // not seen before
    if (packet.opcode.EndsMessage()) ++direction.messages_sent;
    if (packet.opcode.operation == Operation::kReadRequest || packet.opcode.HasAtomicEth()) {
      direction.reads.push_back({begin, end});
      if (direction.reads.size() > direction.requester.max_read_atomic) {
        verdict_.Fail("QP ", qpn, " has ", direction.reads.size(),
                      " READs and atomics outstanding");
      }
    }
  }
  direction.sent_end = std::max(direction.sent_end, end);
}

void WireMonitor::OnResponseSent(Direction& direction, const Packet& packet) {
  const int64_t at = Unwrap(direction, packet.psn, direction.delivered_end);
  const uint32_t qpn = direction.responder->qpn().value;
  const bool is_gap_nak = packet.opcode.operation == Operation::kAcknowledge &&
                          packet.aeth.syndrome == Syndrome::Nak(NakCode::kPsnSequenceError);
  if (at >= direction.delivered_end + (is_gap_nak ? 1 : 0)) {
    verdict_.Fail("QP ", qpn, " responds to a request that never reached it: psn ",
                  packet.psn.value());
  }
  if (packet.opcode.HasAeth() && packet.aeth.msn > direction.messages_sent) {
    verdict_.Fail("QP ", qpn, " counts ", packet.aeth.msn, " messages of ",
                  direction.messages_sent);
  }
  if (!is_gap_nak) return;
  // One NAK for a gap, until what it asks for has arrived (IBA C9-113).
  if (at == direction.naked && !direction.expected_arrived) {
    verdict_.Fail("QP ", qpn, " sends the NAK for psn ", packet.psn.value(), " twice");
  }
  direction.naked = at;
  direction.expected_arrived = false;
}

void WireMonitor::OnDelivered(std::span<const uint8_t> frame) {
  Packet packet;
  if (!strict_ || ParseFrame(frame, packet) != DropReason::kNone) return;
  Direction* direction = Find(packet);
  if (direction == nullptr) return;
  if (packet.opcode.IsResponse()) {
    OnResponseDelivered(*direction, packet);
  } else {
    OnRequestDelivered(*direction, packet);
  }
}

void WireMonitor::OnRequestDelivered(Direction& direction, const Packet& packet) {
  const int64_t begin = Unwrap(direction, packet.psn, direction.delivered_end);
  const int64_t end = begin + PacketsOf(direction, packet);
  if (begin <= direction.naked && direction.naked < end) direction.expected_arrived = true;
  // Beyond a gap nothing is responded to, so only what continues the sequence counts.
  if (begin <= direction.delivered_end) {
    direction.delivered_end = std::max(direction.delivered_end, end);
  }
}

void WireMonitor::OnResponseDelivered(Direction& direction, const Packet& packet) {
  if (direction.requester.qp->state() == QpState::kError) return;  // nothing helps any more
  const int64_t at = Unwrap(direction, packet.psn, direction.acknowledged_end);
  if (packet.opcode.operation == Operation::kAcknowledge) {
    const Syndrome syndrome = packet.aeth.syndrome;
    const bool is_ack = syndrome.kind() == Syndrome::Kind::kAck;
    // A NAK acknowledges what is before it.
    const int64_t end = is_ack ? at + 1 : at;
    // What lies behind a READ still unanswered is not acknowledged until it is answered.
    const int64_t limit = direction.reads.empty() ? end : direction.reads.front().next;
    Progress(direction, std::min(end, limit));
    if (syndrome.kind() == Syndrome::Kind::kRnrNak) ++direction.rnr_naks_since_progress;
    return;
  }
  // READ or atomic response: everything before it was executed.
  if (direction.reads.empty()) return;
  AwaitedRead& read = direction.reads.front();
  if (at != read.next) return;
  ++read.next;
  Progress(direction, read.next);
  if (read.next == read.end) direction.reads.pop_front();
}

void WireMonitor::Progress(Direction& direction, int64_t acknowledged_end) {
  if (acknowledged_end <= direction.acknowledged_end) return;
  direction.acknowledged_end = acknowledged_end;
  std::erase_if(direction.impaired, [&](int64_t at) { return at < acknowledged_end; });
  direction.rnr_naks_since_progress = 0;
}

void WireMonitor::OnImpaired(std::span<const uint8_t> frame) {
  Packet packet;
  if (ParseFrame(frame, packet) != DropReason::kNone) return;
  Direction* direction = Find(packet);
  if (direction == nullptr) return;
  ++direction->impaired_ever;
  const int64_t at = Unwrap(*direction, packet.psn, direction->acknowledged_end);
  if (at >= direction->acknowledged_end) direction->impaired.push_back(at);
}

bool WireMonitor::RetriesMayBeExceeded(Qpn requester) const {
  const Direction& direction = directions_.at(requester);
  // Each try needs something to go wrong. For the first it may have been a packet before, which
  // has been acknowledged since: go-back-N drops what follows a gap.
  return direction.impaired_ever > 0 &&
         direction.impaired.size() >= direction.requester.retry_count;
}

bool WireMonitor::RnrRetriesMayBeExceeded(Qpn requester) const {
  const Direction& direction = directions_.at(requester);
  return direction.requester.rnr_retry != 7 &&
         direction.rnr_naks_since_progress > direction.requester.rnr_retry;
}

}  // namespace uroce::simulation
