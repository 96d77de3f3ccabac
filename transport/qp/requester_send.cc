#include <algorithm>
#include <array>
#include <bit>

#include "transport/limits.h"
#include "transport/qp/credits.h"
#include "transport/qp/requester.h"
#include "transport/qp/send_operations.h"
#include "transport/qp/state_table.h"

namespace uroce::transport {
namespace {

uint8_t PredictedOpcode(bool is_send, Position position) {
  switch (position) {
    case Position::kFirst:
      return is_send ? kRcSendFirst : kRcWriteFirst;
    case Position::kMiddle:
      return is_send ? kRcSendMiddle : kRcWriteMiddle;
    case Position::kLast:
      return is_send ? kRcSendLast : kRcWriteLast;
    default:
      return is_send ? kRcSendOnly : kRcWriteOnly;
  }
}

// A FrameRoom need not hold more than kMaxFrameBytes, even on a port with a larger MTU.
uint32_t MaxRawFrameBytes(const EndpointConfig& config) {
  return std::min<uint32_t>(config.max_frame_bytes(), kMaxFrameBytes);
}

static_assert(MemoryTable::kNullBytes >= kMaxFrameBytes, "a raw packet may be all zeros");

// Every packet but the last is full (IBA 9.7.3.3).
uint32_t PacketsFor(uint64_t bytes, uint32_t mtu_bytes) {
  return bytes <= mtu_bytes ? 1 : static_cast<uint32_t>((bytes + mtu_bytes - 1) / mtu_bytes);
}

}  // namespace

Requester::Requester(QpContext& qp, SendQueue queue) : RequesterState(qp, std::move(queue)) {
  ssn_limit_ = FirstSsnLimit();
  const EndpointConfig& config = qp.environment.config;
  if (!qp.is_reliable() || qp.is_xrc_target() || !config.has_wire) return;
  if (auto control = MakeCongestionControl(config.congestion, qp.qpn.value)) {
    own_flow_control_ = std::make_unique<FlowControl>(std::move(control));
  }
}

// A peer of XRC has shared receive queues only and never reports credits.
std::optional<uint32_t> Requester::FirstSsnLimit() const {
  return qp_.is_xrc() ? std::nullopt : std::optional<uint32_t>(0);
}

void Requester::Start(Psn first_psn) {
  next_psn_ = oldest_unacked_psn_ = sent_psn_ = response_due_psn_ = first_psn;
  ChooseFlowControl();
  RestoreRetries();
}

void Requester::RestoreRetries() {
  retries_left_ = qp_.attributes.retry_count;
  rnr_retries_left_ = qp_.attributes.rnr_retry;
}

void Requester::Reset() {
  queue_.Clear();
  cursor_ = queue_.front();
  Start(Psn());
  read_credits_used_ = 0;
  ssn_limit_ = FirstSsnLimit();
  last_ssn_ = retired_ssn_ = free_in_flight_ = 0;
  deadline_ = probe_at_ = paced_until_ = kNever;
  pacer_ = {};
  resend_window_ = kNoResend;
  probes_in_vain_ = 0;
  round_trip_ = {};
  waits_for_receiver_ = false;
  peer_tells_arrivals_ = false;
  nak_may_follow_ = false;
  implied_by_.reset();
  failed_ = false;
}

Route Requester::NextDatagramRoute() const {
  if (cursor_ == queue_.back() || queue_[cursor_].is_impossible) return Route::kWire;
  const SendDetails& details = *queue_[cursor_].details;
  const EndpointConfig& config = qp_.environment.config;
  // From a source address that is gone it reaches no peer, not even on this host.
  if (config.SourceOf(*details.address).IsZero()) return Route::kWire;
  return config.RouteTo(details.address->destination_gid, details.remote_qpn);
}

bool Requester::IsDrained() const { return queue_.empty() || !queue_[queue_.front()].started; }

// Whether the request at the cursor may send its next packet.
bool Requester::MaySendNext() const {
  if (waits_for_receiver_ || failed_ || qp_.completion_lost) return false;
  if (paced_until_ != kNever) [[unlikely]]
    return false;
  const SendWqe& wqe = queue_[cursor_];
  if (wqe.failed) return false;
  const bool in_the_middle = wqe.started && !(next_psn_ == wqe.first_psn);
  // IBA 10.3.1.5: in SQD a request that was started goes on.
  const bool state_permits = qp_.attributes.state == QpState::kReadyToSend ||
                             (qp_.attributes.state == QpState::kSendQueueDrain && wqe.started);
  if (!state_permits) return false;
  if (IsLocal(wqe.opcode)) return wqe.started || MayStart(wqe);

  const int32_t in_flight = next_psn_.DistanceFrom(oldest_unacked_psn_);
  // A window that has shrunk may be full of packets that asked for no response: one more asks.
  if (in_flight >= static_cast<int32_t>(window_) && IsResponseDue()) return false;
  if (in_flight != 0 && TakesReceive(wqe.opcode) && !HasCredit(wqe)) return false;
  if (!in_the_middle) return MayStart(wqe);
  return wqe.opcode != SendOpcode::kRdmaRead || HasReadCredit();
}

// Whether the peer is known to have a receive request for `wqe`, which takes one. If not, a message
// may go while nothing else is in flight (IBA 9.7.7.2.5, a limited request): of a SEND the first
// packet, which takes the receive request, and the rest when that is acknowledged.
bool Requester::HasCredit(const SendWqe& wqe) const {
  if (!ssn_limit_) return true;
  const bool first = !wqe.started || next_psn_ == wqe.first_psn;
  if (first) return !IsSsnAfter(wqe.started ? wqe.ssn : last_ssn_ + 1, *ssn_limit_);
  return !wqe.probes || !IsSend(wqe.opcode) || oldest_unacked_psn_.IsAfter(wqe.first_psn);
}

// Whether the requests before `wqe` permit its first packet to go out.
bool Requester::MayStart(const SendWqe& wqe) const {
  if (wqe.fence && read_credits_used_ != 0) return false;  // IBA 10.8.3.3
  return !HasOwnResponse(wqe.opcode) || HasReadCredit();
}

bool Requester::HasReadCredit() const {
  const uint32_t allowed = qp_.attributes.max_read_atomic;
  return allowed == 0 || read_credits_used_ < allowed;  // 0 is refused in Begin
}

// A responder sends the data of a READ as fast as it can: on a network the requester asks for it in
// pieces, and the window bounds these. They are as short as two windows in all pieces that may be
// outstanding permit. A link has no queue that could overflow, and the data is asked for at once.
uint8_t Requester::ReadPieceLog2() const {
  if (qp_.path.route() != Route::kWire) return kLongestReadPieceLog2;
  const uint32_t window = NormalWindow();
  const uint32_t longest = flow_control_ == nullptr ? window : flow_control_->longest_burst();
  const uint32_t piece = 2 * window / qp_.attributes.max_read_atomic;
  const auto log2 =
      static_cast<uint8_t>(std::bit_width(std::max(1u, std::min(piece, longest))) - 1);
  return std::clamp(log2, kShortestReadPieceLog2, kLongestReadPieceLog2);
}

// Header prediction, which holds for nearly all packets: whether the next one is of `wqe`, a SEND
// or WRITE of RC in one piece, and may be sent now, while nothing is being sent again. MaySendNext
// would permit it too: a failure or a lost completion takes RC out of RTS, and during an RNR wait
// all that is in flight is to be sent again.
bool Requester::IsPredicted(const SendWqe& wqe) const {
  const bool is_predicted = qp_.predicts_requests && wqe.is_one_piece && next_psn_ == sent_psn_ &&
                            next_psn_.IsBefore(limit_psn_);
  if (!is_predicted) return false;
  return wqe.started ? !wqe.probes : wqe.opcode == SendOpcode::kRdmaWrite || HasCredit(wqe);
}

inline bool Requester::IsOnlyPacket(const SendWqe& wqe) const {
  return !wqe.started && wqe.length <= qp_.mtu_bytes();
}

bool Requester::MaySendAtOnce() const {
  if (queue_.back() - cursor_ != 1) return false;
  const SendWqe& wqe = queue_[cursor_];
  return IsPredicted(wqe) && IsOnlyPacket(wqe);
}

// Whether the packet of `wqe` whose PSN is next_psn_ asks for an ACK. The last one of a message
// does. On a link it does only if the message has a completion, as the ACK then does not wait
// (QpContext::peer_is_linked), or if it is a retransmission.
inline bool Requester::AsksForAck(const SendWqe& wqe, bool ends_message) const {
  if (!ends_message) return (next_psn_.value() & ack_mask_) == 0;
  return !qp_.peer_is_linked || wqe.signaled || qp_.init.signal_all || next_psn_ != sent_psn_;
}

// Takes the SSNs of `wqe`, which is started and is `messages` messages to the responder.
inline void Requester::TakeSsns(SendWqe& wqe, uint32_t messages) {
  wqe.ssn = last_ssn_ += messages;
  if (TakesReceive(wqe.opcode)) return;
  free_in_flight_ += messages;
  if (ssn_limit_) *ssn_limit_ += messages;
}

// Emits the next packet of `wqe`, of which IsPredicted is true; kIsOnly: so is IsOnlyPacket. 0, and
// nothing has changed, if its data cannot be read.
template <bool kIsOnly>
size_t Requester::EmitPredicted(Time now, SendWqe& wqe, const FrameRoom& out) {
  const bool first = kIsOnly || !wqe.started;
  const uint64_t offset = first ? 0 : OffsetOf(wqe, next_psn_);
  const uint32_t length =
      kIsOnly ? wqe.length
              : static_cast<uint32_t>(std::min<uint64_t>(wqe.length - offset, qp_.mtu_bytes()));
  const uint8_t* const data = wqe.data == SendWqe::Data::kInline
                                  ? wqe.inline_bytes() + offset
                                  : qp_.environment.memory.LocalAddress(
                                        qp_.init.pd, wqe.lkey, wqe.address + offset, length, 0);
  if (data == nullptr) [[unlikely]]
    return 0;
  const bool last = kIsOnly || offset + length == wqe.length;
  const bool is_send = wqe.opcode == SendOpcode::kSend;
  const PacketHeaders headers = {.opcode = PredictedOpcode(is_send, PositionOf(first, last)),
                                 .psn = next_psn_,
                                 .solicited = wqe.solicited && last,
                                 .ack_request = AsksForAck(wqe, last)};
  const FrameBuilder& builder = qp_.path.builder();
  const PayloadPiece payload = {data, length};
  const size_t frame_bytes =
      is_send || !first
          ? builder.Emit(headers, payload, out)
          : builder.Emit(headers, Reth{wqe.remote_address, wqe.rkey, wqe.length}, payload, out);
  if (frame_bytes == 0) [[unlikely]]
    return 0;
  if (first) {
    wqe.Start(next_psn_, kIsOnly ? 1 : PacketsFor(wqe.length, qp_.mtu_bytes()));
    TakeSsns(wqe, 1);
  }
  const bool wants_response = headers.ack_request || (last && qp_.peer_is_linked);
  if (wants_response) AwaitResponse(now, 1, /*is_repeated=*/false);
  sent_psn_ = ++next_psn_;
  if (last) ++cursor_;
  if (!wants_response) return frame_bytes;
  response_due_psn_ = next_psn_;
  StartTimers(now);
  return frame_bytes;
}

size_t Requester::BuildAtOnce(Time now, const FrameRoom& out) {
  return EmitPredicted<true>(now, queue_[cursor_], out);
}

size_t Requester::BuildFrame(Time now, const FrameRoom& out) {
  if (owes_repair_) [[unlikely]] {
    if (const size_t frame_bytes = BuildRepair(now, out)) return frame_bytes;
  }
  while (cursor_ != queue_.back()) {
    SendWqe& wqe = queue_[cursor_];
    if (IsPredicted(wqe)) [[likely]] {
      const size_t frame_bytes = IsOnlyPacket(wqe) ? EmitPredicted<true>(now, wqe, out)
                                                   : EmitPredicted<false>(now, wqe, out);
      if (frame_bytes != 0) [[likely]]
        return frame_bytes;
    }
    if (!MaySendNext()) return 0;
    if (flow_control_ != nullptr && !next_psn_.IsBefore(permit_end_) && !IsLocal(wqe.opcode)) {
      if (!TakePermit(now)) return 0;
      continue;
    }
    if (!wqe.started && !Begin(wqe)) continue;
    if (IsLocal(wqe.opcode)) {
      ++cursor_;
      RetireLocal();
      continue;
    }
    const size_t frame_bytes = qp_.is_raw() ? EmitRaw(now, wqe, out) : EmitRequest(now, wqe, out);
    if (frame_bytes != 0) return frame_bytes;
  }
  return 0;
}

// The packet with next_psn_ asks for `psns` responses.
inline void Requester::AwaitResponse(Time now, uint32_t psns, bool is_repeated) {
  if (!is_repeated) round_trip_.OnSent(next_psn_, now);
  if (flow_control_ == nullptr) return;
  const Psn end = queue_[cursor_].end_psn();
  const bool is_end = cursor_ + 1 == queue_.back() && end.IsBefore(next_psn_ + kAckRequestInterval);
  const bool is_limited = is_end || window_ < flow_control_->window();
  flow_control_->OnSent(now, next_psn_, psns, is_limited, is_repeated);
}

// Whether packets may leave now; if not, paced_until_ is set.
bool Requester::TakePermit(Time now) {
  const auto sent = static_cast<uint32_t>(next_psn_.DistanceFrom(permit_begin_));
  permit_begin_ = next_psn_;
  const uint32_t packets = flow_control_->TakePermit(now, sent);
  if (packets == 0) {
    paced_until_ = flow_control_->next_send();
    return false;
  }
  permit_end_ = next_psn_ + packets;
  UpdateWindow();
  return true;
}

// Gives the request its PSNs, or carries it out if it is a local one. False if it failed.
bool Requester::Begin(SendWqe& wqe) {
  if (wqe.is_impossible) {
    MarkFailed(wqe, CompletionStatus::kLocalQpOperationError, VendorError::kImpossibleRequest);
    return false;
  }
  if (IsLocal(wqe.opcode)) {
    CarryOutLocally(wqe);
    wqe.started = true;
    wqe.first_psn = next_psn_;
    return !wqe.failed;
  }
  if (qp_.peer_gone) {
    ++qp_.environment.lost_peers;
    MarkFailed(wqe, CompletionStatus::kRetryExceeded, VendorError::kPeerGone);
    return false;
  }
  const bool is_too_long = (qp_.is_datagram() && wqe.length > qp_.mtu_bytes()) ||  // IBA C10-93.1.1
                           (qp_.is_raw() && wqe.length > MaxRawFrameBytes(qp_.environment.config));
  if (is_too_long) {
    MarkFailed(wqe, CompletionStatus::kLocalLengthError, VendorError::kDatagramTooLong);
    return false;
  }
  if (HasOwnResponse(wqe.opcode)) {
    if (qp_.attributes.max_read_atomic == 0) {
      MarkFailed(wqe, CompletionStatus::kLocalQpOperationError, VendorError::kNoReadCredits);
      return false;
    }
  }
  const bool is_one_packet = IsAtomic(wqe.opcode) || qp_.is_raw();
  const uint32_t psns = is_one_packet ? 1 : PacketsFor(wqe.length, qp_.mtu_bytes());
  wqe.Start(next_psn_, psns);
  if (wqe.opcode == SendOpcode::kRdmaRead) wqe.SplitRead(ReadPieceLog2());
  TakeSsns(wqe, wqe.message_count());
  return true;
}

void Requester::CarryOutLocally(SendWqe& wqe) {
  MemoryTable& memory = qp_.environment.memory;
  if (wqe.opcode == SendOpcode::kLocalInvalidate) {
    if (memory.InvalidateWindow(qp_.init.pd, qp_.qpn, wqe.details->invalidate_rkey) !=
        Status::kOk) {
      MarkFailed(wqe, CompletionStatus::kMemoryManagementError, VendorError::kInvalidateKey);
    }
    return;
  }
  const WindowBinding& window = wqe.details->window;
  const MemoryTable::Binding binding = {window.region, window.address, window.length,
                                        window.access};
  if (memory.BindWindow(qp_.init.pd, qp_.qpn, window.present_rkey, wqe.rkey, binding) !=
      Status::kOk) {
    MarkFailed(wqe, CompletionStatus::kMemoryManagementError, VendorError::kWindowBind);
  }
}

size_t Requester::EmitRequest(Time now, SendWqe& wqe, const FrameRoom& out) {
  const Built built = BuildRequest(now, wqe, 0, out);
  if (built.frame_bytes != 0) Sent(now, wqe, built.psns, built.wants_response);
  return built.frame_bytes;
}

// Builds the packet of `wqe` whose PSN is next_psn_. `repaired_psns`: it is sent again alone, a
// READ for so many PSNs at most; otherwise 0.
Requester::Built Requester::BuildRequest(Time now, SendWqe& wqe, uint32_t repaired_psns,
                                         const FrameRoom& out) {
  TransportHeaders headers = qp_.Headers(RowOf(wqe.opcode).operation);
  headers.psn = next_psn_;
  headers.xrceth = {wqe.details->remote_srqn};

  std::array<PayloadPiece, kMaxSges> pieces;
  size_t piece_count = 0;
  uint32_t psns = 1;
  switch (headers.opcode.operation) {
    case Operation::kReadRequest:
      psns = FillRead(wqe, repaired_psns != 0 ? repaired_psns : wqe.read_piece(), headers);
      break;
    case Operation::kCompareAndSwap:
      headers.atomic = {wqe.remote_address, wqe.rkey, wqe.details->swap,
                        wqe.details->compare_or_add};
      break;
    case Operation::kFetchAndAdd:
      headers.atomic = {wqe.remote_address, wqe.rkey, wqe.details->compare_or_add, 0};
      break;
    case Operation::kFlush:
      headers.feth = {wqe.details->placement, wqe.details->selectivity};
      headers.reth = {wqe.remote_address, wqe.rkey, wqe.details->flush_length};
      break;
    default:
      piece_count = FillData(wqe, repaired_psns != 0, headers, pieces);
      if (piece_count == kUnreadable) {
        MarkFailed(wqe, CompletionStatus::kLocalProtectionError, VendorError::kLocalKeyInvalid);
        return {};
      }
  }
  const auto payload = std::span(pieces).first(piece_count);
  const size_t frame_bytes = qp_.is_datagram()
                                 ? FillDatagram(wqe, headers).builder().Emit(headers, payload, out)
                                 : qp_.path.builder().Emit(headers, payload, out);
  if (frame_bytes == 0) {
    FailForGoneMemory(wqe);
    return {};
  }
  Pace(now, wqe, frame_bytes);
  const bool is_acked_anyhow = qp_.peer_is_linked && headers.opcode.EndsMessage();
  return {frame_bytes, psns, headers.ack_request || is_acked_anyhow || HasOwnResponse(wqe.opcode)};
}

// A frame that the application has built.
size_t Requester::EmitRaw(Time now, SendWqe& wqe, const FrameRoom& out) {
  std::array<PayloadPiece, kMaxSges> pieces;
  const size_t piece_count = Gather(wqe, 0, wqe.length, pieces);
  if (piece_count == kUnreadable) {
    MarkFailed(wqe, CompletionStatus::kLocalProtectionError, VendorError::kLocalKeyInvalid);
    return 0;
  }
  const size_t frame_bytes = EmitRawFrame(std::span(pieces).first(piece_count), out);
  if (frame_bytes == 0) return FailForGoneMemory(wqe);
  Pace(now, wqe, frame_bytes);
  Sent(now, wqe, 1, /*wants_response=*/false);
  return frame_bytes;
}

size_t Requester::FailForGoneMemory(SendWqe& wqe) {
  ++qp_.counters.memory_gone;
  MarkFailed(wqe, CompletionStatus::kLocalProtectionError, VendorError::kMemoryGone);
  return 0;
}

// One frame may leave too early by this; the frames after it wait as the new rate demands.
void Requester::FollowRate() {
  const AddressVector& address = qp_.attributes.address;
  pacer_.ChangeRate(PacedKbps(address, qp_.attributes.rate_limit) != 0);
  paced_until_ = kNever;
}

// A frame of `wqe` was built: sets the time of the next one.
void Requester::Pace(Time now, const SendWqe& wqe, size_t frame_bytes) {
  const AddressVector& address = qp_.is_datagram() ? *wqe.details->address : qp_.attributes.address;
  const RateLimit& limit = qp_.attributes.rate_limit;
  const uint32_t kbps = PacedKbps(address, limit);
  if (kbps == 0) return;
  pacer_.OnSent(now, frame_bytes, kbps, limit.burst_bytes);
  if (pacer_.NextSend() > now) paced_until_ = pacer_.NextSend();
}

// Fills in the headers of a datagram. Returns its path.
Path Requester::FillDatagram(const SendWqe& wqe, TransportHeaders& headers) const {
  constexpr uint32_t kUseOwnQkey = 0x8000'0000;  // IBA 10.2.5
  const SendDetails& details = *wqe.details;
  const bool own = (details.remote_qkey & kUseOwnQkey) != 0;
  headers.deth = {own ? qp_.attributes.qkey : details.remote_qkey, qp_.qpn};
  headers.destination_qpn = details.remote_qpn;
  const EndpointConfig& config = qp_.environment.config;
  const AddressVector& address = *details.address;
  return {config, config.SourceOf(address), address, qp_.qpn, details.remote_qpn};
}

// Fills in a packet of a SEND, WRITE or ATOMIC WRITE. Returns the number of pieces of its payload;
// kUnreadable if their memory may not be read.
size_t Requester::FillData(SendWqe& wqe, bool is_repair, TransportHeaders& headers, Pieces pieces) {
  const uint64_t offset = wqe.psn_count == 1 ? 0 : OffsetOf(wqe, next_psn_);
  const size_t length = std::min<uint64_t>(wqe.length - offset, qp_.mtu_bytes());
  const bool first = offset == 0;
  const bool last = offset + length == wqe.length;

  headers.opcode.position = PositionOf(first, last);
  if (last) {
    headers.opcode.suffix = RowOf(wqe.opcode).suffix;
    headers.immediate = wqe.details->immediate;
    headers.invalidate_rkey = wqe.details->invalidate_rkey;
    headers.solicited = wqe.solicited;
  }
  if (first && !is_repair) wqe.probes = TakesReceive(wqe.opcode) && !HasCredit(wqe);
  const int32_t beyond =
      next_psn_.DistanceFrom(oldest_unacked_psn_) - static_cast<int32_t>(window_);
  const bool ends_window = beyond >= 0 || (beyond == -1 && is_resending());
  const bool asks = AsksForAck(wqe, last) || (first && wqe.probes) || ends_window || is_repair;
  headers.ack_request = qp_.is_reliable() && asks;
  if (first && !IsSend(wqe.opcode)) headers.reth = {wqe.remote_address, wqe.rkey, wqe.length};
  return Gather(wqe, offset, length, pieces);
}

size_t Requester::Gather(SendWqe& wqe, uint64_t offset, size_t length, Pieces pieces) const {
  if (wqe.data == SendWqe::Data::kInline) {
    pieces[0] = {wqe.inline_bytes() + offset, length};
    return 1;
  }
  return wqe.UseData([&](SgeCursor& cursor) {
    const auto count = cursor.Gather(qp_.environment.memory, qp_.init.pd, offset, length, pieces);
    return count ? *count : kUnreadable;
  });
}

// Fills in a READ request for the next piece of the missing data; a READ that lost a response goes
// on where it stopped (IBA 9.4.4). Returns how many PSNs its responses take (IBA 9.7.3.1).
uint32_t Requester::FillRead(const SendWqe& wqe, uint32_t most_psns,
                             TransportHeaders& headers) const {
  const uint64_t offset = OffsetOf(wqe, next_psn_);
  const uint64_t piece = uint64_t{wqe.read_piece()} * qp_.mtu_bytes();
  const uint64_t most = std::min(piece - offset % piece, uint64_t{most_psns} * qp_.mtu_bytes());
  const uint64_t length = std::min(wqe.length - offset, most);
  headers.reth = {wqe.remote_address + offset, wqe.rkey, static_cast<uint32_t>(length)};
  return PacketsFor(length, qp_.mtu_bytes());
}

// A packet was built that takes `psns` PSNs from next_psn_ on.
void Requester::Sent(Time now, SendWqe& wqe, uint32_t psns, bool wants_response) {
  const bool is_new = !next_psn_.IsBefore(sent_psn_);
  if (!is_new) {
    ++qp_.counters.retransmitted_packets;
    const Psn end = next_psn_ + psns;
    const bool is_later = end.IsAfter(sent_twice_end_) || sent_twice_end_.IsAfter(sent_psn_);
    if (is_later) sent_twice_end_ = end;
  }
  if (wants_response) AwaitResponse(now, psns, !is_new);
  if (HasOwnResponse(wqe.opcode)) ++read_credits_used_;
  next_psn_ = next_psn_ + psns;
  if (next_psn_.IsAfter(sent_psn_)) sent_psn_ = next_psn_;
  const bool ends = next_psn_ == wqe.end_psn();
  if (ends) ++cursor_;
  if (!qp_.is_reliable()) {  // IBA 9.8.2
    oldest_unacked_psn_ = response_due_psn_ = next_psn_;
    if (ends) RetireFront();
    return;
  }
  if (!wants_response) return;
  if (next_psn_.IsAfter(response_due_psn_)) response_due_psn_ = next_psn_;
  StartTimers(now);
}

// A request that cannot be carried out stops the queue; those before it still complete normally.
void Requester::MarkFailed(SendWqe& wqe, CompletionStatus status, VendorError reason) {
  wqe.failed = true;
  wqe.is_one_piece = false;
  wqe.details->failure = status;
  wqe.details->failure_reason = reason;
  if (cursor_ == queue_.front()) FailFront(status, reason);
}

}  // namespace uroce::transport
