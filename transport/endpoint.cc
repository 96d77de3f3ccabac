#include "transport/endpoint.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <numeric>
#include <utility>

#include "transport/limits.h"
#include "transport/wire/bare_frame.h"
#include "transport/wire/encapsulation.h"
#include "transport/wire/frame_parser.h"
#include "transport/wire/packet_view.h"

namespace uroce::transport {
namespace {

constexpr size_t kOtherDeadlines = 1;  // that of the general services

constexpr uint8_t kQpnStream = 0;  // of random numbers

constexpr Srqn kFirstSrqn{0x100};  // without linked processes

XrcQueues MakeXrcQueues(const EndpointConfig& config) {
  if (!config.has_links) return {kFirstSrqn, kMaxSrqs};
  return {Srqn{config.first_qpn.value}, config.qpn_count};
}

// The granted attributes: the wanted ones, without a receive queue if there is a shared one, and
// with at least kMinInlineBytes of inline data: NICs round up, and programs rely on it. An XRC
// target has no queues of its own, an XRC initiator no receive queue.
QpInitAttributes Granted(const QpInitAttributes& wanted) {
  QpInitAttributes granted = wanted;
  QpCapabilities& capabilities = granted.capabilities;
  const bool is_target = wanted.type == QpType::kXrcReceive;
  capabilities.max_inline_bytes = std::max(capabilities.max_inline_bytes, kMinInlineBytes);
  if (wanted.srq != nullptr || wanted.type == QpType::kXrcSend) {
    capabilities.max_receive_wr = 0;
    capabilities.max_receive_sge = 0;
  }
  if (is_target) {
    capabilities = {};
    granted.send_cq = granted.receive_cq = nullptr;
    granted.srq = nullptr;
  }
  return granted;
}

bool IsWithinLimits(const QpInitAttributes& init) {
  const QpCapabilities& wanted = init.capabilities;
  const bool has_send_cq = init.send_cq != nullptr || init.type == QpType::kXrcReceive;
  const bool has_receive_cq = init.receive_cq != nullptr || init.type == QpType::kXrcSend ||
                              init.type == QpType::kXrcReceive;
  return wanted.max_send_wr <= kMaxQpWorkRequests && wanted.max_receive_wr <= kMaxQpWorkRequests &&
         wanted.max_send_sge <= kMaxSges && wanted.max_receive_sge <= kMaxSges &&
         wanted.max_inline_bytes <= kMaxInlineBytes && has_send_cq && has_receive_cq;
}

// Whether `member` sent the datagram itself, and was created to get no copy then.
bool IsBlocked(const EndpointConfig& config, const QueuePair& member, const Packet& packet) {
  return member.init_attributes().blocks_own_multicast && packet.deth.source_qpn == member.qpn() &&
         config.FindGid(packet.flow.source) >= 0;
}

// Whether a frame of ours goes to a multicast group: the group bit of the Ethernet address is set.
// The mark of a headerless frame has that bit, too.
bool IsMulticast(const FrameRoom& built) {
  if (built.flow != nullptr) return built.flow->destination.IsMulticast();
  return (built[0] & 1) != 0 && !IsBareFrame(built);
}

}  // namespace

void Endpoint::Free::operator()(EndpointState* /*state*/) const { std::free(memory); }

// The state is large and mostly never touched: calloc takes fresh zero pages from the system, which
// cost nothing until then. It aligns to less than a cache line, so the state is aligned here.
std::unique_ptr<EndpointState, Endpoint::Free> Endpoint::NewState() {
  size_t bytes = sizeof(EndpointState) + alignof(EndpointState);
  void* const memory = std::calloc(1, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  void* aligned = memory;
  std::align(alignof(EndpointState), sizeof(EndpointState), aligned, bytes);
  return {static_cast<EndpointState*>(aligned), Free{memory}};
}

Endpoint::Endpoint(const EndpointConfig& config, EndpointState* state)
    : config_(config),
      own_state_(state == nullptr ? NewState() : decltype(own_state_)()),
      state_(state == nullptr ? own_state_.get() : state),
      own_memory_(config.memory == nullptr ? std::make_unique<MemoryTable>(config.seed) : nullptr),
      memory_(config.memory == nullptr ? *own_memory_ : *config.memory),
      xrc_queues_(MakeXrcQueues(config)),
      xrc_farewells_(config_, transmits_),
      reorder_pool_(config.reorder_packets, Bytes(config.active_mtu())),
      device_(config.context),
      queue_pair_one_(config_, *state_, transmits_, deadlines_),
      environment_{config_,        memory_,       events_,
                   deadlines_,     transmits_,    xrc_queues_,
                   xrc_farewells_, reorder_pool_, queue_pair_one_.peers()},
      queue_pairs_(config.qpn_count),
      random_(config.seed, kQpnStream),
      free_qpns_(config.qpn_count) {
  deadlines_.Reserve(config.qpn_count + kMaxCqs + kOtherDeadlines);
  std::iota(free_qpns_.begin(), free_qpns_.end(), uint16_t{0});
}

Endpoint::~Endpoint() = default;

std::unique_ptr<CompletionQueue> Endpoint::CreateCompletionQueue(uint32_t capacity, void* context,
                                                                 bool timed) const {
  return std::make_unique<CompletionQueue>(capacity, environment_.events, context, &queue_clock_,
                                           timed);
}

std::unique_ptr<CompletionQueue> Endpoint::DestroyCompletionQueue(
    std::unique_ptr<CompletionQueue> queue) {
  queue->Retire();
  return queue;
}

std::unique_ptr<SharedReceiveQueue> Endpoint::CreateSharedReceiveQueue(
    const SrqInitAttributes& attributes) const {
  const bool fits =
      attributes.max_work_requests >= 1 && attributes.max_work_requests <= kMaxSrqWorkRequests &&
      attributes.max_sges <= kMaxSges && attributes.limit <= attributes.max_work_requests;
  return fits ? std::make_unique<SharedReceiveQueue>(attributes, environment_.events) : nullptr;
}

std::unique_ptr<SharedReceiveQueue> Endpoint::DestroySharedReceiveQueue(
    std::unique_ptr<SharedReceiveQueue> queue) {
  events_.Forget(*queue);
  if (queue->is_xrc()) {
    xrc_queues_.Remove(*queue);
    for (const auto& qp : queue_pairs_) {
      if (qp != nullptr) qp->Leave(*queue);
    }
  }
  return queue;
}

Status Endpoint::CreateQueues(const QpInitAttributes& attributes,
                              std::optional<QueuePair::Queues>& out) const {
  const QpInitAttributes granted = Granted(attributes);
  if (!IsWithinLimits(granted)) return Status::kInvalidArgument;
  out.emplace(granted);
  return Status::kOk;
}

Status Endpoint::CreateQueuePair(const QpInitAttributes& attributes, QueuePair::Queues&& queues,
                                 QueuePair** out) {
  if (free_qpns_.empty()) return Status::kNoMemory;
  const size_t chosen = ChooseFreeQpn();
  const uint32_t index = free_qpns_[chosen];
  const Qpn qpn{config_.first_qpn.value + index};
  auto qp = std::make_unique<QueuePair>(qpn, Granted(attributes), std::move(queues), environment_,
                                        state_->queue_pairs[index]);
  *out = qp.get();
  queue_pairs_[index] = std::move(qp);
  free_qpns_.erase(free_qpns_.begin() + static_cast<ptrdiff_t>(chosen));
  return Status::kOk;
}

Status Endpoint::CreateQueuePair(const QpInitAttributes& attributes, QueuePair** out) {
  std::optional<QueuePair::Queues> queues;
  if (const Status status = CreateQueues(attributes, queues); status != Status::kOk) return status;
  return CreateQueuePair(attributes, std::move(*queues), out);
}

QueuePair::Queues Endpoint::DestroyQueuePair(QueuePair* qp) {
  multicast_.DetachFromAll(*qp);
  memory_.ForgetQueuePair(qp->qpn());
  qp->PurgeCompletions();
  const uint32_t index = qp->qpn().value - config_.first_qpn.value;
  QueuePair::Queues queues = qp->TakeQueues();
  const std::atomic_ref moves(state_->moves);
  moves.fetch_add(1);
  state_->counters += state_->queue_pairs[index].counters;
  queue_pairs_[index].reset();
  moves.fetch_add(1);
  free_qpns_.push_back(static_cast<uint16_t>(index));
  return queues;
}

// A random one of the half that has been free for longest: peers cannot guess it, and packets for
// its last user are hardly still under way.
size_t Endpoint::ChooseFreeQpn() {
  return random_.Below(static_cast<uint32_t>((free_qpns_.size() + 1) / 2));
}

QueuePair* Endpoint::Find(Qpn qpn) const {
  return config_.OwnsQpn(qpn) ? queue_pairs_[qpn.value - config_.first_qpn.value].get() : nullptr;
}

Counters Endpoint::counters() const {
  Counters total = state_->counters;
  for (size_t i = 0; i < queue_pairs_.size(); ++i) {
    if (queue_pairs_[i] != nullptr) total += state_->queue_pairs[i].counters;
  }
  return total;
}

// Without a receiver the frame counts for the endpoint alone.
inline void Endpoint::CountReceived(QueuePair* receiver, size_t frame_bytes, DropReason result) {
  if (result != DropReason::kNone) ++state_->counters.drops(result);
  if (receiver != nullptr && IsOfQueuePair(result)) return receiver->CountReceived(frame_bytes);
  ++state_->counters.received_packets;
  state_->counters.received_bytes += frame_bytes;
}

// Inlined into both callers, as most packets need no more.
[[gnu::always_inline]] inline DropReason Endpoint::Take(Time now, const ReceivedPacket& received) {
  const PacketView view = ViewPacket(received.bytes);
  QueuePair* qp = Find(view.destination_qpn());
  const bool is_peers = qp != nullptr && qp->IsPeersPacket(received, view);
  std::optional<DropReason> result;
  if (is_peers && received.is_icrc_right) [[likely]]
    result = qp->OnPredictedPacket(now, view);
  if (!result) [[unlikely]]
    result = OnOtherPacket(now, received, view, is_peers, qp);
  CountReceived(qp, received.frame_bytes, *result);
  return *result;
}

// A packet that is not predicted. `receiver` is the queue pair that it names, if any.
DropReason Endpoint::OnOtherPacket(Time now, const ReceivedPacket& received, const PacketView& view,
                                   bool is_peers, QueuePair*& receiver) {
  Packet packet;
  const DropReason reason = ParseReceived(received, view, packet);
  if (reason != DropReason::kNone) return reason;
  if (is_peers) return receiver->OnPeersPacket(now, packet);
  if (IsXrcRelayed(packet)) [[unlikely]] {
    receiver = nullptr;
    return xrc_executors_.OnPacket(now, packet, receiver);
  }
  const DropReason result = Deliver(now, packet);
  // A datagram that we sent to a group comes back even if the group has no members here.
  const bool is_own_copy = packet.from == Route::kLoopback && result == DropReason::kNotAMember;
  return is_own_copy ? DropReason::kNone : result;
}

DropReason Endpoint::OnFrame(Time now, std::span<const uint8_t> frame, Route from, IcrcUse icrc) {
  SetTime(now);
  if (icrc == IcrcUse::kWaivedWithHeaders && IsBareFrame(frame)) {
    return OnBareFrame(now, frame, from);
  }
  return OnEthernetFrame(now, frame, from, icrc);
}

DropReason Endpoint::OnEthernetFrame(Time now, std::span<const uint8_t> frame, Route from,
                                     IcrcUse icrc) {
  const DropReason reason = decapsulator_.Strip(frame, icrc, stripped_);
  stripped_.from = from;
  if (reason == DropReason::kNone) [[likely]]
    return Take(now, stripped_);
  CountReceived(nullptr, frame.size(), reason);
  return reason;
}

DropReason Endpoint::OnPacket(Time now, const ReceivedPacket& received) {
  SetTime(now);
  return Take(now, received);
}

// The frame's source is the process that shares the memory it lies in; it carries no address.
inline DropReason Endpoint::OnBareFrame(Time now, std::span<const uint8_t> frame, Route from) {
  const PacketView peers = ViewPacket(frame.subspan(BareFrame::kMarkBytes));
  QueuePair* const qp = Find(peers.destination_qpn());
  std::optional<DropReason> result;
  if (qp != nullptr && qp->TakesBareFrames(from)) [[likely]]
    result = qp->OnPredictedPacket(now, peers);
  if (!result) [[unlikely]]
    result = OnOtherBareFrame(now, qp, peers, from);
  CountReceived(qp, frame.size(), *result);
  return *result;
}

// A headerless frame that is not predicted.
DropReason Endpoint::OnOtherBareFrame(Time now, QueuePair* qp, const PacketView& peers,
                                      Route from) {
  if (qp == nullptr) return DropReason::kUnknownQp;
  if (!qp->TakesBareFrames(from)) [[unlikely]] {
    const DropReason reason = qp->OnBareFrame(from);
    if (reason != DropReason::kNone) return reason;
  }
  Packet packet;
  packet.from = from;
  const DropReason reason = ParsePacket(peers, packet);
  return reason == DropReason::kNone ? qp->OnPeersPacket(now, packet) : reason;
}

void Endpoint::OnDeadline(Time now) {
  SetTime(now);
  deadlines_.RunDue(now);
}

// IBA 9.6.1.2.3, C9-43.
DropReason Endpoint::Deliver(Time now, const Packet& packet) {
  const bool is_multicast = packet.flow.destination.IsMulticast();
  if (!is_multicast && config_.FindGid(packet.flow.destination) < 0) {
    return DropReason::kForeignDestination;
  }
  if (!config_.HasPartition(packet.pkey)) return DropReason::kBadPkey;
  if (is_multicast) return DeliverMulticast(now, packet);
  QueuePair* qp = Find(packet.destination_qpn);
  if (qp != nullptr) return qp->OnPacket(now, packet);
  const bool is_management = packet.destination_qpn == kGeneralServicesQpn;
  return is_management ? queue_pair_one_.OnPacket(now, packet) : DropReason::kUnknownQp;
}

// Every member gets a copy (IBA 10.5.2). The packet counts as dropped if no member took it.
DropReason Endpoint::DeliverMulticast(Time now, const Packet& packet) {
  if (packet.destination_qpn != kMulticastQpn) return DropReason::kUnknownQp;
  DropReason result = DropReason::kNotAMember;
  for (QueuePair* member : multicast_.Members(packet.flow.destination)) {
    if (IsBlocked(config_, *member, packet)) continue;
    const DropReason reason = member->OnPacket(now, packet);
    if (result != DropReason::kNone) result = reason;
  }
  return result;
}

DropReason Endpoint::OnRawFrame(Time now, std::span<const uint8_t> frame,
                                std::span<QueuePair* const> takers) {
  SetTime(now);
  DropReason result = DropReason::kNoFlow;
  QueuePair* receiver = nullptr;
  for (QueuePair* const qp : takers) {
    const DropReason own_result = qp->OnRawFrame(frame);
    if (result == DropReason::kNone) continue;
    result = own_result;
    receiver = qp;
  }
  CountReceived(receiver, frame.size(), result);
  return result;
}

void Endpoint::CopyFrame(Time now, std::span<const uint8_t> frame,
                         std::span<QueuePair* const> watchers) {
  SetTime(now);
  for (QueuePair* const qp : watchers) {
    const DropReason reason = qp->OnRawFrame(frame);
    if (reason != DropReason::kNone) ++state_->counters.drops(reason);
  }
}

// IBA 11.3.1.
Status Endpoint::AttachMulticast(QueuePair& qp, const Gid& group) {
  const bool is_datagram = qp.init_attributes().type == QpType::kUnreliableDatagram;
  if (!is_datagram || !group.IsMulticast()) return Status::kInvalidArgument;
  return multicast_.Attach(group, qp);
}

Status Endpoint::DetachMulticast(QueuePair& qp, const Gid& group) {
  return multicast_.Detach(group, qp);
}

void Endpoint::TellPortState(bool active) {
  events_.Raise(device_, active ? EventType::kPortActive : EventType::kPortError);
}

void Endpoint::FollowGids(const std::vector<Gid>& gids) {
  config_.gids = gids;
  for (const auto& qp : queue_pairs_) {
    if (qp != nullptr) qp->FollowGids();
  }
  events_.Raise(device_, EventType::kGidChange);
}

void Endpoint::OnPeerGone(Route route) {
  for (const auto& qp : queue_pairs_) {
    if (qp != nullptr) qp->OnPeerGone(route);
  }
  xrc_executors_.OnProcessGone(route);
}

// IBA 11.6.3.3 DEVICE_FATAL.
void Endpoint::Fail() {
  events_.Raise(device_, EventType::kDeviceFatal);
  for (const auto& qp : queue_pairs_) {
    if (qp != nullptr) qp->Fail();
  }
}

size_t Endpoint::BuildAtOnce(Time now, QueuePair& qp, const FrameRoom& out) {
  SetTime(now);
  return qp.BuildAtOnce(now, out);
}

size_t Endpoint::PollTransmit(Time now, Route route, const FrameRoom& out) {
  SetTime(now);
  const size_t frame_bytes = transmits_.BuildFrame(now, route, out);
  // The wire brings no copy back for the members among our own queue pairs.
  if (frame_bytes != 0 && IsMulticast(out) && config_.copies_to_own_members) {
    LoopBackMulticast(now, frame_bytes, out);
  }
  return frame_bytes;
}

void Endpoint::LoopBackMulticast(Time now, size_t frame_bytes, const FrameRoom& built) {
  std::array<uint8_t, kMaxFrameBytes> copy;
  Packet packet;
  const auto frame = BuiltFrame(built, frame_bytes, copy);
  if (ParseFrame(frame, packet, built.icrc) != DropReason::kNone) return;
  packet.from = Route::kLoopback;
  const DropReason result = Deliver(now, packet);
  const bool dropped = result != DropReason::kNone && result != DropReason::kNotAMember;
  if (dropped) ++state_->counters.drops(result);
}

void Endpoint::UpdateNeighbor(const Gid& gid, const MacAddress& mac) {
  queue_pair_one_.OnNeighbor(gid, mac);
  for (const auto& qp : queue_pairs_) {
    if (qp != nullptr) qp->UpdateNeighbor(gid, mac);
  }
}

}  // namespace uroce::transport
