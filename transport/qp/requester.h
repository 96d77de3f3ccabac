#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "transport/completion.h"
#include "transport/counters.h"
#include "transport/psn.h"
#include "transport/qp/environment.h"
#include "transport/qp/requester_state.h"
#include "transport/qp/send_queue.h"
#include "transport/status.h"
#include "transport/time.h"
#include "transport/wire/frame_room.h"
#include "transport/wire/packet.h"
#include "transport/wire/packet_view.h"

namespace uroce::transport {

// The sending half of a queue pair: turns send work requests into request packets, takes the
// responses, retransmits, and completes the work requests in order.
//
// On an unreliable service a packet counts as answered once it is sent, and that is all the
// difference: nothing is ever outstanding, no timer runs, no response comes.
//
// Retransmission is go-back-N, and selective on a network (Scoreboard). No packet is stored: its
// contents follow from its PSN and its work request, so going back is moving a cursor.
//
//        front            cursor                      back
//   -------|----------------|---------------------------|----->  work requests
//          | sent, waiting  | being sent | not started  |
//
//      oldest_unacked      next                sent              limit
//   -------|----------------|-------------------|------------------|------------->  PSNs
//          | on the wire    | to be sent again  | never used       | not yet
//
// requester_state.h: the fields. requester_send.cc: request packets. requester_response.cc:
// responses. requester_retry.cc: losses. requester_recovery.cc: losses on a network.
class Requester : private RequesterState {
 public:
  // `queue` is empty.
  Requester(QpContext& qp, SendQueue queue);
  // Hands out the queue, to be freed elsewhere; the requester cannot be used any more.
  SendQueue TakeQueue() { return std::move(queue_); }

  Status Post(const SendWorkRequest& request) { return queue_.Post(request); }
  Status PostPlain(const PlainSendRequest& request) { return queue_.PostPlain(request); }
  Status PostAll(std::span<const SendWorkRequest> requests) { return queue_.PostAll(requests); }

  // RTR -> RTS: the first request packet will carry `first_psn`.
  void Start(Psn first_psn);
  // retry_cnt or rnr_retry changed, or there was progress: all retries are left again.
  void RestoreRetries();
  // `timeout` changed: if a response is awaited, the ACK timer starts anew with the new value.
  void RestartTimer();
  // The path changed: outstanding requests have all retries again, and the timeout of the new path.
  void FollowPath() {
    ChooseFlowControl();
    RestoreRetries();
    RestartTimer();
  }
  void FollowRate();                   // ends the wait that the former rate demanded
  void Recover() { failed_ = false; }  // SQE -> RTS
  void Reset();                        // posted requests vanish without completion
  void OnPeerGone();                   // the oldest request fails if it waits for a response
  // Completes every request as flushed, oldest first, with vendor error `why`.
  void Flush(VendorError why);

  // Whether packets are to be sent, and whether the next one may be sent now.
  bool has_unsent() const { return cursor_ != queue_.back() || owes_repair_; }
  bool CanTransmit() const { return MayRepairNow() || (has_unsent() && MaySendNext()); }
  // Builds the next request packet; 0 if there is none to be sent now.
  size_t BuildFrame(Time now, const FrameRoom& out);
  // Whether the request that was just posted is the only unsent one and a packet that is predicted,
  // and that packet then. 0, and nothing has changed, if its data cannot be read: BuildFrame then
  // completes the request in error.
  bool MaySendAtOnce() const;
  size_t BuildAtOnce(Time now, const FrameRoom& out);

  DropReason OnResponse(Time now, const Packet& packet);  // also a NAK

  void OnDeadline(Time now);  // ACK timeout, RNR wait (IBA o9-85), the probe's or the pacer's
  Time deadline() const {
    return std::min(std::min(deadline_, probe_at_), std::min(paced_until_, repair_at_));
  }

  // The route of the next packet, if there is one; each datagram has its own.
  Route NextRoute() const { return qp_.is_datagram() ? NextDatagramRoute() : qp_.path.route(); }
  // A request completed in error: the queue pair has to go to ERR; to SQE if it is unreliable.
  bool failed() const { return failed_; }
  bool IsDrained() const;  // every request that was started has completed

 private:
  // requester_send.cc
  std::optional<uint32_t> FirstSsnLimit() const;
  bool MaySendNext() const;
  Route NextDatagramRoute() const;
  bool TakePermit(Time now);
  void AwaitResponse(Time now, uint32_t psns, bool is_repeated);
  bool MayStart(const SendWqe& wqe) const;
  bool HasReadCredit() const;
  uint8_t ReadPieceLog2() const;
  bool HasCredit(const SendWqe& wqe) const;
  bool Begin(SendWqe& wqe);
  void CarryOutLocally(SendWqe& wqe);
  bool IsPredicted(const SendWqe& wqe) const;
  bool IsOnlyPacket(const SendWqe& wqe) const;
  template <bool kIsOnly>
  size_t EmitPredicted(Time now, SendWqe& wqe, const FrameRoom& out);
  bool AsksForAck(const SendWqe& wqe, bool ends_message) const;
  void TakeSsns(SendWqe& wqe, uint32_t messages);
  struct Built {
    size_t frame_bytes = 0;  // of a packet that was built; 0: its request has failed
    uint32_t psns = 1;
    bool wants_response = true;
  };
  size_t EmitRequest(Time now, SendWqe& wqe, const FrameRoom& out);
  Built BuildRequest(Time now, SendWqe& wqe, uint32_t repaired_psns, const FrameRoom& out);
  size_t EmitRaw(Time now, SendWqe& wqe, const FrameRoom& out);
  size_t FailForGoneMemory(SendWqe& wqe);
  Path FillDatagram(const SendWqe& wqe, TransportHeaders& headers) const;
  // In place of a number of pieces. No std::optional: it is stored and loaded in parts of different
  // sizes, and the processor stalls on that in every packet.
  static constexpr size_t kUnreadable = SIZE_MAX;
  using Pieces = std::span<PayloadPiece, kMaxSges>;
  size_t FillData(SendWqe& wqe, bool is_repair, TransportHeaders& headers, Pieces pieces);
  uint32_t FillRead(const SendWqe& wqe, uint32_t most_psns, TransportHeaders& headers) const;
  size_t Gather(SendWqe& wqe, uint64_t offset, size_t length, Pieces pieces) const;
  void Sent(Time now, SendWqe& wqe, uint32_t psns, bool wants_response);
  void Pace(Time now, const SendWqe& wqe, size_t frame_bytes);
  // A response is awaited, from now on or still. probe_at_ is not moved to a later time: checking
  // again when it is due costs less than a store a packet.
  void StartTimers(Time now) {
    if (deadline_ == kNever) ArmAckTimer(now);
    if (!qp_.environment.config.probes) return;
    last_news_ = now;
    probe_at_ = std::min(probe_at_, now + round_trip_.LongestSilence());
  }
  void MarkFailed(SendWqe& wqe, CompletionStatus status, VendorError reason);

  // requester_response.cc
  DropReason OnNak(Time now, const Packet& packet);
  DropReason OnReadResponse(Time now, const Packet& packet);
  DropReason OnAtomicResponse(Time now, const Packet& packet);
  bool IsNextResponse(const SendWqe& wqe, Psn psn, size_t bytes, bool ends) const;
  bool PlaceEarly(SendWqe& wqe, const Packet& packet);
  void TakeResponse(Time now, SendWqe& wqe, Psn psn);
  SgeCursor::Result Place(SendWqe& wqe, uint64_t offset, std::span<const uint8_t> bytes);
  bool PlaceResponse(SendWqe& wqe, uint64_t offset, std::span<const uint8_t> bytes);
  Psn RetirePlain(Psn limit);
  bool AcknowledgeUpTo(Time now, Psn limit);
  bool IsAwaited(Psn psn) const;
  bool UpdateCredits(const Aeth& aeth);
  void Progress(Time now, Psn oldest_unacked);
  void TellFlowControl(Time now, Psn oldest_unacked);
  void TellFlowControl(Time now, Psn oldest_unacked, Psn end, uint32_t packets);
  DropReason OnWrongResponse();
  void RetireFront();
  void CompleteDone(const SendWqe& wqe);
  void PopDone();
  void RetireLocal();
  void Complete(const SendWqe& wqe, CompletionStatus status, VendorError reason);
  void FailFront(CompletionStatus status, VendorError reason);
  void ReleaseReadCredit(Psn psn);
  // Of the packet with this PSN in the message of `wqe`.
  uint64_t OffsetOf(const SendWqe& wqe, Psn psn) const {
    return uint64_t{wqe.IndexOf(psn)} * qp_.mtu_bytes();
  }

  // requester_retry.cc
  bool is_resending() const { return resend_window_ != kNoResend; }
  bool IsResponseDue() const { return oldest_unacked_psn_.IsBefore(response_due_psn_); }
  void NoteSentAgain();
  uint32_t NormalWindow() const;
  void ChooseFlowControl();
  void UpdateWindow();
  void OnRnrNak(Time now, uint8_t timer_code);
  void OnReceiverReady();
  void OnSequenceNak(Time now);
  DropReason OnLostResponse(Time now, Psn implied_by, Psn executed_end);
  void OnAckTimeout(Time now, Time due);
  void OnSilence(Time now);
  bool TakeRetry(VendorError reason);
  void SendFlightAgain(Time now);
  void SendOldestAgain(Time now);
  void OpenResendWindow(uint32_t acknowledged);
  void ContinueAfterFlight();
  void GoBack();
  uint32_t FindOldest() const;
  uint32_t PacketsInFlight() const;
  uint32_t CountReadCredits();
  uint32_t ReadCreditsInFlight(const SendWqe& wqe) const;
  void ArmAckTimer(Time now);

  // requester_recovery.cc
  bool MayRepairNow() const {
    return owes_repair_ && !waits_for_receiver_ && !failed_ && paced_until_ == kNever;
  }
  bool is_selective() const { return scoreboard_ != nullptr && scoreboard_->is_open(); }
  Scoreboard* UseScoreboard();
  void ForgetArrivals();
  DropReason OnSelectiveAck(Time now, const Packet& packet);
  DropReason OnEarlyResponse(Time now, const Packet& packet);
  void FreeCreditOfPiece(const SendWqe& wqe, Psn psn);
  void NoteExecuted(Time now, Psn end);
  bool TakeArrived(const SendWqe& wqe, Psn& reached);
  void FollowArrivals(Time now);
  bool RepairOldest(Time now);
  bool RepairAfterNak(Time now, bool is_counted);
  uint32_t RepairedPsns(const SendWqe& wqe, Psn psn) const;
  size_t BuildRepair(Time now, const FrameRoom& out);
  uint32_t FindRequest(Psn psn) const;
};

}  // namespace uroce::transport
