#include "transport/qp/queue_pair.h"

#include <algorithm>

#include "transport/qp/path_migration.h"
#include "transport/qp/state_table.h"

namespace uroce::transport {
namespace {

bool ReadResponse(const PacketView& view, Packet& packet) {
  switch (view.opcode()) {
    case kRcReadResponseFirst:
      return ReadPredicted<kRcReadResponseFirst>(view, packet);
    case kRcReadResponseMiddle:
      return ReadPredicted<kRcReadResponseMiddle>(view, packet);
    case kRcReadResponseLast:
      return ReadPredicted<kRcReadResponseLast>(view, packet);
    case kRcReadResponseOnly:
      return ReadPredicted<kRcReadResponseOnly>(view, packet);
    case kRcAcknowledge:
      return ReadPredicted<kRcAcknowledge>(view, packet);
    default:
      return false;
  }
}

}  // namespace

QueuePair::QueuePair(Qpn qpn, const QpInitAttributes& init, Queues queues,
                     QpEnvironment& environment, QueuePairRecord& record)
    : EventSource(init.context),
      context_{.environment = environment,
               .attributes = record.attributes,
               .qpn = qpn,
               .init = init,
               .queue_pair = *this,
               .path = {},
               .alternate_path = {},
               .source_gid = {},
               .alternate_source_gid = {},
               .counters = record.counters},
      requester_(context_, std::move(queues.sends)),
      responder_(context_, std::move(queues.receives)),
      record_(record) {
  record_ = {.qpn = qpn,
             .type = init.type,
             .attributes = InitialAttributes(),
             .capabilities = init.capabilities,
             .counters = {}};
}

QueuePair::~QueuePair() {
  record_.qpn = Qpn{};
  LeaveTransmit();
  context_.environment.deadlines.Remove(*this);
  context_.environment.events.Forget(*this);
}

// IBA 11.2.5.3.
QpAttributes QueuePair::Query() const {
  QpAttributes attributes = context_.attributes;
  attributes.current_state = attributes.state;
  attributes.capabilities = context_.init.capabilities;
  attributes.sq_draining = attributes.state == QpState::kSendQueueDrain && !requester_.IsDrained();
  return attributes;
}

Status QueuePair::PostSend(const SendWorkRequest& request) {
  const Status status = QueueSend(request);
  if (status == Status::kOk) SendsPosted();
  return status;
}

Status QueuePair::QueueSend(const SendWorkRequest& request) {
  if (!AcceptsSendPosts(state())) return Status::kInvalidArgument;
  return requester_.Post(request);
}

// Not for XRC: its requests name a shared receive queue, which PlainSendRequest lacks.
Status QueuePair::QueueSend(const PlainSendRequest& request) {
  const bool is_accepted =
      context_.predicts_requests || (AcceptsSendPosts(state()) && context_.is_rc());
  return is_accepted ? requester_.PostPlain(request) : Status::kInvalidArgument;
}

Status QueuePair::PostSends(std::span<const SendWorkRequest> requests) {
  if (!AcceptsSendPosts(state())) return Status::kInvalidArgument;
  const Status status = requester_.PostAll(requests);
  if (status == Status::kOk) SendsPosted();
  return status;
}

void QueuePair::SendsPosted() {
  if (state() == QpState::kError || state() == QpState::kSendQueueError) {
    requester_.Flush(VendorError::kFlushedByError);
    FollowFailure();
  } else if (!is_queued() || context_.is_datagram()) {  // else its turn comes anyway
    MarkReady();
  }
}

Status QueuePair::PostReceive(const ReceiveWorkRequest& request) {
  if (!AcceptsReceivePosts(state())) return Status::kInvalidArgument;
  const Status status = responder_.Post(request);
  if (status == Status::kOk && state() == QpState::kError) {
    responder_.Flush(VendorError::kFlushedByError);
  }
  if (responder_.awaits_receive() && status == Status::kOk) [[unlikely]]
    TellReceiverReady();
  return status;
}

// After a receive request was posted. Returns whether a message waited for one.
bool QueuePair::TellReceiverReady() {
  if (!responder_.OnReceivePosted()) return false;
  MarkReady();
  return true;
}

bool QueuePair::Processes(const Packet& packet) const {
  return packet.opcode.IsResponse() ? ProcessesResponses(state()) : ProcessesRequests(state());
}

DropReason QueuePair::OnPacket(Time now, const Packet& packet) {
  if (packet.opcode.IsResponse() && responder_.relayed() != nullptr) [[unlikely]]
    return OnRelayedResponse(packet);
  if (!context_.Takes(packet.opcode)) return DropReason::kWrongService;
  if (!Processes(packet)) return DropReason::kQpNotReady;
  DropReason result = DropReason::kForeignSource;
  if (context_.is_datagram()) {
    const bool is_in_partition = PkeysMatch(packet.pkey, context_.pkey());  // IBA C9-43
    result = is_in_partition ? OnDatagram(packet) : DropReason::kBadPkey;
  } else {
    const PathCheck check = CheckPath(context_, packet);
    if (check == PathCheck::kMigrated) requester_.FollowPath();
    if (check == PathCheck::kOtherPartition) result = DropReason::kBadPkey;
    const bool is_peers = check == PathCheck::kPrimary || check == PathCheck::kMigrated;
    if (is_peers) result = OnConnectedPacket(now, packet);  // IBA 9.6.1.2.3
  }
  UpdateAfterEvent();
  return result;
}

DropReason QueuePair::OnBareFrame(Route from) {
  const PathCheck check = CheckHeaderless(context_, from);
  if (check == PathCheck::kOtherPartition) return DropReason::kBadPkey;
  return check == PathCheck::kForeign ? DropReason::kForeignSource : DropReason::kNone;
}

// Nearly all packets need no more than this.
std::optional<DropReason> QueuePair::OnPredictedPacket(Time now, const PacketView& view) {
  if (!context_.predicts_arrivals) return std::nullopt;
  if (view.opcode() >= kRcReadResponseFirst) return OnPredictedResponse(now, view);
  if (!responder_.ExecutePredicted(view)) return std::nullopt;
  UpdateAfterRequest();
  return DropReason::kNone;
}

[[gnu::noinline]] std::optional<DropReason> QueuePair::OnPredictedResponse(Time now,
                                                                           const PacketView& view) {
  UnsetPacket unset;
  if (state() != QpState::kReadyToSend || !ReadResponse(view, unset.packet)) return std::nullopt;
  const DropReason result = requester_.OnResponse(now, unset.packet);
  UpdateAfterResponse();
  return result;
}

DropReason QueuePair::OnPeersPacket(Time now, const Packet& packet) {
  if (packet.opcode.IsResponse() && responder_.relayed() != nullptr) [[unlikely]]
    return OnRelayedResponse(packet);
  if (!context_.Takes(packet.opcode)) return DropReason::kWrongService;
  if (!Processes(packet)) return DropReason::kQpNotReady;
  const DropReason result = OnConnectedPacket(now, packet);
  UpdateAfterEvent();
  return result;
}

// XRC target: another process has answered a request. Its link proves the source.
DropReason QueuePair::OnRelayedResponse(const Packet& packet) {
  if (!ProcessesRequests(state())) return DropReason::kQpNotReady;
  const DropReason result = responder_.relayed()->OnResponse(packet);
  AwaitSharedReceive();
  UpdateAfterEvent();
  return result;
}

// A message that found no receive request has to be told of the next one.
void QueuePair::AwaitSharedReceive() {
  if (responder_.awaits_receive() && responder_.shared_queue() != nullptr) [[unlikely]]
    responder_.shared_queue()->AddWaiter(shared_queue_waiter_);
}

DropReason QueuePair::OnConnectedPacket(Time now, const Packet& packet) {
  if (packet.opcode.IsResponse()) return requester_.OnResponse(now, packet);
  const DropReason result =
      context_.is_reliable() ? responder_.OnRequest(now, packet) : responder_.OnUnreliable(packet);
  AwaitSharedReceive();
  if (state() == QpState::kReadyToReceive && result == DropReason::kNone &&
      !context_.communication_established) {  // IBA 11.6.3.1 COMM_EST
    context_.communication_established = true;
    UpdatePrediction(context_);
    context_.environment.events.Raise(*this, EventType::kCommunicationEstablished);
  }
  return result;
}

// Processes of this host send multicast datagrams through the switch, never by a link, and unicast
// ones by their link or, before there is one, through the switch. The switch drops frames from
// other hosts that carry an address of this host, and frames of a process with a source QPN that is
// not its own.
DropReason QueuePair::OnDatagram(const Packet& packet) {
  const Route way = context_.environment.config.RouteTo(packet.flow.source, packet.deth.source_qpn);
  const bool by_the_switch = packet.from == Route::kWire && IsLink(way);
  const bool came_its_way = packet.flow.destination.IsMulticast()
                                ? !IsLink(packet.from)
                                : packet.from == way || by_the_switch;
  return came_its_way ? responder_.OnDatagram(packet) : DropReason::kForeignSource;
}

DropReason QueuePair::OnRawFrame(std::span<const uint8_t> frame) {
  if (!ProcessesRequests(state())) return DropReason::kQpNotReady;
  const DropReason result = responder_.OnRawFrame(frame);
  UpdateAfterEvent();
  return result;
}

void QueuePair::OnDeadline(Time now) {
  requester_.OnDeadline(now);
  responder_.OnDeadline(now);
  UpdateAfterEvent();
}

size_t QueuePair::BuildFrame(Time now, const FrameRoom& out) {
  // If both have a frame, they take turns.
  const bool has_reply = responder_.HasReply() && MayReply();
  const bool has_request = requester_.has_unsent();
  const bool replies_first = has_reply && (responders_turn_ || !has_request);
  size_t frame_bytes = 0;
  if (replies_first) frame_bytes = responder_.BuildFrame(out);
  const bool is_requesters = has_request && frame_bytes == 0;
  if (is_requesters) frame_bytes = requester_.BuildFrame(now, out);
  responders_turn_ = is_requesters;
  if (frame_bytes == 0 && has_reply && !replies_first) {
    frame_bytes = responder_.BuildFrame(out);
    responders_turn_ = false;
  }
  // Building may fail a request, and sending starts a timer. The queue pair stays in its transmit
  // queue until it has nothing to send, or its next datagram goes by another route.
  if (is_requesters || responder_.failed()) {
    FollowFailure();
    TellDrained();
    FollowDeadline();
  }
  if (context_.is_datagram()) MarkReady();
  if (context_.is_xrc_target()) AwaitSharedReceive();
  if (!requester_.has_unsent() && !responder_.HasReply()) LeaveTransmit();
  if (frame_bytes != 0) CountTransmitted(frame_bytes);
  return frame_bytes;
}

size_t QueuePair::BuildAtOnce(Time now, const FrameRoom& out) {
  const size_t frame_bytes = requester_.BuildAtOnce(now, out);
  if (frame_bytes == 0) return 0;
  FollowDeadline();
  CountTransmitted(frame_bytes);
  return frame_bytes;
}

bool QueuePair::MayReply() const { return ProcessesRequests(state()) || responder_.failed(); }

// Runs after every event: follows a failure into ERR, reports a drained send queue, and updates the
// deadline and the place in the transmit schedule.
void QueuePair::UpdateAfterEvent() {
  FollowFailure();
  TellDrained();
  FollowDeadline();
  MarkReady();
}

// The same after a response in RTS: the responder has not changed.
void QueuePair::UpdateAfterResponse() {
  FollowFailure();
  FollowDeadline();
  if (requester_.has_unsent()) MarkReady();
}

// The responder has a deadline only while a gap is open, or as a target whose requests other
// processes execute.
void QueuePair::FollowDeadline() {
  Time deadline = requester_.deadline();
  if (context_.has_open_gap || context_.is_xrc_target()) [[unlikely]] {
    deadline = std::min(deadline, responder_.deadline());
  }
  context_.environment.deadlines.Set(*this, deadline);
}

// IBA 11.6.3.1 SQ_DRAINED: raised once, if the program has asked for it.
void QueuePair::TellIfDrained() {
  if (!context_.attributes.enable_sqd_notify) return;
  if (!requester_.IsDrained()) return;
  context_.attributes.enable_sqd_notify = false;
  context_.environment.events.Raise(*this, EventType::kSendQueueDrained);
}

// A send request that completed in error moves a reliable connection to ERR; on an unreliable
// service it stops the send queue alone (IBA 10.3.1.6). A failed receive or a lost completion moves
// every queue pair to ERR.
void QueuePair::FollowFailureNow() {
  const bool sends = state() == QpState::kReadyToSend || state() == QpState::kSendQueueDrain;
  // The completions that this flushes may be lost in turn.
  if (requester_.failed() && !context_.is_reliable() && sends) EnterSendQueueError();

  const bool ends = responder_.failed() || context_.completion_lost ||
                    (requester_.failed() && context_.is_reliable());
  if (!ends || state() == QpState::kError) return;
  if (const auto event = responder_.failure_event()) {
    context_.environment.events.Raise(*this, *event);
  }
  if (context_.completion_lost) {  // IBA 11.6.3.2 QP_FATAL
    context_.environment.events.Raise(*this, EventType::kQpFatal);
  }
  EnterError(VendorError::kFlushedByError);
}

void QueuePair::EnterSendQueueError() {
  SetState(QpState::kSendQueueError);
  requester_.Flush(VendorError::kFlushedByError);
}

// IBA 10.3.1.7.
void QueuePair::EnterError(VendorError why) {
  SetState(QpState::kError);
  requester_.Flush(why);
  responder_.Flush(why);
  // No request of the shared queue is ours any more (IBA 11.6.3.1 LAST_WQE_REACHED).
  if (context_.init.srq != nullptr) {
    context_.environment.events.Raise(*this, EventType::kLastWqeReached);
  }
}

void QueuePair::Fail() {
  if (state() != QpState::kReset && state() != QpState::kError) {
    EnterError(VendorError::kFlushedByError);
  }
  UpdateAfterEvent();
}

void QueuePair::OnPeerGone(Route route) {
  const bool is_concerned =
      responder_.relayed() != nullptr && responder_.relayed()->OnProcessGone(route);
  if (is_concerned) UpdateAfterEvent();
  const bool is_connected =
      context_.is_reliable() && context_.path.is_connection() && context_.path.route() == route;
  if (!is_connected) return;
  context_.peer_gone = true;
  UpdatePrediction(context_);
  requester_.OnPeerGone();
  UpdateAfterEvent();
}

void QueuePair::MarkReady() {
  if (const Route route = requester_.NextRoute(); route != route_) {
    LeaveTransmit();
    route_ = route;
  }
  if (is_queued()) return;
  if (requester_.CanTransmit() || (responder_.HasReply() && MayReply())) {
    context_.environment.transmits.Add(route_, *this);
  }
}

void QueuePair::UpdateNeighbor(const Gid& gid, const MacAddress& mac) {
  const bool has_path = !context_.is_datagram() && ProcessesRequests(state());
  if (!has_path) return;
  QpAttributes& own = context_.attributes;
  bool has_changed = false;
  for (AddressVector* const address : {&own.address, &own.alternate_address}) {
    if (address->destination_gid != gid || address->destination_mac == mac) continue;
    address->destination_mac = mac;
    has_changed = true;
  }
  if (has_changed) SetPaths(context_);
}

}  // namespace uroce::transport
