// The part of the forwarder that handles messages of connection managers.
#include <algorithm>
#include <array>
#include <variant>
#include <vector>

#include "dpdk_nic/switch/forwarder.h"
#include "transport/cm/message_codec.h"
#include "transport/mad_frame.h"
#include "transport/wire/icrc.h"

namespace uroce::nic {

namespace {

using control::Block;
using control::kSwitchBlock;
using transport::PeerQuery;
using transport::Route;
using transport::Time;
using transport::cm::Answered;
using transport::cm::Drep;
using transport::cm::Dreq;
using transport::cm::ParsedMad;
using transport::cm::Rej;
using transport::cm::RejectReason;
using transport::cm::Rep;
using transport::cm::Steering;
using Connection = ConnectionTracker::Connection;
using Progress = ConnectionTracker::Progress;

std::span<const uint8_t> MadOf(const RoceHeaders& headers, std::span<const uint8_t> frame) {
  const size_t mad_end = headers.packet_end - transport::kIcrcBytes;
  return frame.subspan(mad_end - transport::kMadBytes, transport::kMadBytes);
}

}  // namespace

bool Forwarder::ServeHeldRequests(Time now) {
  const uint64_t additions = table_.services().additions();
  const bool may_be_ready = services_seen_ != additions || requests_.NextDeadline() <= now;
  services_seen_ = additions;
  if (!may_be_ready || requests_.empty()) return false;
  const auto has_listener = [this](const RoceHeaders& headers) {
    return ReceiverOfManagement(headers, table_) != kSwitchBlock;
  };
  bool worked = false;
  while (const auto ready = requests_.TakeReady(now, has_listener)) {
    worked = true;
    const Block receiver = ReceiverOfManagement(ready->headers, table_);
    if (receiver == kSwitchBlock) {
      Refuse(now, ready->sender, ready->headers, ready->frame);
    } else {
      Count(DeliverManagement(now, ready->sender, receiver, ready->headers, ready->frame),
            &counters_);
    }
  }
  return worked;
}

// Copies the packet, without bytes behind it, out of memory that another process may change.
std::span<const uint8_t> Forwarder::CopyManagement(const FrameHead& head,
                                                   const RoceHeaders& headers,
                                                   std::span<const uint8_t> frame) {
  const std::span<const uint8_t> packet = frame.first(headers.packet_end);
  head.WriteFrame(packet, management_frame_.data());
  return {management_frame_.data(), packet.size()};
}

// The receiver may be the sender itself: only the switch knows which process listens at which
// address.
SwitchDrop Forwarder::DeliverManagement(Time now, Block sender, Block receiver,
                                        const RoceHeaders& headers,
                                        std::span<const uint8_t> frame) {
  SwitchDrop drop = SwitchDrop::kNone;
  if (receiver == kSwitchBlock && headers.cm->IsRequest()) {
    if (!requests_.Hold(now, sender, headers, {frame.begin(), frame.end()})) {
      Refuse(now, sender, headers, frame);
    }
    return SwitchDrop::kNone;
  }
  if (receiver == kSwitchBlock) receiver = requests_.ReceiverOfRequest(headers);
  const ParsedMad mad = transport::cm::ParseMessage(MadOf(headers, frame));
  if (std::holds_alternative<Dreq>(mad.message)) {
    const uint64_t transaction_id = mad.header.transaction_id;
    drop = DeliverDisconnect(now, sender, receiver, headers, frame, transaction_id);
  } else {
    drop = PassOn(now, sender, receiver, frame);
  }
  const bool is_end =
      std::holds_alternative<Drep>(mad.message) || std::holds_alternative<Rej>(mad.message);
  if (drop == SwitchDrop::kNone || is_end) Follow(sender, receiver, headers, frame);
  const bool is_answered =
      drop == SwitchDrop::kUnknownDestination && AnswerForGone(now, receiver, headers, mad);
  return is_answered ? SwitchDrop::kNone : drop;
}

SwitchDrop Forwarder::PassOn(Time now, Block sender, Block receiver,
                             std::span<const uint8_t> frame) {
  if (!ForwardingTable::IsProcess(receiver)) return SwitchDrop::kUnknownDestination;
  Uplink* const uplink = sender == kSwitchBlock ? nullptr : uplinks_.Find(sender);
  return uplink == nullptr ? SendOrQueue(now, receiver, frame)
                           : SendToProcess(now, *uplink, receiver, FrameHead(frame), frame);
}

// A process that is stopped answers no DREQ. So the switch answers in its place, and then the peer
// does not repeat its DREQ: the process has to get the first one, however long its ring is full.
SwitchDrop Forwarder::DeliverDisconnect(Time now, Block sender, Block receiver,
                                        const RoceHeaders& headers, std::span<const uint8_t> frame,
                                        uint64_t transaction_id) {
  Connection* const connection =
      tracker_.Find(receiver, *headers.cm->recipient, *headers.cm->sender, headers.source);
  if (connection == nullptr) return PassOn(now, sender, receiver, frame);
  if (connection->progress == Progress::kAnswered) SendDrep(now, *connection);
  if (connection->progress != Progress::kOpen) return SwitchDrop::kNone;
  const SwitchDrop drop = PassOn(now, sender, receiver, frame);
  if (drop != SwitchDrop::kNone && drop != SwitchDrop::kNoRoom) return drop;
  if (drop == SwitchDrop::kNoRoom) connection->undelivered.assign(frame.begin(), frame.end());
  tracker_.BeginDisconnect(now, *connection, transaction_id);
  return SwitchDrop::kNone;
}

// A lost message is repeated only after seconds. So a message of a process of this host waits in
// the sender's ring, as a frame to a group does, while the receiver has no room.
bool Forwarder::IsToWait(Time now, Uplink& sender, Block receiver, const RoceHeaders& headers) {
  if (receiver == kSwitchBlock) receiver = requests_.ReceiverOfRequest(headers);
  const bool waits =
      !IsInItsShare(now, sender) || (IsHalfFull(receiver) && MayWaitFor(now, receiver));
  receiver_full_ |= waits;
  return waits;
}

// The wire and the switch wait for no process: their messages wait in a queue of the receiver.
SwitchDrop Forwarder::SendOrQueue(Time now, Block block, std::span<const uint8_t> frame) {
  Uplink* const uplink = uplinks_.Find(block);
  if (uplink == nullptr || uplink->messages.empty()) {
    const SwitchDrop drop = SendToUplink(now, block, FrameHead(frame), frame);
    if (drop != SwitchDrop::kNoRoom || uplink->is_done) return drop;
  }
  if (uplink->messages.size() == Uplink::kMaxMessages) return SwitchDrop::kNoRoom;
  uplink->messages.emplace_back(frame.begin(), frame.end());
  uplinks_.Use(now, *uplink);
  return SwitchDrop::kNone;
}

bool Forwarder::ServeQueues(Time now) {
  bool worked = false;
  for (size_t i = 0; i < uplinks_.polled().size(); ++i) {
    Uplink& uplink = *uplinks_.polled()[i];
    while (!uplink.messages.empty()) {
      const auto& message = uplink.messages.front();
      const SwitchDrop drop = SendToUplink(now, uplink.block, FrameHead(message), message);
      if (drop == SwitchDrop::kNoRoom && !uplink.is_done) break;
      Count(drop, &counters_);
      uplink.messages.pop_front();
      worked = true;
    }
    if (now - uplink.last_used >= Uplink::kMessagesWaitFor) {
      for (; !uplink.messages.empty(); uplink.messages.pop_front()) {
        if (!Postpone(now, uplink.messages.front())) Count(SwitchDrop::kNoRoom, &counters_);
      }
    }
    receiver_full_ |= !uplink.messages.empty();
  }
  return worked;
}

void Forwarder::Refuse(Time now, Block sender, const RoceHeaders& headers,
                       std::span<const uint8_t> frame) {
  Count(SwitchDrop::kUnknownDestination, &counters_);
  std::array<uint8_t, kManagementFrameBytes> answer;
  const size_t answer_bytes = requests_.Refuse(now, headers, frame, answer);
  if (answer_bytes == 0) return;
  SendManagement(now, sender, std::span(answer).first(answer_bytes));
}

void Forwarder::SendManagement(Time now, Block receiver, std::span<const uint8_t> frame) {
  if (receiver != kSwitchBlock) {
    Count(SendOrQueue(now, receiver, frame), &counters_);
    return;
  }
  wire_->SendEthernet(Route::kWire, frame);
}

// For all processes of this host: a stopped one would not answer.
void Forwarder::AnswerPeerQuery(Time now, const RoceHeaders& headers) {
  transport::cm::MadAddress to{.qpn = headers.source_qpn};
  to.path.destination_gid = headers.source;
  to.path.destination_mac = headers.source_mac;
  const PeerQuery& query = *headers.peer_query;
  auto process = PeerQuery::Process::kNotTold;
  if (query.IsAboutProcess()) {
    const bool lives = IsAlive(now, transport::BlockOf(query.qpn));
    process = lives ? PeerQuery::Process::kLives : PeerQuery::Process::kGone;
  }
  std::array<uint8_t, kManagementFrameBytes> frame;
  const size_t frame_bytes = transport::EmitMadFrame(
      headers.destination_mac, headers.destination, to,
      transport::EmitPeerQuery(query.Answer(transport::kOwnFeatures, process)), transport::Psn(0),
      frame);
  ++counters_.peer_queries_answered;
  SendManagement(now, kSwitchBlock, std::span(frame).first(frame_bytes));
}

// To be called for a message that was passed on.
void Forwarder::Follow(Block sender, Block receiver, const RoceHeaders& headers,
                       std::span<const uint8_t> frame) {
  const auto mad = MadOf(headers, frame);
  if (headers.cm->IsRequest()) {
    requests_.Remember(sender, receiver, headers, ConnectionTracker::RequesterQpn(mad));
  } else {
    tracker_.Follow(sender, receiver, headers, mad, requests_.RequesterQpnOf(sender, headers));
  }
}

// A uroced that was started anew knows no process of the one before until it comes.
bool Forwarder::IsGone(Time now, Block block) const {
  return !ForwardingTable::IsProcess(block) || ended_[block] ||
         now - began_.value_or(now) >= kReattachWithin;
}

// A process without an uplink may be one that has not come to this uroced yet.
bool Forwarder::IsAlive(Time now, Block block) {
  const Uplink* const uplink = uplinks_.Find(block);
  const bool is_attached = uplink != nullptr && !uplink->has_ended && !uplink->is_done;
  return is_attached || !IsGone(now, block);
}

// Answers what Linux answers for a connection that it does not know (cm_issue_drep), and a REP,
// whose sender would wait for the RTU. Returns whether there was an answer.
bool Forwarder::AnswerForGone(Time now, Block receiver, const RoceHeaders& headers,
                              const ParsedMad& mad) {
  const bool is_dreq = std::holds_alternative<Dreq>(mad.message);
  const bool is_rep = std::holds_alternative<Rep>(mad.message);
  if ((!is_dreq && !is_rep) || !IsGone(now, receiver)) return false;
  Connection connection;
  connection.local_id = *headers.cm->recipient;
  connection.remote_id = *headers.cm->sender;
  connection.local_gid = headers.destination;
  connection.local_mac = headers.destination_mac;
  connection.remote_gid = headers.source;
  connection.remote_mac = headers.source_mac;
  connection.transaction_id = mad.header.transaction_id;
  if (is_dreq) {
    SendDrep(now, connection);
  } else {
    SendFor(now, connection,
            Rej{.local_id = connection.local_id,
                .remote_id = connection.remote_id,
                .message = Answered::kRep,
                .reason = RejectReason::kInvalidCommunicationId});
  }
  return true;
}

// Tells the peer of a connection that its process is gone, as Linux does when the process's file is
// closed (cm_destroy_id).
void Forwarder::Disconnect(Time now, const Connection& connection) {
  if (connection.progress == Progress::kAnswered) return;
  if (connection.progress == Progress::kDisconnecting) return SendDrep(now, connection);
  if (!connection.is_ready) {
    return SendFor(now, connection,
                   Rej{.local_id = connection.local_id,
                       .remote_id = connection.remote_id,
                       .message = connection.is_requester ? Answered::kRep : Answered::kOther,
                       .reason = RejectReason::kConsumerDefined});
  }
  // A peer on this host is told, and not to be answered for: no process waits for its DREP.
  Connection* const peer =
      tracker_.Find(Steering::BlockOf(connection.remote_id), connection.remote_id,
                    connection.local_id, connection.local_gid);
  if (peer != nullptr) peer->progress = Progress::kAnswered;
  SendFor(now, connection,
          Dreq{.local_id = connection.local_id,
               .remote_id = connection.remote_id,
               .remote_qpn = connection.remote_qpn});
}

void Forwarder::SendDrep(Time now, const Connection& connection) {
  SendFor(now, connection,
          Drep{.local_id = connection.local_id, .remote_id = connection.remote_id});
}

bool Forwarder::ServeDisconnects(Time now) {
  bool worked = false;
  while (Connection* const connection = tracker_.TakeDue(now)) {
    worked = true;
    std::vector<uint8_t>& frame = connection->undelivered;
    const Block block = Steering::BlockOf(connection->local_id);
    if (!frame.empty() &&
        SendToUplink(now, block, FrameHead(frame), frame) != SwitchDrop::kNoRoom) {
      frame.clear();
    }
    if (connection->progress == Progress::kDisconnecting) SendDrep(now, *connection);
    connection->progress = Progress::kAnswered;
    if (!frame.empty()) tracker_.LookAgain(now, *connection);
  }
  return worked;
}

// Keeps a DREQ for a process that makes no room in its ring. Returns false for other messages: the
// peer repeats them.
bool Forwarder::Postpone(Time now, std::span<const uint8_t> frame) {
  RoceHeaders headers;
  const FrameKind kind = Classify(FrameHead(frame), frame.size(), &headers);
  if (kind != FrameKind::kRoce || !headers.cm) return false;
  const ParsedMad mad = transport::cm::ParseMessage(MadOf(headers, frame));
  if (!std::holds_alternative<Dreq>(mad.message)) return false;
  const Block block = Steering::BlockOf(*headers.cm->recipient);
  Connection* const connection =
      tracker_.Find(block, *headers.cm->recipient, *headers.cm->sender, headers.source);
  if (connection == nullptr || connection->progress == Progress::kOpen) return false;
  connection->undelivered.assign(frame.begin(), frame.end());
  tracker_.LookAgain(now, *connection);
  return true;
}

void Forwarder::SendFor(Time now, const Connection& connection,
                        const transport::cm::Message& message) {
  transport::cm::MadAddress to;
  to.path.destination_gid = connection.remote_gid;
  to.path.destination_mac = connection.remote_mac;
  std::array<uint8_t, kManagementFrameBytes> frame;
  const uint64_t transaction_id = connection.transaction_id;
  const size_t frame_bytes = transport::EmitMadFrame(
      connection.local_mac, connection.local_gid, to,
      transport::cm::EmitMessage(transaction_id, message), transport::Psn(0), frame);
  const bool is_local = !has_wire() || addresses_.Has(connection.remote_gid);
  const Block receiver = is_local ? Steering::BlockOf(connection.remote_id) : kSwitchBlock;
  if (is_local && !ForwardingTable::IsProcess(receiver)) return;
  SendManagement(now, receiver, std::span(frame).first(frame_bytes));
}

}  // namespace uroce::nic
