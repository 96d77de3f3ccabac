#include "transport/qp/relayed_requests.h"

#include "transport/limits.h"
#include "transport/peer_progress.h"
#include "transport/qp/responder.h"
#include "transport/qp/responder_steps.h"

namespace uroce::transport {

using Kind = XrcRelay::Kind;
using Refusal = XrcRelay::Refusal;

// The counterpart of Responder::OnRequest. Requests up to expected_psn_ are executed, and those
// from there on are in the relay.
DropReason RelayedRequests::OnRequest(const Packet& packet) {
  Responder& own = responder_;
  const Psn accepted = relay_.empty() ? own.expected_psn_ : relay_.next_psn();
  if (packet.psn.IsAfter(accepted)) return own.OnSequenceGap(packet.psn);
  if (packet.psn.IsBefore(own.expected_psn_)) return OnDuplicate(packet);
  if (packet.psn.IsBefore(accepted)) {
    if (packet.psn == own.expected_psn_) relay_.SendAgain();
    return DropReason::kDuplicateRequest;
  }
  if (!Push(packet)) return DropReason::kSequenceGap;
  own.nak_sent_ = false;
  own.CloseGap();
  own.awaits_receive_ = false;
  const bool owes_readiness = own.acknowledge_ == Responder::Acknowledge::kRnrNak ||
                              own.acknowledge_ == Responder::Acknowledge::kReady;
  if (owes_readiness) own.acknowledge_ = Responder::Acknowledge::kAck;
  ExecuteAnswered();
  return DropReason::kNone;
}

// The checks that need this queue pair are made here; a request that fails them is refused by this
// process in its turn. Returns whether there was room.
bool RelayedRequests::Push(const Packet& packet) {
  const bool is_executed_there = relay_.IsForeign(packet.xrceth.srqn) &&
                                 responder_.IsEnabled(packet) &&
                                 responder_.HasValidLength(packet.opcode, packet.payload.size()) &&
                                 packet.reth.dma_length <= kMaxMessageBytes;
  if (!is_executed_there) return relay_.Push(packet, Kind::kLocal);
  switch (packet.opcode.operation) {
    case Operation::kSend:
    case Operation::kWrite:
      return relay_.Push(packet, Kind::kData);
    case Operation::kReadRequest:
      return relay_.PushRead(packet, responder_.PacketsOf(packet.reth.dma_length));
    case Operation::kFlush:
    case Operation::kAtomicWrite:
      return relay_.Push(packet, Kind::kNoData);
    default:
      return relay_.Push(packet, Kind::kAtomic);
  }
}

// A READ is executed again, by the process of its queue. The result of an atomic is kept here.
DropReason RelayedRequests::OnDuplicate(const Packet& packet) {
  const bool is_read = packet.opcode.operation == Operation::kReadRequest;
  if (!is_read || !relay_.IsForeign(packet.xrceth.srqn)) {
    responder_.ChooseQueue(packet.xrceth.srqn);
    return responder_.OnDuplicate(packet);
  }
  ++responder_.qp_.counters.duplicate_requests;
  const Psn expected = responder_.expected_psn_;
  const uint32_t packets = responder_.PacketsOf(packet.reth.dma_length);
  const uint32_t executed = (expected.value() - packet.psn.value()) & Psn::kMask;
  // The rest of the READ comes first: the peer needs all of it.
  if (packets > executed) relay_.SendAgain();
  const bool is_pushed = packets <= executed && responder_.IsEnabled(packet) &&
                         relay_.PushReplay(packet, packets, expected);
  return is_pushed ? DropReason::kDuplicateRequest : DropReason::kDuplicateNotHeld;
}

DropReason RelayedRequests::OnResponse(const Packet& packet) {
  switch (relay_.OnResponse(packet)) {
    case XrcRelay::News::kForeign:
      return DropReason::kForeignSource;
    case XrcRelay::News::kReady:
      (void)responder_.OnReceivePosted();
      break;
    case XrcRelay::News::kAnswers:
      ExecuteAnswered();
      break;
    case XrcRelay::News::kNone:
      break;
  }
  return DropReason::kNone;
}

// A link loses nothing but with impairments, and a process that stands still is waited for.
void RelayedRequests::OnDeadline(Time now) {
  if (now < deadline()) return;
  const bool has_begun = deadline_ != Time{};
  deadline_ = now + kPatience;
  if (relay_.TakeProgress() || !has_begun || !relay_.IsWaiting()) {
    silences_ = 0;
    return;
  }
  PeerProgress* const progress = qp_.environment.config.peer_progress;
  const Time sent{now.ns - kPatience.ns};
  if (progress != nullptr && !progress->HasAnswered(relay_.route(), sent, now)) return;
  if (++silences_ < kMostSilences) return relay_.SendAgain();
  relay_.GiveUp();
  ExecuteAnswered();
}

bool RelayedRequests::OnProcessGone(Route route) {
  const bool is_concerned = relay_.OnPeerGone(route);
  if (is_concerned) ExecuteAnswered();
  return is_concerned;
}

// Answers the requests that other processes have executed, and executes those of this process that
// waited for them.
void RelayedRequests::ExecuteAnswered() {
  while (relay_.HasFront() && !responder_.failed()) {
    if (!ExecuteFront()) return;
    relay_.PopFront();
  }
  if (relay_.empty()) deadline_ = Time{};
  // The peer has to send again what found no room.
  if (relay_.empty() && relay_.TakeOverflow() && !responder_.failed()) {
    responder_.nak_sent_ = true;
    responder_.acknowledge_ = Responder::Acknowledge::kSequenceNak;
  }
}

// Whether the oldest request of the relay is done with. If not, it waits for its response to be
// sent, or was refused with all behind it.
bool RelayedRequests::ExecuteFront() {
  const XrcRelay::Request& request = relay_.front();
  const Packet packet = relay_.FrontPacket();
  if (request.refusal != Refusal::kNone) {
    Refuse(request.refusal, request.nak);
    return false;
  }
  if (request.kind == Kind::kLocal) return ExecuteHere(packet);
  if (request.kind == Kind::kData) {
    ++responder_.expected_psn_;
    if (packet.opcode.EndsMessage()) responder_.CountMessage();
    responder_.NoteExecuted(packet.psn, packet.opcode.EndsMessage(), packet.ack_request);
    return true;
  }
  if (!responder_.replies_.HasRoom()) {
    if (request.is_replay) return true;  // the peer will ask once more
    Refuse(Refusal::kNak, NakCode::kInvalidRequest);
    return false;
  }
  if (request.kind == Kind::kAtomic) {
    responder_.ReplyToAtomic(packet.psn, request.result);
    return true;
  }
  if (request.kind == Kind::kNoData) {
    responder_.ReplyWithoutData(packet);
    return true;
  }
  relay_.TakeRead();
  responder_.replies_.Push({.is_relayed = true,
                            .first_psn = packet.psn,
                            .next_psn = packet.psn,
                            .end_psn = packet.psn + 1});
  return false;
}

// False, and all requests behind it are forgotten, if it may not be executed.
bool RelayedRequests::ExecuteHere(const Packet& packet) {
  responder_.ChooseQueue(packet.xrceth.srqn);
  (void)responder_.OnExpected(packet);
  if (!responder_.failed() && responder_.expected_psn_.IsAfter(packet.psn)) return true;
  relay_.Discard();
  return false;
}

void RelayedRequests::Refuse(Refusal refusal, NakCode nak) {
  Responder& own = responder_;
  deadline_ = Time{};
  own.nak_sent_ = true;
  if (refusal == Refusal::kReceiverNotReady) {
    if (own.message_ == Responder::Message::kNone) own.receives_.Choose(nullptr);
    own.awaits_receive_ = own.qp_.peer_is_linked;
    own.acknowledge_ = Responder::Acknowledge::kRnrNak;
  } else {
    own.failure_event_ = EventType::kQpAccessError;
    own.FailWithNak(nak);
  }
  relay_.Discard();
}

// A part of a READ.
size_t RelayedRequests::BuildResponse(const FrameRoom& out) {
  responder_.replies_.PopFront();
  if (!relay_.is_read_taken()) return 0;  // the queue pair has failed meanwhile
  const XrcRelay::Request& request = relay_.front();
  const Packet packet = relay_.FrontPacket();
  const bool starts = request.position == Position::kFirst || request.position == Position::kOnly;
  if (!request.is_replay) {
    if (starts) responder_.CountMessage();
    ++responder_.expected_psn_;
    responder_.AcknowledgeByReply();
  }
  Reply reply;
  reply.next_psn = packet.psn;
  reply.msn = responder_.msn_;
  const PayloadPiece piece = {packet.payload.data(), packet.payload.size()};
  const size_t frame_bytes = responder_.EmitReadResponse(reply, request.position, piece, out);
  relay_.PopFront();
  ExecuteAnswered();
  return frame_bytes;
}

}  // namespace uroce::transport
