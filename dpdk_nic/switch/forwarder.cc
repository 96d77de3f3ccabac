#include "dpdk_nic/switch/forwarder.h"

#include <algorithm>
#include <utility>

#include "transport/wire/ethernet.h"
#include "transport/wire/frame_builder.h"

namespace uroce::nic {
namespace {

using control::Block;
using control::ErrnoValue;
using control::kSwitchBlock;
using transport::Duration;
using transport::Gid;
using transport::Microseconds;
using transport::Milliseconds;
using transport::Qpn;
using transport::Route;
using transport::Time;

constexpr Duration kLinkServiceInterval = Milliseconds(1);
// How late the switch may notice the end of a process, or a wakeup while it is awake. A look costs
// 300 ns.
constexpr Duration kSocketInterval = Microseconds(20);
// How late the switch may notice a change of the carrier while it sleeps.
constexpr Duration kCarrierInterval = Milliseconds(1'000);
constexpr int kLinkLayerBurst = 32;

// The frames that are left of the next turn of an uplink, after those moved out of turn.
int TakeTurn(Uplink& uplink) {
  const int paid = std::min(uplink.out_of_turn, Forwarder::kUplinkBurst);
  uplink.out_of_turn -= paid;
  return Forwarder::kUplinkBurst - paid;
}

}  // namespace

Forwarder::Forwarder(std::unique_ptr<PacketPort> wire, std::unique_ptr<LinkLayer> link_layer,
                     std::vector<Gid> gids, SwitchListener listener)
    : wire_(std::move(wire)),
      link_layer_(link_layer ? std::move(link_layer) : std::make_unique<StaticNeighbors>()),
      listener_(std::move(listener)),
      max_frame_bytes_(transport::kMaxFrameBytes) {
  if (!has_wire()) return;
  addresses_ = {wire_->mac(), std::move(gids)};
  max_frame_bytes_ =
      std::min<size_t>(max_frame_bytes_, wire_->mtu() + transport::EthernetHeader::kBytes);
}

ErrnoValue Forwarder::ConnectUplink(Time now, Block block, std::unique_ptr<RingLink> link) {
  ended_.reset(block);
  return uplinks_.Connect(now, block, std::move(link));
}

void Forwarder::Remove(Time now, Block block) {
  if (Uplink* uplink = uplinks_.Find(block)) {
    ServeOutOfTurn(now, *uplink);
    uplinks_.Close(block);
    EndPass();
  }
  if (sharing_ != nullptr) sharing_->Unshare(block);
  requests_.Remove(block);
  for (const Gid& group : table_.GroupsOf(block)) LeaveGroup(block, group);
  table_.Remove(block);
  ended_.set(block);
  const std::vector<ConnectionTracker::Connection> ended = tracker_.Remove(block);
  for (const auto& connection : ended) Disconnect(now, connection);
  if (!ended.empty()) EndPass();
}

void Forwarder::Forget(Time now, Block block, Qpn local) {
  if (Uplink* uplink = uplinks_.Find(block)) {
    ServeOutOfTurn(now, *uplink);
    EndPass();
  }
  table_.Forget(block, local);
}

void Forwarder::Resolve(Time now, const Gid& gid) {
  if (has_wire() && questions_.Add(now, gid)) return;
  Tell({.gid = gid, .mac = {}, .is_known = 0, .reserved = 0});
}

// Flushes last, so that the frames of a pass are sent together.
bool Forwarder::RunOnce(Time now) {
  if (!began_) began_ = now;
  ServeTimers(now);
  bool worked = ReceiveFromWire(now);
  worked |= RunDeadlines(now);
  worked |= ServeHeldRequests(now);
  worked |= ServeDisconnects(now);
  worked |= TransmitLinkLayer(now);
  worked |= ReceiveFromUplinks(now);
  worked |= ServeQueues(now);
  EndPass();
  return worked;
}

// Work that need not be done in every pass.
void Forwarder::ServeTimers(Time now) {
  if (now >= next_look_at_sockets_) {
    next_look_at_sockets_ = now + kSocketInterval;
    uplinks_.PollSockets(now);
  }
  if (now < next_link_service_) return;
  next_link_service_ = now + kLinkServiceInterval;
  uplinks_.ParkIdle(now);
  if (has_wire()) CheckWireState();
}

bool Forwarder::ReceiveFromWire(Time now) {
  if (!has_wire()) return false;
  int received = 0;
  int copies = kWireCopies;
  while (received < kWireBurst) {
    if (held_.empty()) held_ = ethernet_.Receive();
    if (held_.empty()) break;
    ++received;
    if (!AcceptFromWire(now, held_, &copies)) break;
    held_ = {};
    held_fan_out_ = {};
    wire_->ReleaseReceived();
  }
  return received != 0;
}

bool Forwarder::AcceptFromWire(Time now, std::span<const uint8_t> frame, int* copies) {
  const FrameHead head(frame);
  RoceHeaders headers;
  const FrameKind kind = Classify(head, frame.size(), &headers);
  if (kind == FrameKind::kOther) {
    if (link_layer_->OnFrame(now, frame)) TakeNeighborChanges();
    return true;
  }
  if (kind == FrameKind::kMalformed) {
    Count(SwitchDrop::kMalformed, &counters_);
    return true;
  }
  const Delivery delivery = FindReceiver(headers, table_, addresses_);
  SwitchDrop drop = delivery.drop;
  const bool is_to_group = drop == SwitchDrop::kNone && headers.destination.IsMulticast();
  if (is_to_group && !table_.Members(headers.destination).empty()) {
    const GroupFrame to_group{headers.destination, kSwitchBlock, head, frame};
    if (!SendToGroup(now, to_group, &held_fan_out_, copies)) return false;
  } else if (is_to_group) {
    drop = SwitchDrop::kUnknownDestination;
  } else {
    drop = DeliverFromWire(now, delivery, headers, head, frame);
  }
  if (drop == SwitchDrop::kNone) ++counters_.frames_from_wire;
  Count(drop, &counters_);
  return true;
}

// For frames that are not to a group.
SwitchDrop Forwarder::DeliverFromWire(Time now, const Delivery& delivery,
                                      const RoceHeaders& headers, const FrameHead& head,
                                      std::span<const uint8_t> frame) {
  if (delivery.drop != SwitchDrop::kNone) return delivery.drop;
  if (headers.peer_query && delivery.block == kSwitchBlock) {
    AnswerPeerQuery(now, headers);
    // The process answers as soon as it runs. A process whose ring is full does not.
    if (headers.peer_query->IsAboutProcess()) {
      SendToUplink(now, transport::BlockOf(headers.peer_query->qpn), head, frame);
    }
    return SwitchDrop::kNone;
  }
  if (!headers.cm) return SendToUplink(now, delivery.block, head, frame);
  return DeliverManagement(now, kSwitchBlock, delivery.block, headers,
                           CopyManagement(head, headers, frame));
}

// Whether a process passes on a frame that came to its socket: the source is another host's.
bool Forwarder::IsFromWire(const RoceHeaders& headers) const {
  return sharing_ != nullptr && !addresses_.Has(headers.source) &&
         addresses_.Has(headers.destination);
}

void Forwarder::TakeNeighborChanges() {
  while (const auto change = link_layer_->TakeChange()) {
    questions_.Remove(change->gid);
    Tell({.gid = change->gid, .mac = change->mac, .is_known = 1, .reserved = 0});
  }
}

void Forwarder::Tell(const control::Neighbor& neighbor) {
  if (listener_.on_neighbor) listener_.on_neighbor(neighbor);
}

bool Forwarder::RunDeadlines(Time now) {
  if (!has_wire()) return false;
  bool worked = false;
  if (link_layer_->NextDeadline() <= now) {
    link_layer_->OnDeadline(now);
    worked = true;
  }
  if (questions_.NextDeadline() <= now) {
    questions_.Run(now, *link_layer_, [this](const auto& neighbor) { Tell(neighbor); });
    worked = true;
  }
  if (worked) TakeNeighborChanges();
  return worked;
}

bool Forwarder::TransmitLinkLayer(Time now) {
  if (!has_wire()) return false;
  int sent = 0;
  while (sent < kLinkLayerBurst && link_layer_->HasTransmit()) {
    const std::span<uint8_t> room = ethernet_.Acquire();
    if (room.empty()) break;
    const size_t frame_bytes = link_layer_->PollTransmit(now, room);
    if (frame_bytes == 0) break;
    ethernet_.Commit(frame_bytes);
    ++sent;
  }
  return sent != 0;
}

Time Forwarder::NextDeadline() const {
  const Time management = std::min(requests_.NextDeadline(), tracker_.NextDeadline());
  if (!has_wire()) return management;
  return std::min({management, link_layer_->NextDeadline(), questions_.NextDeadline(),
                   next_link_service_ + kCarrierInterval});
}

// When the wire is full, the next pass begins with the uplink that found it full, or with the one
// after it if that uplink had sent a frame.
bool Forwarder::ReceiveFromUplinks(Time now) {
  wire_full_ = receiver_full_ = false;
  const size_t count = uplinks_.polled().size();  // others may be added behind
  bool worked = false;
  for (size_t i = 0; i < count; ++i) {
    const size_t index = (turn_ + i) % count;
    Uplink& uplink = *uplinks_.polled()[index];
    const int moved = ServeUplink(now, uplink, TakeTurn(uplink));
    worked |= moved != 0;
    if (wire_full_) {
      turn_ = moved == 0 ? index : index + 1;
      break;
    }
  }
  return worked;
}

// A process can cause this again and again, so its turns pay for the frames.
void Forwarder::ServeOutOfTurn(Time now, Uplink& uplink) {
  uplink.out_of_turn += ServeUplink(now, uplink, kOutOfTurn - uplink.out_of_turn);
}

// Returns how many frames left the ring and copies were made: `most` at the most, or one more.
int Forwarder::ServeUplink(Time now, Uplink& uplink, int most) {
  int left = most;
  while (left > 0) {
    const std::span<const uint8_t> frame = uplink.link->Receive();
    if (frame.empty()) {
      if (uplink.has_ended || uplink.link->broken()) Finish(now, uplink);
      break;
    }
    const Outcome outcome = AcceptFromUplink(now, uplink, frame, &left);
    if (outcome == Outcome::kWireFull) wire_full_ = true;
    if (outcome != Outcome::kDone) break;
    uplink.fan_out = {};
    uplink.link->Release();
    --left;
  }
  if (left != most) uplink.last_used = now;
  return most - left;
}

Forwarder::Outcome Forwarder::AcceptFromUplink(Time now, Uplink& uplink,
                                               std::span<const uint8_t> frame, int* copies) {
  const FrameHead head(frame);
  RoceHeaders headers;
  const WireAddresses* const wire = has_wire() ? &addresses_ : nullptr;
  SwitchDrop drop = SwitchDrop::kMalformed;
  if (frame.size() <= max_frame_bytes_ &&
      Classify(head, frame.size(), &headers) == FrameKind::kRoce) {
    if (IsFromWire(headers)) {
      drop = DeliverFromWire(now, FindReceiver(headers, table_, addresses_), headers, head, frame);
      if (drop == SwitchDrop::kNone) ++counters_.frames_passed_on;
      Count(drop, &counters_);
      return Outcome::kDone;
    }
    drop = CheckFromProcess(headers, frame.size(), uplink.block, table_, wire);
  }
  const auto receiver =
      drop == SwitchDrop::kNone ? FindLocalReceiver(headers, table_, wire) : std::nullopt;
  if (receiver && headers.cm) {
    if (IsToWait(now, uplink, *receiver, headers)) return Outcome::kReceiverFull;
    drop = DeliverManagement(now, uplink.block, *receiver, headers,
                             CopyManagement(head, headers, frame));
  } else if (receiver) {
    drop = SendToProcess(now, uplink, *receiver, head, frame);
  }
  if (receiver || drop != SwitchDrop::kNone) {
    Count(drop, &counters_);
    return Outcome::kDone;
  }
  if (has_wire() && !uplink.fan_out.is_on_wire) {
    const std::span<uint8_t> room = ethernet_.Acquire();
    if (room.empty()) return Outcome::kWireFull;
    head.WriteFrame(frame, room.data());
    ethernet_.Commit(frame.size());
    ++counters_.frames_to_wire;
    uplink.fan_out.is_on_wire = true;
    if (headers.cm) {
      Follow(uplink.block, kSwitchBlock, headers, CopyManagement(head, headers, frame));
    }
  }
  if (!headers.destination.IsMulticast()) return Outcome::kDone;
  const GroupFrame to_group{headers.destination, uplink.block, head, frame};
  return SendToGroup(now, to_group, &uplink.fan_out, copies) ? Outcome::kDone
                                                             : Outcome::kMoreCopies;
}

SwitchDrop Forwarder::SendToProcess(Time now, Uplink& sender, Block block, const FrameHead& head,
                                    std::span<const uint8_t> frame) {
  if (!IsInItsShare(now, sender) || IsHalfFull(block)) return SwitchDrop::kNoRoom;
  const SwitchDrop drop = SendToUplink(now, block, head, frame);
  if (drop != SwitchDrop::kNone) return drop;
  ++sender.local_datagrams;
  ++counters_.frames_between_processes;
  return SwitchDrop::kNone;
}

// Whether a process may send another datagram to others of this host in this interval.
bool Forwarder::IsInItsShare(Time now, Uplink& sender) {
  const auto interval = static_cast<uint64_t>(now.ns / kLinkServiceInterval.ns);
  if (sender.local_interval != interval) {
    sender.local_interval = interval;
    sender.local_datagrams = 0;
  }
  return sender.local_datagrams < kLocalDatagrams;
}

// Processes fill no more than half of the receiver's ring: the rest is for frames from the wire.
bool Forwarder::IsHalfFull(Block block) {
  const Uplink* const receiver = uplinks_.Find(block);
  return receiver != nullptr && receiver->link->IsHalfFull();
}

SwitchDrop Forwarder::SendToUplink(Time now, Block block, const FrameHead& head,
                                   std::span<const uint8_t> frame) {
  Uplink* uplink = uplinks_.Find(block);
  if (uplink == nullptr || uplink->has_ended) return SwitchDrop::kUnknownDestination;
  const std::span<uint8_t> room = uplink->link->Acquire();
  if (room.empty()) {
    if (uplink->link->broken()) Finish(now, *uplink);
    return SwitchDrop::kNoRoom;
  }
  if (room.size() < frame.size()) return SwitchDrop::kMalformed;  // longer than any RoCEv2 frame
  head.WriteFrame(frame, room.data());
  uplink->link->Commit(frame.size());
  uplinks_.Use(now, *uplink);
  WaitBudget& wait_budget = uplink->wait_budget;
  if (wait_budget.is_waiting) {
    wait_budget.is_waiting = false;
    wait_budget.left = std::max(wait_budget.left - (now - wait_budget.waiting_since), Duration{0});
  }
  wait_budget.left = std::min(wait_budget.left + WaitBudget::kEarnedByAFrame, WaitBudget::kMost);
  return SwitchDrop::kNone;
}

// If a member joins or leaves meanwhile, another may get the frame twice or not at all.
bool Forwarder::SendToGroup(Time now, const GroupFrame& frame, FanOut* fan_out, int* copies) {
  const std::span<const Block> members = table_.Members(frame.group);
  for (size_t& next = fan_out->next_member; next < members.size(); ++next) {
    if (*copies <= 0) return false;
    if (members[next] == frame.sender) continue;
    const SwitchDrop drop = SendToUplink(now, members[next], frame.head, frame.bytes);
    const bool is_from_wire = frame.sender == kSwitchBlock;
    if (drop == SwitchDrop::kNoRoom && !is_from_wire && MayWaitFor(now, members[next])) {
      receiver_full_ = true;
      return false;
    }
    --*copies;
    if (drop == SwitchDrop::kNone) ++counters_.multicast_copies;
    Count(drop, &counters_);
  }
  return true;
}

bool Forwarder::MayWaitFor(Time now, Block receiver) {
  Uplink* const uplink = uplinks_.Find(receiver);
  if (uplink == nullptr || uplink->is_done) return false;
  WaitBudget& wait_budget = uplink->wait_budget;
  if (!wait_budget.is_waiting) wait_budget.waiting_since = now;
  wait_budget.is_waiting = true;
  return now - wait_budget.waiting_since < wait_budget.left;
}

void Forwarder::EndPass() {
  if (any_done_) {
    any_done_ = false;
    uplinks_.CloseDone();
  }
  if (has_wire()) wire_->Flush();
  for (Uplink* uplink : uplinks_.polled()) uplink->link->Flush();
}

// The uplink is closed at the end of the pass.
void Forwarder::Finish(Time now, Uplink& uplink) {
  if (uplink.is_done) return;
  uplink.is_done = any_done_ = true;
  uplinks_.Use(now, uplink);
  if (!uplink.link->broken()) return;
  Count(SwitchDrop::kMalformed, &counters_);
  if (listener_.on_broken_uplink) listener_.on_broken_uplink(uplink.block);
}

SleepPlan Forwarder::PlanSleep() {
  using Kind = SleepPlan::Kind;
  SleepPlan plan{Kind::kNone, NextDeadline(), {uplinks_fd(), -1}};
  if (!held_.empty()) return plan;
  const bool waits = wire_full_ || receiver_full_;
  if (waits || (has_wire() && (link_layer_->HasTransmit() || wire_->keeps_frames()))) {
    plan.kind = Kind::kNap;
  } else if (uplinks_.ParkAll()) {
    const int wire_fd = has_wire() ? wire_->wait_fd() : -1;
    plan.fds[1] = wire_fd;
    if (!has_wire()) {
      plan.kind = Kind::kSleep;
    } else if (wire_fd < 0) {
      plan.kind = Kind::kNap;
    } else if (wire_->BeginSleep()) {
      plan.kind = Kind::kSleep;
    }
  }
  return plan;
}

void Forwarder::EndSleep() {
  next_look_at_sockets_ = next_link_service_ = Time{0};
  if (has_wire()) wire_->EndSleep();
}

}  // namespace uroce::nic
