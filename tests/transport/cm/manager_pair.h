#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "transport/cm/connection_manager.h"
#include "transport/cm/message_codec.h"

namespace uroce::transport::cm {

inline constexpr ServiceId kService = ServiceIdOf(PortSpace::kTcp, 7471);
inline constexpr uint8_t kLifeTime = 16;  // 268 ms, rdma_cm's value for RoCE
inline constexpr uint8_t kAckDelay = 15;

// One communication manager and its place on the wire.
struct Side {
  Gid gid;
  ConnectionManager manager;

  explicit Side(uint8_t number)
      : gid(Gid::FromIpv4({10, 0, 0, number})),
        manager({.ca_guid = 0x1000u + number, .ack_delay = kAckDelay, .seed = {number, 7}}) {}

  Path PathTo(const Side& other) const {
    Path path{.source_gid = gid, .mtu = Mtu::k4096, .packet_life_time = kLifeTime};
    path.address.destination_gid = other.gid;
    path.address.destination_mac = {2, 0, 0, 0, 0, other.gid.bytes[15]};
    return path;
  }
  // The address that MADs of `other` come from.
  MadAddress AddressOf(const Side& other) const { return {.path = PathTo(other).address}; }

  std::vector<MadBytes> TakeMads() {
    std::vector<MadBytes> mads;
    while (auto mad = manager.PollTransmit()) mads.push_back(mad->mad);
    return mads;
  }
  // The next event, if it is of this kind and no other follows.
  std::optional<Event> OnlyEvent(EventKind kind) {
    auto event = manager.TakeEvent();
    if (!event || event->kind != kind || manager.HasEvent()) return std::nullopt;
    return event;
  }
};

// Two sides and a wire that loses only the MADs that a test takes away.
struct ManagerPair {
  Side active{1};
  Side passive{2};
  Time now{1'000'000};

  static void Deliver(Time now, Side& from, Side& to) {
    for (const MadBytes& mad : from.TakeMads()) to.manager.OnMad(now, mad, to.AddressOf(from));
  }
  void ToPassive() { Deliver(now, active, passive); }
  void ToActive() { Deliver(now, passive, active); }

  void Advance(Duration by) {
    now = now + by;
    active.manager.OnDeadline(now);
    passive.manager.OnDeadline(now);
  }
  // Advances to the next timer of `side`.
  void AdvanceTo(const Side& side) { Advance(side.manager.NextDeadline() - now); }

  CommunicationId Listen(ServiceId service = kService, uint32_t backlog = 0) {
    const CommunicationId id = *passive.manager.Create();
    return passive.manager.Listen(id, service, kExactServiceMask, backlog) == Status::kOk
               ? id
               : CommunicationId{};
  }

  ConnectParameters Request(uint32_t qpn = 0x111) const {
    return {.service_id = kService,
            .path = active.PathTo(passive),
            .qpn = {qpn},
            .starting_psn = Psn(0x1111),
            .responder_resources = 4,
            .initiator_depth = 3,
            .retry_count = 6,
            .rnr_retry_count = 5};
  }
  static AcceptParameters Acceptance(uint32_t qpn = 0x222) {
    return {.qpn = {qpn},
            .starting_psn = Psn(0x2222),
            .responder_resources = 2,
            .initiator_depth = 1,
            .rnr_retry_count = 4};
  }

  // Both ends of a connection.
  struct Ends {
    CommunicationId active;
    CommunicationId passive;
  };
  // Connects until the passive side has the request.
  Ends Ask(uint32_t qpn = 0x111) {
    Ends ends{.active = *active.manager.Create(), .passive = {}};
    (void)active.manager.Connect(now, ends.active, Request(qpn));
    ToPassive();
    const auto event = passive.OnlyEvent(EventKind::kReqReceived);
    if (event) ends.passive = event->id;
    return ends;
  }
  // Connects until the active side has the reply.
  Ends AskAndAccept(uint32_t qpn = 0x111) {
    const Ends ends = Ask(qpn);
    (void)passive.manager.Accept(now, ends.passive, Acceptance(qpn + 0x1000));
    ToActive();
    (void)active.OnlyEvent(EventKind::kRepReceived);
    return ends;
  }
  Ends Establish(uint32_t qpn = 0x111) {
    const Ends ends = AskAndAccept(qpn);
    (void)active.manager.ConfirmReady(ends.active, {});
    ToPassive();
    (void)passive.OnlyEvent(EventKind::kRtuReceived);
    return ends;
  }

  // Runs all timers. Returns whether no id and no peer is left.
  bool NothingIsLeft() {
    while (active.manager.NextDeadline() != kNever) AdvanceTo(active);
    while (passive.manager.NextDeadline() != kNever) AdvanceTo(passive);
    return active.manager.id_count() == 0 && passive.manager.id_count() == 0 &&
           active.manager.remote_count() == 0 && passive.manager.remote_count() == 0 &&
           passive.manager.half_open_count() == 0;
  }

  State ActiveState(const Ends& ends) const { return *active.manager.StateOf(ends.active); }
  State PassiveState(const Ends& ends) const { return *passive.manager.StateOf(ends.passive); }
};

template <class T>
std::optional<T> As(const MadBytes& mad) {
  const ParsedMad parsed = ParseMessage(mad);
  if (!std::holds_alternative<T>(parsed.message)) return std::nullopt;
  return std::get<T>(parsed.message);
}

}  // namespace uroce::transport::cm
