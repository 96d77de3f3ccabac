// The part of the forwarder that handles messages of connection managers.
#include <algorithm>
#include <array>
#include <vector>

#include "dpdk_nic/switch/forwarder.h"
#include "transport/cm/message_codec.h"
#include "transport/mad_frame.h"
#include "transport/wire/icrc.h"

namespace uroce::nic {

using control::Block;
using control::kSwitchBlock;
using transport::Route;
using transport::Time;

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
  const bool is_request = headers.cm->IsRequest();
  if (receiver == kSwitchBlock && is_request) {
    if (!requests_.Hold(now, sender, headers, {frame.begin(), frame.end()})) {
      Refuse(now, sender, headers, frame);
    }
    return SwitchDrop::kNone;
  }
  if (receiver == kSwitchBlock) receiver = requests_.ReceiverOfRequest(headers);
  if (!ForwardingTable::IsProcess(receiver)) return SwitchDrop::kUnknownDestination;
  Uplink* const uplink = sender == kSwitchBlock ? nullptr : uplinks_.Find(sender);
  const SwitchDrop drop = uplink == nullptr
                              ? SendOrQueue(now, receiver, frame)
                              : SendToProcess(now, *uplink, receiver, FrameHead(frame), frame);
  if (drop == SwitchDrop::kNone) Follow(sender, receiver, headers, frame);
  return drop;
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
        Count(SwitchDrop::kNoRoom, &counters_);
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
  const std::span<uint8_t> room = wire_->AcquireTransmit(Route::kWire);
  if (room.empty()) return;
  std::copy(frame.begin(), frame.end(), room.begin());
  wire_->CommitTransmit(frame.size());
}

// To be called for a message that was passed on.
void Forwarder::Follow(Block sender, Block receiver, const RoceHeaders& headers,
                       std::span<const uint8_t> frame) {
  const size_t mad_end = headers.packet_end - transport::kIcrcBytes;
  const auto mad = frame.subspan(mad_end - transport::cm::kMadBytes, transport::cm::kMadBytes);
  if (headers.cm->IsRequest()) {
    requests_.Remember(headers, receiver, ConnectionTracker::RequesterQpn(mad));
  } else {
    tracker_.Follow(sender, receiver, headers, mad, requests_.RequesterQpnOf(headers));
  }
}

// Sends a DREQ in the name of a process that is gone.
void Forwarder::Disconnect(Time now, const ConnectionTracker::Connection& connection) {
  const transport::cm::Dreq dreq{.local_id = connection.local_id,
                                 .remote_id = connection.remote_id,
                                 .remote_qpn = connection.remote_qpn};
  transport::cm::MadAddress to;
  to.path.destination_gid = connection.remote_gid;
  to.path.destination_mac = connection.remote_mac;
  std::array<uint8_t, kManagementFrameBytes> frame;
  const size_t frame_bytes = transport::EmitMadFrame(
      connection.local_mac, connection.local_gid, to,
      transport::cm::EmitMessage(connection.local_id.value, dreq), transport::Psn(0), frame);
  const bool is_local = !has_wire() || addresses_.Has(connection.remote_gid);
  const Block receiver =
      is_local ? transport::cm::Steering::BlockOf(connection.remote_id) : kSwitchBlock;
  if (is_local && !ForwardingTable::IsProcess(receiver)) return;
  SendManagement(now, receiver, std::span(frame).first(frame_bytes));
}

}  // namespace uroce::nic
