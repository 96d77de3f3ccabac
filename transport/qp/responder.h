#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "transport/completion.h"
#include "transport/counters.h"
#include "transport/memory/sge_cursor.h"
#include "transport/psn.h"
#include "transport/qp/environment.h"
#include "transport/qp/receive_source.h"
#include "transport/qp/relayed_requests.h"
#include "transport/qp/responder_state.h"
#include "transport/status.h"
#include "transport/time.h"
#include "transport/wire/frame_room.h"
#include "transport/wire/packet.h"
#include "transport/wire/packet_view.h"
#include "transport/work_request.h"

namespace uroce::transport {

// The receiving half of a queue pair: checks request packets in the order the specification gives,
// executes them, and, on a reliable connection, answers.
//
// responder_validate.cc: whether a packet may be executed, header prediction first.
// responder_execute.cc: executes it. responder_steps.h: those of SENDs and WRITEs, inlined into
// both. responder_reply.cc: ACKs, NAKs, READ and atomic responses.
// responder_gap.cc: requests that are missing, and those that arrive before them.
// responder_unreliable.cc: UC, UD and raw packets. responder_xrc.cc: the queue of a request of XRC.
class Responder : private ResponderState {
 public:
  // `receives` is empty.
  Responder(QpContext& qp, ReceiveQueue receives);
  // Hands out the queue, to be freed elsewhere; the responder cannot be used any more.
  ReceiveQueue TakeReceives() { return receives_.TakeOwn(); }

  Status Post(const ReceiveWorkRequest& request) { return receives_.Post(request); }
  // A receive request was posted. Returns whether a refused message waits for it: a reply says so.
  bool OnReceivePosted();
  // Whether a refused message waits for a receive request, which may be of the shared queue.
  bool awaits_receive() const { return awaits_receive_; }
  SharedReceiveQueue* shared_queue() const { return receives_.shared(); }

  void Start(Psn first_psn);  // INIT -> RTR: the first request packet must carry `first_psn`
  // Restores the initial state; posted receives vanish without completion.
  void Reset();
  // Completes every receive request as flushed, oldest first, and stops answering; after failed()
  // the replies and the last NAK still go out.
  void Flush(VendorError why);

  // A request packet of the service that the queue pair has.
  DropReason OnRequest(Time now, const Packet& packet);  // RC, XRC
  DropReason OnUnreliable(const Packet& packet);         // UC
  DropReason OnDatagram(const Packet& packet);           // UD
  // Executes a packet of RC if it is predicted. If not, returns false, and nothing has changed.
  bool ExecutePredicted(const PacketView& view);
  // A whole frame for a raw packet queue pair.
  DropReason OnRawFrame(std::span<const uint8_t> frame);

  // The shared queue is destroyed next: its message is given up, whose next packet is refused.
  void Leave(const SharedReceiveQueue& queue);
  // XRC target of a domain that is shared with other processes; otherwise nullptr.
  RelayedRequests* relayed() const { return relayed_.get(); }

  // The end of the wait for a missing packet, whose loss is to be reported, or for an answer of
  // another process.
  void OnDeadline(Time now);
  Time deadline() const { return relayed_ != nullptr ? relayed_->deadline() : nak_due_; }

  bool HasReply() const { return !replies_.empty() || acknowledge_ != Acknowledge::kNone; }
  // Builds the next response packet in `out`; 0 if there is none.
  size_t BuildFrame(const FrameRoom& out);

  // The peer broke a rule, or a receive could not be carried out: the queue pair has to go to ERR.
  bool failed() const { return failed_; }
  // For another max_dest_rd_atomic. Allocates first: after std::bad_alloc nothing has changed.
  void ReserveReplies(uint32_t resources) { replies_.Reserve(resources); }
  void ResizeReplies() { replies_.Resize(qp_.attributes.max_dest_read_atomic); }
  std::optional<EventType> failure_event() const { return failure_event_; }

 private:
  friend class RelayedRequests;

  // The result of the checks of a request with the expected PSN.
  struct Verdict {
    enum class Action : uint8_t { kExecute, kRnrNak, kNak } action = Action::kExecute;
    NakCode nak = NakCode::kInvalidRequest;
    // How the receive request that the message has taken completes; if it has taken none, `event`
    // is raised (IBA 11.6.3.2 QP_ACCESS_ERR, 11.6.3.2 QP_REQ_ERR).
    CompletionStatus receive_status = CompletionStatus::kRemoteInvalidRequest;
    VendorError cause = VendorError::kPeerBrokeRule;
    EventType event = EventType::kQpAccessError;
    DropReason reason = DropReason::kRefused;
    // kExecute: where the payload of a WRITE or ATOMIC WRITE goes, or that of a SEND if its receive
    // request is one piece.
    uint8_t* target = nullptr;
  };

  // responder_xrc.cc
  void ChooseQueue(Srqn srqn);

  // responder_validate.cc
  template <uint8_t kOpcode>
  bool ExecutePredicted(const PacketView& view);
  Verdict Validate(const Packet& packet) const;
  bool IsEnabled(const Packet& packet) const;
  Verdict WrongLength() const;
  bool NeedsReceive(const Opcode& opcode) const;
  Verdict CheckRead(const Packet& packet) const;
  Verdict CheckAtomic(const Packet& packet) const;
  Verdict CheckAtomicWrite(const Packet& packet) const;
  Verdict CheckFlush(const Packet& packet) const;
  bool MayRead(const Reth& reth) const;

  // responder_steps.h
  bool IsInSequence(Opcode opcode) const;
  bool HasValidLength(Opcode opcode, size_t bytes) const;
  uint8_t* RemoteMemory(RKey rkey, uint64_t address, uint64_t length, uint32_t wanted) const;
  Verdict CheckSend(Opcode opcode, const Packet& packet) const;
  Verdict CheckWrite(Opcode opcode, const Packet& packet) const;
  // Copies the payload of a WRITE, the last byte after the others. False if the memory has gone.
  static bool PlaceInOrder(uint8_t* to, std::span<const uint8_t> bytes);
  // `target` is Verdict::target, as in Execute.
  bool ExecuteSend(Opcode opcode, const Packet& packet, uint8_t* target);
  bool ExecuteWrite(Opcode opcode, const Packet& packet, uint8_t* target);
  void ExecuteMessage(Opcode opcode, const Packet& packet, uint8_t* target);
  void FinishMessage(Opcode opcode, const Packet& packet);
  void CompleteReceive(Opcode opcode, const Packet& packet);

  // responder_execute.cc
  void Execute(const Packet& packet, uint8_t* target);
  void ExecuteRead(const Packet& packet);
  void ExecuteAtomic(const Packet& packet);
  void ReplyToAtomic(Psn psn, uint64_t original);
  void ExecuteAtomicWrite(const Packet& packet, uint8_t* target);
  void ExecuteFlush(const Packet& packet);
  void ReplyWithoutData(const Packet& packet);
  void RefuseForGoneMemory(const Packet& packet);
  void AcknowledgeByReply();
  bool Invalidate(RKey rkey);
  void CountMessage() { msn_ = (msn_ + 1) & 0xff'ffff; }
  void NoteExecuted(Psn psn, bool ends_message, bool ack_request) {
    ack_psn_ = psn;
    ack_msn_ = msn_;
    if (ack_request || (ends_message && qp_.peer_is_linked)) acknowledge_ = Acknowledge::kAck;
    if (ack_request && qp_.peer_is_linked) qp_.environment.is_ack_wanted = true;
  }
  void FailReceive(CompletionStatus status, VendorError reason);
  void FailPlacement(SgeCursor::Result result);
  VendorError UseUpReceive(const Verdict& verdict);
  Completion NewCompletion() const;
  void Push(const Completion& completion, bool solicited);
  DropReason OnExpected(const Packet& packet);
  DropReason OnDuplicate(const Packet& packet);
  DropReason ReplayRead(const Packet& packet);
  DropReason ReplayAtomic(const Packet& packet);
  DropReason ReplayWithoutData(const Packet& packet);

  // responder_unreliable.cc
  DropReason DropMessage(const Verdict& verdict);
  void AbandonMessage(CompletionStatus status, VendorError reason);
  SgeCursor::Result ScatterDatagram(const Packet& packet);

  // responder_gap.cc
  DropReason OnSequenceGap(Time now, const Packet& packet);
  DropReason OnSequenceGap(Psn psn);
  bool MayHold() const;
  void NoteDropped(Psn psn);
  void OpenGap(Time since, Time now);
  void ReportGap();
  bool SendsSelectiveAcks();
  void CloseGap();
  void FollowGap(Time now, Psn filled, bool was_reported);
  void ExecuteEarlyPackets();

  // responder_reply.cc
  void Refuse(const Packet& packet, const Verdict& verdict);
  size_t BuildReadResponse(Reply& reply, const FrameRoom& out);
  size_t EmitReadResponse(const Reply& reply, Position position, const PayloadPiece& payload,
                          const FrameRoom& out) const;
  void FailRead(const Reply& reply);
  size_t BuildAtomicResponse(Reply& reply, const FrameRoom& out);
  size_t BuildAcknowledge(const FrameRoom& out);
  size_t BuildSelectiveAck(const FrameRoom& out);
  Syndrome CountNak(Acknowledge kind);
  void FailWithNak(NakCode nak);
  Syndrome AckSyndrome() const;
  uint32_t PacketsOf(uint32_t bytes) const;
};

}  // namespace uroce::transport
