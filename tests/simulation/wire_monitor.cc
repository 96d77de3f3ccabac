#include "tests/simulation/wire_monitor.h"

#include <utility>

#include "tests/simulation/describe.h"
#include "transport/wire/frame_parser.h"

namespace uroce::transport::simulation {
namespace {

void Add(const FlowTally& from, FlowTally& to) {
  to.retransmitted += from.retransmitted;
  to.go_backs += from.go_backs;
  to.gap_naks_delivered += from.gap_naks_delivered;
  to.rnr_naks_delivered += from.rnr_naks_delivered;
  to.gaps_in_responses += from.gaps_in_responses;
  to.gap_naks_sent += from.gap_naks_sent;
  to.rnr_naks_sent += from.rnr_naks_sent;
  to.other_naks_sent += from.other_naks_sent;
  to.duplicates_delivered += from.duplicates_delivered;
}

bool IsNak(const Packet& packet) {
  return packet.opcode.operation == Operation::kAcknowledge &&
         packet.aeth.syndrome.kind() == Syndrome::Kind::kNak;
}

// Whether a queue pair in this state may send requests or, if `response`, responses.
bool MaySend(QpState state, bool response) {
  switch (state) {
    case QpState::kReadyToSend:
    case QpState::kSendQueueDrain:
      return true;
    case QpState::kReadyToReceive:
    case QpState::kSendQueueError:
    case QpState::kError:  // for as long as CheckSender allows
      return response;
    default:
      return false;
  }
}

}  // namespace

void WireMonitor::AddConnection(const End& a, const End& b) {
  for (auto [requester, responder] : {std::pair{a, b}, std::pair{b, a}}) {
    const Qpn qpn = requester.qp->qpn();
    requester.is_selective &= requester.host != responder.host;
    Retire(qpn);
    flows_.emplace(qpn, FlowMonitor(verdict_, requester, responder.qp));
    peers_[qpn] = responder.qp->qpn();
    silent_.erase(qpn);
  }
}

void WireMonitor::AddDatagram(const End& end) {
  Retire(end.qp->qpn());
  flows_.emplace(end.qp->qpn(), FlowMonitor(verdict_, end, nullptr));
}

void WireMonitor::Retire(Qpn requester) {
  const auto flow = flows_.find(requester);
  if (flow == flows_.end()) return;
  Add(flow->second.requesters_tally(), past_tallies_[requester]);
  if (flow->second.responder() != nullptr) {
    // The responder itself may be destroyed by now.
    Add(flow->second.responders_tally(), past_tallies_[peers_.at(requester)]);
  }
  flows_.erase(flow);
}

FlowMonitor* WireMonitor::Find(const Packet& packet) {
  Qpn requester = packet.destination_qpn;
  if (packet.opcode.HasDeth()) {
    requester = packet.deth.source_qpn;
  } else if (!packet.opcode.IsResponse()) {
    const auto peer = peers_.find(packet.destination_qpn);
    if (peer == peers_.end()) return nullptr;
    requester = peer->second;
  }
  const auto flow = flows_.find(requester);
  return flow == flows_.end() ? nullptr : &flow->second;
}

void WireMonitor::OnSent(std::span<const uint8_t> frame) {
  Packet packet;
  const DropReason reason = ParseFrame(frame, packet);
  if (reason != DropReason::kNone) {
    return verdict_.Fail("a frame was sent that a receiver drops: ", Name(reason), ": ",
                         DescribeFrame(frame));
  }
  if (packet.destination_qpn == kGeneralServicesQpn) {
    return management_.push_back({packet.flow.source, frame.size()});
  }
  FlowMonitor* flow = Find(packet);
  const bool is_response = packet.opcode.IsResponse();
  if (flow == nullptr || (is_response && flow->responder() == nullptr)) {
    return verdict_.Fail("a frame was sent to nobody: ", DescribeFrame(frame));
  }
  if (packet.payload.size() > flow->requester().mtu_bytes) {
    verdict_.Fail("a frame longer than the path MTU: ", DescribeFrame(frame));
  }
  CheckSender(*flow, packet);
  Sent& sent = sent_[is_response ? flow->responder()->qpn() : flow->requester().qp->qpn()];
  ++sent.packets;
  sent.bytes += frame.size();
  if (!strict_) return;
  if (is_response) {
    flow->OnResponseSent(packet);
  } else {
    flow->OnRequestSent(packet);
  }
}

// A queue pair in ERR sends only the responses that it owed when it refused a request, and the NAK
// for the refusal (IBA 9.7.5.2.2).
void WireMonitor::CheckSender(const FlowMonitor& flow, const Packet& packet) {
  const bool is_response = packet.opcode.IsResponse();
  const QueuePair& sender = is_response ? *flow.responder() : *flow.requester().qp;
  if (!MaySend(sender.state(), is_response) || silent_.count(sender.qpn()) != 0) {
    verdict_.Fail("QP ", sender.qpn().value, " in state ", static_cast<int>(sender.state()),
                  " sends to QP ", packet.destination_qpn.value, ", psn ", packet.psn.value());
  }
  if (sender.state() == QpState::kError && IsNak(packet)) silent_.insert(sender.qpn());
}

void WireMonitor::OnDelivered(std::span<const uint8_t> frame) {
  Packet packet;
  if (!strict_ || ParseFrame(frame, packet) != DropReason::kNone) return;
  FlowMonitor* flow = Find(packet);
  if (flow == nullptr) return;
  if (packet.opcode.IsResponse()) {
    flow->OnResponseDelivered(packet);
  } else {
    flow->OnRequestDelivered(packet);
  }
}

void WireMonitor::OnImpaired(std::span<const uint8_t> frame) {
  Packet packet;
  if (ParseFrame(frame, packet) != DropReason::kNone) return;
  if (FlowMonitor* flow = Find(packet)) flow->OnImpaired(packet);
}

void WireMonitor::CheckCounters(const Endpoint& endpoint) {
  std::map<Qpn, FlowTally> tallies = past_tallies_;
  for (const auto& [qpn, flow] : flows_) {
    Add(flow.requesters_tally(), tallies[qpn]);
    if (flow.responder() != nullptr) Add(flow.responders_tally(), tallies[flow.responder()->qpn()]);
  }
  FlowTally seen;
  Sent sent;
  for (const auto& [qpn, tally] : tallies) {
    if (endpoint.config().OwnsQpn(qpn)) Add(tally, seen);
  }
  for (const auto& [qpn, one] : sent_) {
    if (!endpoint.config().OwnsQpn(qpn)) continue;
    sent.packets += one.packets;
    sent.bytes += one.bytes;
  }
  for (const auto& [source, bytes] : management_) {
    if (endpoint.config().FindGid(source) < 0) continue;
    ++sent.packets;
    sent.bytes += bytes;
  }
  const Counters& counted = endpoint.counters();
  const auto same = [&](const char* name, uint64_t counter, uint64_t monitor) {
    if (counter != monitor) verdict_.Fail("counter ", name, " is ", counter, ", seen ", monitor);
  };
  const auto at_most = [&](const char* name, uint64_t counter, uint64_t monitor) {
    if (counter > monitor) verdict_.Fail("counter ", name, " is ", counter, ", seen ", monitor);
  };
  same("transmitted_packets", counted.transmitted_packets, sent.packets);
  same("transmitted_bytes", counted.transmitted_bytes, sent.bytes);
  same("retransmitted_packets", counted.retransmitted_packets, seen.retransmitted);
  same("psn_naks_sent", counted.psn_naks_sent, seen.gap_naks_sent);
  same("rnr_naks_sent", counted.rnr_naks_sent, seen.rnr_naks_sent);
  same("error_naks_sent", counted.error_naks_sent, seen.other_naks_sent);
  // In some states a queue pair ignores frames that arrive.
  at_most("psn_naks_received", counted.psn_naks_received, seen.gap_naks_delivered);
  at_most("rnr_naks_received", counted.rnr_naks_received, seen.rnr_naks_delivered);
  at_most("implied_naks", counted.implied_naks, seen.gaps_in_responses);
  at_most("duplicate_requests", counted.duplicate_requests, seen.duplicates_delivered);
  // A requester goes back only for a reason.
  const uint64_t reasons = counted.psn_naks_received + counted.rnr_naks_received +
                           counted.implied_naks + counted.ack_timeouts + counted.probes;
  if (seen.go_backs > reasons) {
    verdict_.Fail("queue pairs went back ", seen.go_backs, " times for ", reasons, " reasons");
  }
}

}  // namespace uroce::transport::simulation
