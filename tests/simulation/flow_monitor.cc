#include "tests/simulation/flow_monitor.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "transport/wire/selective_ack.h"

namespace uroce::transport::simulation {
namespace {

constexpr uint32_t kMsnMask = 0xff'ffff;
constexpr int64_t kHalfOfAllPsns = 1 << 23;

// The fields that a retransmission repeats: all but the PSN, the ACK request and, for a READ, the
// range.
uint64_t Fingerprint(const Packet& packet, bool with_payload) {
  uint64_t hash = 0x9e37'79b9'7f4a'7c15;
  const auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * 0xff51'afd7'ed55'8ccd;
    hash ^= hash >> 32;
  };
  for (const uint64_t word : std::initializer_list<uint64_t>{
           EncodeOpcode(packet.opcode), packet.solicited, packet.immediate,
           packet.invalidate_rkey.value, packet.feth.placement,
           static_cast<uint64_t>(packet.feth.selectivity), packet.atomic.virtual_address,
           packet.atomic.rkey.value, packet.atomic.swap_or_add, packet.atomic.compare,
           packet.payload.size()}) {
    mix(word);
  }
  if (packet.opcode.operation != Operation::kReadRequest) {
    mix(packet.reth.virtual_address);
    mix(uint64_t{packet.reth.rkey.value} << 32 | packet.reth.dma_length);
  }
  for (size_t at = 0; with_payload && at < packet.payload.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, &packet.payload[at], std::min<size_t>(8, packet.payload.size() - at));
    mix(word);
  }
  return hash;
}

bool HasOwnResponse(const Packet& request) {
  switch (request.opcode.operation) {
    case Operation::kSend:
    case Operation::kWrite:
      return false;
    default:
      return true;
  }
}

bool TakesReceive(const Packet& request) {
  return request.opcode.operation == Operation::kSend || request.opcode.HasImmediate();
}

// IBA 9.7.7.2: 0, 1, 2, 3, 4, 6, 8, 12, 16 ... nullopt for 31, which means "no information".
std::optional<uint64_t> Credits(uint8_t code) {
  if (code == Syndrome::kNoCreditInformation) return std::nullopt;
  if (code < 2) return code;
  return code % 2 == 0 ? 1ull << (code / 2) : 3ull << ((code - 3) / 2);
}

}  // namespace

int64_t FlowMonitor::Unwrap(Psn psn, int64_t near) const {
  const Psn near_psn = requester_.first_psn + static_cast<uint32_t>(near & Psn::kMask);
  return near + psn.DistanceFrom(near_psn);
}

uint64_t FlowMonitor::UnwrapMsn(uint32_t msn) const {
  const auto behind = static_cast<uint32_t>(messages_sent_ - msn) & kMsnMask;
  return messages_sent_ - behind;
}

int64_t FlowMonitor::PacketsOf(const Packet& request) const {
  if (request.opcode.operation != Operation::kReadRequest) return 1;
  const uint32_t mtu = requester_.mtu_bytes;
  return std::max<int64_t>(1, (int64_t{request.reth.dma_length} + mtu - 1) / mtu);
}

bool FlowMonitor::IsReliable() const {
  return requester_.qp->init_attributes().type == QpType::kReliableConnection || IsXrc();
}

bool FlowMonitor::IsXrc() const {
  return requester_.qp->init_attributes().type == QpType::kXrcSend;
}

void FlowMonitor::OnRequestSent(const Packet& request) {
  const int64_t begin = Unwrap(request.psn, next_);
  const int64_t end = begin + PacketsOf(request);
  CheckOrder(request, begin, end);
  if (begin >= sent_end_) {
    OnNewRequest(request, begin, end);
  } else {
    ++requesters_tally_.retransmitted;
    if (probe_ == begin) probe_.reset();  // it may have credit by now
    CheckRepeated(request, begin);
  }
  next_ = requester_.is_selective ? std::max(sent_end_, end) : end;
  peer_has_more_ = false;
  sent_end_ = std::max(sent_end_, end);
  if (!IsReliable()) acknowledged_end_ = end;
}

// IBA 9.9.2.4.1: go-back-N. IBA 9.4.4: a repeated READ starts at its first missing response.
void FlowMonitor::CheckOrder(const Packet& request, int64_t begin, int64_t end) {
  const uint32_t psn = request.psn.value();
  if (requester_.is_selective) {
    // Responses that arrived early may have been forgotten, after an RNR NAK.
    const bool may_repeat = begin >= acknowledged_end_ || HasOwnResponse(request);
    if (begin > sent_end_) verdict_->Fail("QP ", qpn(), " leaves out PSNs: sends ", psn);
    if (!may_repeat) verdict_->Fail("QP ", qpn(), " sends again what was acknowledged: psn ", psn);
    return;
  }
  const bool goes_on = peer_has_more_ && begin == sent_end_;
  if (begin > next_ && !goes_on) {
    verdict_->Fail("QP ", qpn(), " leaves out PSNs: sends ", psn);
  } else if (begin < acknowledged_end_) {
    verdict_->Fail("QP ", qpn(), " sends again what was acknowledged: psn ", psn);
  } else if (begin < next_ && begin != acknowledged_end_) {
    verdict_->Fail("QP ", qpn(), " goes back to psn ", psn, ", ", begin - acknowledged_end_,
                   " packets after the oldest one that is not acknowledged");
  } else if (end - acknowledged_end_ > kHalfOfAllPsns) {
    verdict_->Fail("QP ", qpn(), " has more than half of all PSNs in flight");
  }
  if (begin < next_) ++requesters_tally_.go_backs;
}

void FlowMonitor::OnNewRequest(const Packet& request, int64_t begin, int64_t end) {
  // IBA 10.3.1.5: in SQD a queue pair only finishes the requests it has started.
  const bool starts = request.opcode.StartsMessage() && !ContinuesRead(request);
  read_end_.reset();
  if (request.opcode.operation == Operation::kReadRequest) {
    read_end_ = {request.reth.virtual_address + request.reth.dma_length, request.reth.rkey, 0};
  }
  if (requester_.qp->state() == QpState::kSendQueueDrain && starts) {
    verdict_->Fail("QP ", qpn(), " starts a message in SQD: psn ", request.psn.value());
  }
  if (!IsReliable()) return;
  CheckCredit(request, begin);
  fingerprints_[begin] = Fingerprint(request, requester_.sources_are_stable);
  if (request.opcode.EndsMessage()) {
    ++messages_sent_;
    receives_taken_ += TakesReceive(request) ? 1 : 0;
    messages_.push_back({end, TakesReceive(request)});
  }
  if (!HasOwnResponse(request)) return;
  reads_.push_back({begin, begin, end, request.reth});
  CountReads();
}

void FlowMonitor::CountReads() {
  const auto outstanding = std::ranges::count_if(reads_, [](const AwaitedRead& read) {
    return read.next + static_cast<int64_t>(read.early.size()) < read.end;
  });
  if (outstanding > requester_.max_read_atomic) {
    verdict_->Fail("QP ", qpn(), " has ", outstanding, " READs and atomics outstanding");
  }
}

// Whether a READ goes on where the one before it has ended: the requester asks for the data of one
// request in pieces.
bool FlowMonitor::ContinuesRead(const Packet& request) const {
  return request.opcode.operation == Operation::kReadRequest && read_end_ &&
         request.reth.virtual_address == read_end_->virtual_address &&
         request.reth.rkey == read_end_->rkey;
}

// A packet sent again equals the first copy. A repeated READ asks for the rest of the same memory.
void FlowMonitor::CheckRepeated(const Packet& request, int64_t begin) {
  // A response that came early is asked for again if its data had no place to go to.
  const bool may_be_answered = requester_.is_selective && HasOwnResponse(request);
  if (may_be_answered && begin < acknowledged_end_) return;
  if (request.opcode.operation != Operation::kReadRequest) {
    const auto first = fingerprints_.find(begin);
    const uint64_t now = Fingerprint(request, requester_.sources_are_stable);
    if (first == fingerprints_.end() || first->second != now) {
      verdict_->Fail("QP ", qpn(), " sends psn ", request.psn.value(),
                     " again and it is not the same packet");
    }
    return;
  }
  const auto read = std::find_if(reads_.begin(), reads_.end(), [begin](const AwaitedRead& r) {
    return r.begin <= begin && begin < r.end;
  });
  if (read == reads_.end()) {
    return verdict_->Fail("QP ", qpn(), " sends a READ again that nobody awaits: psn ",
                          request.psn.value());
  }
  const auto skipped = static_cast<uint64_t>(begin - read->begin) * requester_.mtu_bytes;
  const uint64_t rest = read->reth.dma_length - skipped;
  const bool is_right_length =
      requester_.is_selective ? request.reth.dma_length <= rest : request.reth.dma_length == rest;
  if (request.reth.virtual_address != read->reth.virtual_address + skipped || !is_right_length ||
      !(request.reth.rkey == read->reth.rkey)) {
    verdict_->Fail("QP ", qpn(), " goes on with a READ at other memory: psn ", request.psn.value());
  }
}

// IBA 9.7.7.2.5: without credit the requester may send one packet alone; the rest of its message
// waits.
void FlowMonitor::CheckCredit(const Packet& request, int64_t begin) {
  if (request.opcode.StartsMessage()) {
    probe_.reset();
  } else if (probe_ && acknowledged_end_ <= *probe_) {
    verdict_->Fail("QP ", qpn(), " goes on before its limited request is answered: psn ",
                   request.psn.value());
  }
  // In a WRITE of several packets only the last one shows that it takes a receive request.
  const bool takes_next = request.opcode.StartsMessage() && TakesReceive(request);
  if (!takes_next || IsXrc() || !credit_limit_ || receives_taken_ < *credit_limit_) return;
  if (begin != acknowledged_end_) {
    verdict_->Fail("QP ", qpn(), " takes ", receives_taken_ + 1,
                   " receive requests with credit for ", *credit_limit_, ": psn ",
                   request.psn.value());
  }
  if (request.opcode.operation == Operation::kSend) probe_ = begin;
}

void FlowMonitor::OnResponseSent(const Packet& response) {
  const int64_t at = Unwrap(response.psn, delivered_end_);
  const bool is_acknowledge = response.opcode.operation == Operation::kAcknowledge;
  const bool is_selective = response.opcode.operation == Operation::kSelectiveAcknowledge;
  const bool is_gap_nak =
      is_selective ||
      (is_acknowledge && response.aeth.syndrome == Syndrome::Nak(NakCode::kPsnSequenceError));
  if (!IsReliable()) {
    return verdict_->Fail("QP ", responder_->qpn().value, " responds, but is not reliable");
  }
  if (at >= delivered_end_ + (is_gap_nak ? 1 : 0)) {
    verdict_->Fail("QP ", responder_->qpn().value,
                   " responds to a request that never reached it: psn ", response.psn.value());
  }
  if (response.opcode.HasAeth()) CheckMsn(response, at);
  if (is_acknowledge) CheckNak(response, at);
  if (is_selective) CheckSelectiveAck(response, at);
}

// It names only packets that have arrived.
void FlowMonitor::CheckSelectiveAck(const Packet& response, int64_t at) {
  const auto kept = SelectiveAckView::Parse(response.payload);
  if (!kept) return verdict_->Fail("a selective ACK that cannot be read");
  kept->ForEach([&](uint32_t distance) {
    const int64_t position = at + distance;
    if (position < delivered_end_ || delivered_early_.contains(position)) return;
    verdict_->Fail("QP ", responder_->qpn().value, " says that psn ",
                   (response.psn + distance).value(), " has arrived");
  });
}

// IBA C9-148: the MSN is the number of completed messages, which follows from what an ACK covers.
void FlowMonitor::CheckMsn(const Packet& response, int64_t at) {
  const uint64_t msn = UnwrapMsn(response.aeth.msn);
  const auto fail = [&](uint64_t right) {
    verdict_->Fail("QP ", responder_->qpn().value, " counts ", response.aeth.msn,
                   " messages instead of ", right & kMsnMask, ": psn ", response.psn.value());
  };
  if (messages_sent_ - msn >= 1 << 23) return fail(messages_sent_);
  const Syndrome syndrome = response.aeth.syndrome;
  const bool is_fatal =
      syndrome.kind() == Syndrome::Kind::kNak && syndrome.nak_code() != NakCode::kPsnSequenceError;
  // A READ counts when it is executed. A READ response, or a NAK within the READ, does not show
  // that.
  if (response.opcode.operation != Operation::kAcknowledge || is_fatal) return;
  const int64_t executed_end = syndrome.kind() == Syndrome::Kind::kAck ? at + 1 : at;
  const auto beyond =
      std::count_if(messages_.rbegin(), messages_.rend(),
                    [executed_end](const Message& message) { return message.end > executed_end; });
  const uint64_t completed = messages_sent_ - static_cast<uint64_t>(beyond);
  // Messages before acknowledged_end_ may be forgotten: there the count is only an upper bound.
  const bool is_exact = executed_end >= acknowledged_end_;
  if (is_exact ? msn != completed : msn > completed) fail(completed);
}

void FlowMonitor::CheckNak(const Packet& response, int64_t at) {
  const Syndrome syndrome = response.aeth.syndrome;
  if (syndrome.kind() == Syndrome::Kind::kRnrNak) ++responders_tally_.rnr_naks_sent;
  if (syndrome.kind() != Syndrome::Kind::kNak) return;
  if (syndrome.nak_code() != NakCode::kPsnSequenceError) {
    ++responders_tally_.other_naks_sent;
    return;
  }
  ++responders_tally_.gap_naks_sent;
  // One NAK for a gap, until the packet it asks for arrives (IBA 9.7.5.2).
  if (at == naked_ && !expected_arrived_) {
    verdict_->Fail("QP ", responder_->qpn().value, " sends the NAK for psn ", response.psn.value(),
                   " twice");
  }
  naked_ = at;
  expected_arrived_ = false;
}

void FlowMonitor::OnRequestDelivered(const Packet& request) {
  const int64_t begin = Unwrap(request.psn, delivered_end_);
  const int64_t end = begin + PacketsOf(request);
  if (begin <= naked_ && naked_ < end) expected_arrived_ = true;
  if (begin < delivered_end_) ++responders_tally_.duplicates_delivered;
  // The responder answers nothing beyond a gap. When the gap is filled it may answer what has
  // arrived behind it, if it keeps such packets.
  if (begin <= delivered_end_) delivered_end_ = std::max(delivered_end_, end);
  int64_t& early_end = delivered_early_[begin];
  early_end = std::max(early_end, end);
  while (!delivered_early_.empty() && delivered_early_.begin()->first <= delivered_end_) {
    const bool keeps = responder_ != nullptr && responder_->counters().early_packets != 0;
    if (keeps) delivered_end_ = std::max(delivered_end_, delivered_early_.begin()->second);
    delivered_early_.erase(delivered_early_.begin());
  }
}

void FlowMonitor::OnResponseDelivered(const Packet& response) {
  if (requester_.qp->state() == QpState::kError) return;  // the queue pair does not recover
  const int64_t at = Unwrap(response.psn, acknowledged_end_);
  // Ignores PSNs not sent since the queue pair was connected anew, and those already answered. A
  // repeat of the last ACK counts, as it may bring credits.
  if (at < acknowledged_end_ - 1 || at >= sent_end_) return;
  if (response.opcode.HasAeth()) TakeCredit(response.aeth);
  if (at < acknowledged_end_) return;
  const bool is_acknowledge = response.opcode.operation == Operation::kAcknowledge;
  const Syndrome syndrome = response.aeth.syndrome;
  const bool is_ack = is_acknowledge && syndrome.kind() == Syndrome::Kind::kAck;
  // An ACK acknowledges its own PSN too; a NAK or a READ response only the PSNs before it.
  const int64_t end = is_ack ? at + 1 : at;
  // Packets after an unanswered READ are not acknowledged until it is answered.
  const int64_t limit = reads_.empty() ? end : reads_.front().next;
  if (end > limit) ++requesters_tally_.gaps_in_responses;
  executed_end_ = std::max(executed_end_, end);
  Progress(std::min(end, limit));
  if (is_acknowledge) {
    if (syndrome.kind() == Syndrome::Kind::kRnrNak) {
      ++rnr_naks_since_progress_;
      ++requesters_tally_.rnr_naks_delivered;
    }
    const bool is_gap_nak = syndrome == Syndrome::Nak(NakCode::kPsnSequenceError);
    if (is_gap_nak) ++requesters_tally_.gap_naks_delivered;
    return;
  }
  if (response.opcode.operation == Operation::kSelectiveAcknowledge) {
    ++requesters_tally_.gap_naks_delivered;
    return;
  }
  if (requester_.is_selective) return OnResponseInAnyOrder(at);
  if (reads_.empty() || at != reads_.front().next) return;
  ++reads_.front().next;
  const bool complete = reads_.front().next == reads_.front().end;
  Progress(at + 1);
  if (complete) reads_.pop_front();
}

void FlowMonitor::OnResponseInAnyOrder(int64_t at) {
  const auto read = std::ranges::find_if(
      reads_, [at](const AwaitedRead& r) { return r.next <= at && at < r.end; });
  if (read == reads_.end()) return;
  read->early.insert(at);
  while (!reads_.empty() && reads_.front().early.erase(reads_.front().next) != 0) {
    ++reads_.front().next;
    Progress(reads_.front().next);
    if (reads_.front().next == reads_.front().end) reads_.pop_front();
  }
  Progress(reads_.empty() ? executed_end_ : std::min(executed_end_, reads_.front().next));
}

void FlowMonitor::TakeCredit(const Aeth& aeth) {
  if (aeth.syndrome.kind() != Syndrome::Kind::kAck) return;
  const auto credits = Credits(aeth.syndrome.value());
  if (!credits) {
    credit_limit_.reset();
    probe_.reset();  // the requester needs no probe any more
  }
  if (!credit_limit_) return;
  // `credits` are for messages that the responder had not completed when it sent this.
  const size_t later = std::min<size_t>(messages_sent_ - UnwrapMsn(aeth.msn), messages_.size());
  const auto taken_later = std::count_if(messages_.rbegin(), messages_.rbegin() + later,
                                         [](const Message& m) { return m.takes_receive; });
  const uint64_t limit = receives_taken_ - static_cast<uint64_t>(taken_later) + *credits;
  credit_limit_ = std::max(*credit_limit_, limit);
}

void FlowMonitor::Progress(int64_t acknowledged_end) {
  if (acknowledged_end <= acknowledged_end_) return;
  acknowledged_end_ = acknowledged_end;
  if (next_ < acknowledged_end) {  // packets about to be sent again that need not be
    next_ = acknowledged_end;
    peer_has_more_ = true;
  }
  fingerprints_.erase(fingerprints_.begin(), fingerprints_.lower_bound(acknowledged_end));
  while (!messages_.empty() && messages_.front().end < acknowledged_end) messages_.pop_front();
  std::erase_if(impaired_, [&](int64_t at) { return at < acknowledged_end; });
  rnr_naks_since_progress_ = 0;
}

void FlowMonitor::OnImpaired(const Packet& packet) {
  ++impaired_ever_;
  const int64_t at = Unwrap(packet.psn, acknowledged_end_);
  if (at >= acknowledged_end_) impaired_.push_back(at);
}

bool FlowMonitor::RetriesMayBeExceeded() const {
  // Each retry needs an impaired frame. For the first retry that may have been an earlier packet,
  // acknowledged since: go-back-N drops all packets that follow a gap.
  return impaired_ever_ > 0 && impaired_.size() >= requester_.retry_count;
}

bool FlowMonitor::RnrRetriesMayBeExceeded() const {
  return requester_.rnr_retry != 7 && rnr_naks_since_progress_ > requester_.rnr_retry;
}

}  // namespace uroce::transport::simulation
