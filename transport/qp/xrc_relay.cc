#include "transport/qp/xrc_relay.h"

#include <algorithm>
#include <utility>

#include "transport/limits.h"
#include "transport/qp/xrc_frames.h"

namespace uroce::transport {
namespace {

using Kind = XrcRelay::Kind;

bool HasOwnResponse(Kind kind) { return kind != Kind::kLocal && kind != Kind::kData; }

// The PSNs of consecutive streams are far apart: an answer that belongs to the last stream, and is
// still under way, is none of the next.
Psn FirstPsn(uint64_t epoch) {
  constexpr uint64_t kDistance = 0x9e'3779;  // the golden section of all PSNs
  return Psn(static_cast<uint32_t>(epoch * kDistance));
}

}  // namespace

XrcRelay::XrcRelay(QpContext& qp)
    : qp_(qp),
      requests_(MakeZeroedArray<Request>(kCapacity)),
      data_(MakeZeroedArray<uint8_t>(kCapacity * kMaxPayloadBytes)),
      epoch_(qp.environment.next_xrc_epoch++),
      builder_(XrcRelayBuilder(qp.environment.config, qp.qpn)) {}

XrcRelay::~XrcRelay() { Reset(); }

bool XrcRelay::IsForeign(Srqn srqn) const {
  const Qpn number{srqn.value};  // in the block of QPNs of its process
  return srqn.value >= kMaxQps && !qp_.environment.config.OwnsQpn(number);
}

bool XrcRelay::Push(const Packet& packet, Kind kind) {
  if (!HasRoom()) {
    has_overflowed_ = true;
    return false;
  }
  next_psn_ = packet.psn + 1;
  uint8_t* const data = DataOf(back_);
  Request& request = Append(packet, kind, /*is_replay=*/false);
  request.length = static_cast<uint32_t>(std::min(packet.payload.size(), kMaxPayloadBytes));
  std::copy_n(packet.payload.data(), request.length, data);
  NoteWhetherPeerWaits();
  Schedule();
  return true;
}

bool XrcRelay::PushRead(const Packet& packet, uint32_t packets) {
  if (!HasRoom()) {
    has_overflowed_ = true;
    return false;
  }
  next_psn_ = packet.psn + packets;
  read_ = {.headers = packet, .packets = packets, .left = packets, .is_replay = false};
  AppendParts();
  NoteWhetherPeerWaits();
  Schedule();
  return true;
}

bool XrcRelay::PushReplay(const Packet& packet, uint32_t packets, Psn expected) {
  if (replays_ != 0 || !HasRoom()) {
    SendAgain();
    return false;
  }
  if (empty()) next_psn_ = expected;
  read_ = {.headers = packet, .packets = packets, .left = packets, .is_replay = true};
  AppendParts();
  NoteWhetherPeerWaits();
  Schedule();
  return true;
}

XrcRelay::Request& XrcRelay::Append(const TransportHeaders& headers, Kind kind, bool is_replay) {
  Request& request = At(back_++);
  request = {};
  request.headers = headers;
  request.kind = kind;
  request.is_replay = is_replay;
  if (is_replay) ++replays_;
  return request;
}

// Appends as many parts of a READ as there is room for.
void XrcRelay::AppendParts() {
  for (; read_.left != 0 && back_ - front_ != kCapacity; --read_.left) {
    const uint32_t index = read_.packets - read_.left;
    const uint32_t offset = index * qp_.mtu_bytes();
    Request& part = Append(read_.headers, Kind::kRead, read_.is_replay);
    Reth& reth = part.headers.reth;
    part.headers.psn = read_.headers.psn + index;
    part.position = PositionOf(index == 0, read_.left == 1);
    part.length = std::min(reth.dma_length - offset, qp_.mtu_bytes());
    reth.virtual_address += offset;
    reth.dma_length = part.length;
  }
}

bool XrcRelay::IsLocalNext() const {
  return front_ == next_ && next_ != back_ && At(next_).kind == Kind::kLocal;
}

Packet XrcRelay::FrontPacket() const {
  Packet packet;
  static_cast<TransportHeaders&>(packet) = front().headers;
  packet.payload = {&data_[(front_ & kMask) * kMaxPayloadBytes], front().length};
  return packet;
}

void XrcRelay::PopFront() {
  if (front_ == waiting_) ++waiting_, ++next_;  // executed by this process
  if (front().is_replay) --replays_;
  ++front_;
  is_read_taken_ = false;
  AppendParts();
  NoteWhetherPeerWaits();
  Schedule();
}

XrcRelay::Stream& XrcRelay::StreamTo(Route route) {
  const auto found = std::find_if(streams_.begin(), streams_.end(),
                                  [route](const Stream& stream) { return stream.route == route; });
  if (found != streams_.end()) return *found;
  return streams_.emplace_back(Stream{.route = route, .next_psn = FirstPsn(epoch_)});
}

bool XrcRelay::MaySend() const {
  if (next_ == back_ || is_refused_) return false;
  const Request& request = At(next_);
  if (request.kind == Kind::kLocal) return false;
  if (HasOwnResponse(request.kind) && unanswered_responses_ == kMaxUnansweredResponses) {
    return false;
  }
  return front_ == next_ || RouteOf(request) == route_;
}

// Takes part in the transmit schedule while something may be sent.
void XrcRelay::Schedule() {
  if (!MaySend()) return;
  const Route route = RouteOf(At(next_));
  const Stream& stream = StreamTo(route);
  if (stream.is_gone) {
    if (front_ == next_) RefuseNext(Refusal::kNak, NakCode::kInvalidRequest);
    return;
  }
  if (route != route_) LeaveSchedule();
  if (!stream.has_begun && route != route_) is_beginning_sent_ = false;
  route_ = route;
  qp_.environment.transmits.Add(route_, *this);
}

void XrcRelay::LeaveSchedule() { qp_.environment.transmits.Remove(route_, *this); }

size_t XrcRelay::BuildFrame(Time /*now*/, const FrameRoom& out) {
  if (!MaySend()) {
    LeaveSchedule();
    return 0;
  }
  Stream& stream = StreamTo(route_);
  const bool begins = !stream.has_begun && !is_beginning_sent_;
  const size_t frame_bytes = begins ? EmitBeginning(stream, out) : EmitRequest(stream, out);
  if (!MaySend()) LeaveSchedule();
  ++qp_.counters.transmitted_packets;
  qp_.counters.transmitted_bytes += frame_bytes;
  return frame_bytes;
}

size_t XrcRelay::EmitBeginning(const Stream& stream, const FrameRoom& out) {
  is_beginning_sent_ = true;
  const XrcStreamChange change = {.key = qp_.init.xrc_key,
                                  .epoch = epoch_,
                                  .gid = qp_.environment.config.gids[0],
                                  .target = qp_.qpn,
                                  .begins = 1,
                                  .mtu = static_cast<uint32_t>(qp_.attributes.path_mtu)};
  return EmitXrcStreamChange(builder_, change, stream.next_psn, route_, out);
}

size_t XrcRelay::EmitRequest(Stream& stream, const FrameRoom& out) {
  Request& request = At(next_);
  TransportHeaders headers = request.headers;
  headers.destination_qpn = {BlockOf(route_) * kMaxQps};
  headers.psn = request.stream_psn = stream.next_psn;
  headers.migration_request = true;
  headers.pkey = kDefaultPkey;
  // The peer may ask for no ACK before its message ends, and the message may be longer than we have
  // room for.
  if (next_ % kAckRequestInterval == 0) headers.ack_request = true;
  const bool has_data = request.kind != Kind::kRead && request.length != 0;
  const PayloadPiece payload = {DataOf(next_), request.length};
  if (HasOwnResponse(request.kind)) ++unanswered_responses_;
  ++stream.next_psn;
  ++next_;
  return builder_.Emit(headers, {&payload, has_data ? 1u : 0u}, out);
}

// The requests before `stream_psn` are executed. False if the answer of one of them was lost.
bool XrcRelay::AnswerBefore(Psn stream_psn) {
  while (waiting_ != next_ && At(waiting_).stream_psn.IsBefore(stream_psn)) {
    if (HasOwnResponse(At(waiting_).kind)) {
      SendAgain();
      return false;
    }
    ++waiting_;
  }
  return true;
}

// Whether this is the PSN of the oldest request that is not answered.
bool XrcRelay::IsOldest(Psn stream_psn) const {
  return waiting_ != next_ && At(waiting_).stream_psn == stream_psn;
}

XrcRelay::News XrcRelay::OnResponse(const Packet& packet) {
  if (packet.from != route_ || !IsLink(packet.from)) return News::kForeign;
  Stream& stream = StreamTo(route_);
  const Psn oldest = waiting_ == next_ ? stream.next_psn : At(waiting_).stream_psn;
  const bool is_current = packet.psn.IsBefore(stream.next_psn) && !packet.psn.IsBefore(oldest - 1);
  if (!is_current) return News::kNone;
  stream.has_begun = true;
  const uint32_t before = waiting_;
  const Syndrome syndrome = packet.aeth.syndrome;
  if (packet.opcode.operation != Operation::kAcknowledge) {
    Take(packet);
  } else if (syndrome.kind() == Syndrome::Kind::kAck) {
    (void)AnswerBefore(packet.psn + 1);
    if (waiting_ == before && std::exchange(awaits_readiness_, false)) return News::kReady;
  } else if (AnswerBefore(packet.psn) && IsOldest(packet.psn)) {
    if (syndrome.kind() == Syndrome::Kind::kRnrNak) {
      RefuseNext(Refusal::kReceiverNotReady, {});
    } else if (syndrome.nak_code() == NakCode::kPsnSequenceError) {
      SendAgain();
    } else {
      RefuseNext(Refusal::kNak, syndrome.nak_code());
    }
  }
  if (waiting_ == before) return News::kNone;
  Schedule();
  return News::kAnswers;
}

// A response that answers one request and, by its PSN, those before.
void XrcRelay::Take(const Packet& packet) {
  if (!AnswerBefore(packet.psn) || !IsOldest(packet.psn)) return;
  Request& request = At(waiting_);
  const bool is_atomic = request.kind == Kind::kAtomic;
  const uint32_t data_bytes = request.kind == Kind::kRead ? request.length : 0;
  const bool fits = HasOwnResponse(request.kind) && packet.payload.size() == data_bytes &&
                    is_atomic == (packet.opcode.operation == Operation::kAtomicAcknowledge);
  if (!fits) return;
  std::copy(packet.payload.begin(), packet.payload.end(), DataOf(waiting_));
  request.result = packet.atomic_original;
  --unanswered_responses_;
  ++waiting_;
}

void XrcRelay::SendAgain() {
  if (waiting_ == next_) return;
  StreamTo(route_).next_psn = At(waiting_).stream_psn;
  next_ = waiting_;
  unanswered_responses_ = 0;
  is_beginning_sent_ = false;
  Schedule();
}

// The oldest request that is not answered was not executed, nor were those behind it.
void XrcRelay::RefuseNext(Refusal refusal, NakCode nak) {
  Request& request = At(waiting_);
  if (waiting_ != next_) StreamTo(route_).next_psn = request.stream_psn;
  request.refusal = refusal;
  request.nak = nak;
  next_ = ++waiting_;
  unanswered_responses_ = 0;
  is_refused_ = true;
  awaits_readiness_ = refusal == Refusal::kReceiverNotReady;
  LeaveSchedule();
}

bool XrcRelay::OnPeerGone(Route route) {
  const auto found = std::find_if(streams_.begin(), streams_.end(),
                                  [route](const Stream& stream) { return stream.route == route; });
  if (found == streams_.end()) return false;
  found->is_gone = true;
  if (route != route_) return false;
  LeaveSchedule();
  if (waiting_ != next_) {
    RefuseNext(Refusal::kNak, NakCode::kRemoteOperationalError);
  } else {
    Schedule();
  }
  return HasFront();
}

void XrcRelay::Discard() {
  front_ = waiting_ = next_ = back_;
  read_.left = 0;
  replays_ = 0;
  unanswered_responses_ = 0;
  is_refused_ = is_read_taken_ = false;
  NoteWhetherPeerWaits();
  LeaveSchedule();
}

void XrcRelay::Reset() {
  Discard();
  for (const Stream& stream : streams_) {
    if (!stream.is_gone) qp_.environment.xrc_farewells.Add(stream.route, qp_.qpn, epoch_);
  }
  streams_.clear();
  epoch_ = qp_.environment.next_xrc_epoch++;
  has_overflowed_ = awaits_readiness_ = is_beginning_sent_ = false;
}

// Without this the peer, if it is on a link, would take the silence for a loss.
void XrcRelay::NoteWhetherPeerWaits() {
  if (peer_waits_ == !empty()) return;
  peer_waits_ = !empty();
  if (peer_waits_) peers_route_ = qp_.path.route();
  uint16_t& count = qp_.environment.relaying_targets[static_cast<size_t>(peers_route_)];
  count = static_cast<uint16_t>(peer_waits_ ? count + 1 : count - 1);
}

bool XrcRelay::TakeOverflow() { return std::exchange(has_overflowed_, false); }

}  // namespace uroce::transport
