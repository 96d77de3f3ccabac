#include "transport/qp/queue_pair.h"

#include "transport/qp/state_table.h"

namespace uroce::transport {

QueuePair::QueuePair(Qpn qpn, const QpInitAttributes& init, QpEnvironment& environment)
    : EventSource(init.context),
      context_{.environment = environment, .qpn = qpn, .init = init, .attributes = {}, .path = {}},
      requester_(context_),
      responder_(context_) {}

QueuePair::~QueuePair() {
  transmit_queue().Remove(*this);
  context_.environment.deadlines.Remove(*this);
  context_.environment.events.Forget(*this);
}

QpAttributes QueuePair::Query() const {
  QpAttributes attributes = context_.attributes;
  attributes.current_state = attributes.state;
  attributes.capabilities = context_.init.capabilities;
  attributes.rq_psn = responder_.expected_psn();
  attributes.sq_psn = requester_.next_psn();
  attributes.sq_draining = attributes.state == QpState::kSendQueueDrain && !requester_.IsDrained();
  return attributes;
}

Status QueuePair::PostSend(const SendWorkRequest& request) {
  if (!AcceptsSendPosts(state())) return Status::kInvalidArgument;
  const Status status = requester_.Post(request);
  if (status == Status::kOk) SendsPosted();
  return status;
}

Status QueuePair::PostSends(std::span<const SendWorkRequest> requests) {
  if (!AcceptsSendPosts(state())) return Status::kInvalidArgument;
  const Status status = requester_.PostAll(requests);
  if (status == Status::kOk) SendsPosted();
  return status;
}

void QueuePair::SendsPosted() {
  if (state() == QpState::kError) {
    requester_.Flush(VendorError::kFlushedByError);
  } else {
    MarkReady();
  }
}

Status QueuePair::PostReceive(const ReceiveWorkRequest& request) {
  if (!AcceptsReceivePosts(state())) return Status::kInvalidArgument;
  const Status status = responder_.Post(request);
  if (status == Status::kOk && state() == QpState::kError) {
    responder_.Flush(VendorError::kFlushedByError);
  }
  return status;
}

DropReason QueuePair::OnPacket(Time now, const Packet& packet) {
  if (packet.opcode.service != Service::kReliableConnection) return DropReason::kWrongService;
  const bool is_response = packet.opcode.IsResponse();
  if (is_response ? !ProcessesResponses(state()) : !ProcessesRequests(state())) {
    return DropReason::kQpNotReady;
  }
  if (!context_.path.Matches(packet.source_gid, packet.destination_gid)) {
    return DropReason::kForeignSource;
  }
  const DropReason result =
      is_response ? requester_.OnResponse(now, packet) : responder_.OnRequest(packet);
  if (state() == QpState::kReadyToReceive && result == DropReason::kNone &&
      !communication_established_) {  // IBA 11.6.3.2
    communication_established_ = true;
    context_.environment.events.Raise(*this, EventType::kCommunicationEstablished);
  }
  Settle();
  return result;
}

void QueuePair::OnDeadline(Time now) {
  requester_.OnDeadline(now);
  Settle();
}

size_t QueuePair::BuildFrame(Time now, std::span<uint8_t> out) {
  size_t frame_bytes = 0;
  for (int attempt = 0; attempt < 2 && frame_bytes == 0; ++attempt) {
    if (responders_turn_) {
      if (MayReply()) frame_bytes = responder_.BuildFrame(out);
    } else {
      frame_bytes = requester_.BuildFrame(now, out);
    }
    responders_turn_ = !responders_turn_;
  }
  // Building may fail a request, and sending starts the timer. We keep our turn to transmit until
  // there was nothing to send.
  FollowFailure();
  context_.environment.deadlines.Set(*this, requester_.deadline());
  return frame_bytes;
}

bool QueuePair::MayReply() const { return ProcessesRequests(state()) || responder_.failed(); }

// After anything happened: follow a failure into ERR, tell of a drained send queue, and have the
// timer and the transmit queue know what is wanted of them.
void QueuePair::Settle() {
  FollowFailure();
  if (state() == QpState::kSendQueueDrain && context_.attributes.enable_sqd_notify &&
      requester_.IsDrained()) {
    context_.attributes.enable_sqd_notify = false;
    context_.environment.events.Raise(*this, EventType::kSendQueueDrained);
  }
  context_.environment.deadlines.Set(*this, requester_.deadline());
  MarkReady();
}

// A request that completed in error, of either side, ends the connection.
void QueuePair::FollowFailure() {
  if (!requester_.failed() && !responder_.failed()) return;
  if (state() == QpState::kError) return;
  if (const auto event = responder_.failure_event()) {
    context_.environment.events.Raise(*this, *event);
  }
  EnterError(VendorError::kFlushedByError);
}

void QueuePair::EnterError(VendorError why) {
  context_.attributes.state = QpState::kError;
  requester_.Flush(why);
  responder_.Flush(why);
}

void QueuePair::MarkReady() {
  if (requester_.CanTransmit() || (responder_.HasReply() && MayReply())) {
    transmit_queue().Add(*this);
  }
}

void QueuePair::UpdateNeighbor(const Gid& gid, const MacAddress& mac) {
  AddressVector& address = context_.attributes.address;
  const bool has_path = ProcessesRequests(state());
  if (!has_path || address.destination_gid != gid || address.destination_mac == mac) return;
  address.destination_mac = mac;
  SetPath();
}

}  // namespace uroce::transport
