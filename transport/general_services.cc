#include "transport/general_services.h"

#include <algorithm>
#include <utility>

#include "transport/cm/limits.h"
#include "transport/cm/mad.h"
#include "transport/cm/steering.h"
#include "transport/limits.h"
#include "transport/mad_frame.h"

namespace uroce::transport {
namespace {

using cm::MadAddress;
using cm::OutgoingMad;

constexpr uint8_t kEcnBits = 3;

cm::Config ManagerConfig(const EndpointConfig& config) {
  uint64_t guid = 0;
  for (const uint8_t byte : Gid::LinkLocal(config.mac).bytes) guid = guid << 8 | byte;
  return {.ca_guid = guid,  // the lower 64 bits of the GID
          .ack_delay = kLocalCaAckDelay,
          .seed = config.seed,
          .id_prefix = BlockOf(config.first_qpn),
          .id_prefix_bits = cm::Steering::kBlockBits};
}

// The address of a datagram's sender.
MadAddress SourceOf(const EndpointConfig& config, const Packet& packet) {
  MadAddress source{.qpn = packet.deth.source_qpn};
  source.path.destination_gid = packet.flow.source;
  source.path.destination_mac = packet.flow.source_mac;
  source.path.source_gid_index = static_cast<uint8_t>(config.FindGid(packet.flow.destination));
  source.path.traffic_class = packet.flow.traffic_class & ~kEcnBits;
  return source;
}

}  // namespace

GeneralServices::GeneralServices(const EndpointConfig& config, EndpointState& state,
                                 TransmitSchedule& transmits, DeadlineQueue& deadlines,
                                 PeerTable& peers)
    : config_(config),
      counters_(state.counters),
      peer_counters_(state.peers),
      transmits_(transmits),
      deadlines_(deadlines),
      peers_(peers),
      manager_(ManagerConfig(config), &state.connection_manager),
      wire_(*this, Route::kWire),
      loopback_(*this, Route::kLoopback) {}

GeneralServices::~GeneralServices() {
  deadlines_.Remove(*this);
  wire_.LeaveSchedule();
  loopback_.LeaveSchedule();
}

void GeneralServices::Update(Time now) {
  while (auto mad = manager_.PollTransmit()) SendOrResolve(now, std::move(*mad));
  peers_.Run(now, [&](const AddressVector& address, const PeerQuery& query) {
    SendOrResolve(now, {EmitPeerQuery(query), {.path = address}});
  });
  SetDeadline();
}

void GeneralServices::SendOrResolve(Time now, OutgoingMad mad) {
  MadAddress& to = mad.destination;
  if (config_.SourceOf(to.path).IsZero()) return;
  if (config_.FindGid(to.path.destination_gid) >= 0) to.path.destination_mac = config_.mac;
  if (to.path.destination_mac != MacAddress{}) {
    Send(std::move(mad));
  } else if (unresolved_.size() < kMaxUnresolved) {
    unresolved_.push_back({std::move(mad), now + kUnresolvedFor});
    wants_neighbors_ = true;
    ask_at_ = now;  // makes a deadline due, and so a pass of the engine
  }
}

// Datagrams with another Q_Key, and those that are no MAD, are dropped silently.
DropReason GeneralServices::OnPacket(Time now, const Packet& packet) {
  const Opcode& opcode = packet.opcode;
  if (opcode.service != Service::kUnreliableDatagram) return DropReason::kWrongService;
  if (packet.deth.qkey != kGeneralServicesQkey) return DropReason::kBadQkey;
  if (packet.payload.size() != kMadBytes || opcode.HasImmediate()) {
    return DropReason::kMessageTooLong;
  }
  if (IsOfPeerQueryClass(packet.payload.data())) {
    OnPeerQuery(now, packet);
    return DropReason::kNone;
  }
  const uint64_t without_room = RequestsWithoutRoom();
  manager_.OnMad(now, packet.payload, SourceOf(config_, packet));
  Update(now);
  return RequestsWithoutRoom() == without_room ? DropReason::kNone : DropReason::kReceiverNotReady;
}

// An answer is as long as the query, and goes to its source: queries in the name of another host
// bring that host no more than they cost.
void GeneralServices::OnPeerQuery(Time now, const Packet& packet) {
  const auto query = ParsePeerQuery(packet.payload.data());
  const bool is_from_peer =
      packet.deth.source_qpn == kGeneralServicesQpn && packet.flow.HasUnicastSource();
  if (!query || peers_.own_features() == 0 || !is_from_peer) {
    ++peer_counters_.ignored;
  } else if (query->kind != PeerQuery::Kind::kQuery) {
    peers_.OnAnswer(now, packet.flow.source, *query);
  } else if (wire_.size() < kMaxBeforeAnswers) {
    ++peer_counters_.queries_answered;
    SendOrResolve(now, {EmitPeerQuery(AnswerTo(*query)), SourceOf(config_, packet)});
  }
  SetDeadline();
}

// In a fabric uroced has told already that this process lives. QPNs of other processes are asked
// about in direct mode only, where there is no other process.
PeerQuery GeneralServices::AnswerTo(const PeerQuery& query) const {
  using Process = PeerQuery::Process;
  const Process own = config_.OwnsQpn(query.qpn) ? Process::kRuns : Process::kGone;
  return query.Answer(peers_.own_features(), query.IsAboutProcess() ? own : Process::kNotTold);
}

void GeneralServices::OnDeadline(Time now) {
  if (ask_at_ <= now) {
    ask_at_ = kNever;
    wants_neighbors_ = true;
  }
  manager_.OnDeadline(now);
  Update(now);
}

// In a fabric a request goes to the switch even if its listener is in this process: the switch
// knows which process has a service. All other messages name their receiver.
Route GeneralServices::RouteOf(const OutgoingMad& mad) const {
  const bool is_own_gid = config_.FindGid(mad.destination.path.destination_gid) >= 0;
  if (!is_own_gid && (config_.has_wire || !config_.has_links)) return Route::kWire;
  const auto steering = cm::Steering::Parse(mad.mad.data());
  if (!steering) return Route::kWire;
  if (steering->IsRequest()) {
    const bool is_ours = !config_.has_links && manager_.IsListenedTo(*steering->service);
    return is_ours ? Route::kLoopback : Route::kWire;
  }
  const uint32_t block = cm::Steering::BlockOf(*steering->recipient);
  return block == BlockOf(config_.first_qpn) ? Route::kLoopback : Route::kWire;
}

void GeneralServices::Send(OutgoingMad mad) {
  Outlet& outlet = RouteOf(mad) == Route::kLoopback ? loopback_ : wire_;
  outlet.Add(std::move(mad));
}

void GeneralServices::Outlet::Add(OutgoingMad mad) {
  if (mads_.size() >= cm::kMaxQueuedMads) return;
  mads_.push_back(std::move(mad));
  services_.transmits_.Add(route_, *this);
}

size_t GeneralServices::Outlet::BuildFrame(Time, const FrameRoom& out) {
  if (mads_.empty()) return 0;
  const size_t frame_bytes = services_.Emit(mads_.front(), out);
  mads_.pop_front();
  ++services_.counters_.transmitted_packets;
  services_.counters_.transmitted_bytes += frame_bytes;
  return frame_bytes;
}

size_t GeneralServices::Emit(const OutgoingMad& mad, FrameRoom out) {
  const Gid source = config_.SourceOf(mad.destination.path);
  const Psn psn = next_psn_;
  ++next_psn_;
  return EmitMadFrame(config_.mac, source, mad.destination, mad.mad, psn, out);
}

void GeneralServices::SetDeadline() {
  deadlines_.Set(*this, std::min({manager_.NextDeadline(), peers_.NextDeadline(), ask_at_}));
}

QueuePairOne::QueuePairOne(const EndpointConfig& config, EndpointState& state,
                           TransmitSchedule& transmits, DeadlineQueue& deadlines)
    : config_(config),
      state_(state),
      transmits_(transmits),
      deadlines_(deadlines),
      peers_(config.features, BlockOf(config.first_qpn), config.seed, *this, state.peers) {}

GeneralServices& QueuePairOne::UseServices() {
  if (services_ == nullptr) {
    services_ = std::make_unique<GeneralServices>(config_, state_, transmits_, deadlines_, peers_);
  }
  return *services_;
}

// In a fabric, packets to queue pair 1 come through uroced's switch, which checks their sender.
// They never come by a link, where a process could forge them.
DropReason QueuePairOne::OnPacket(Time now, const Packet& packet) {
  if (IsLink(packet.from)) return DropReason::kForeignSource;
  return UseServices().OnPacket(now, packet);
}

void QueuePairOne::OnNeighbor(const Gid& gid, const MacAddress& mac) {
  peers_.OnNeighbor(gid, mac);
  if (services_ != nullptr) services_->OnNeighbor();
}

}  // namespace uroce::transport
