#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "transport/cm/connection_manager.h"
#include "transport/counters.h"
#include "transport/endpoint_config.h"
#include "transport/endpoint_state.h"
#include "transport/ids.h"
#include "transport/qp/deadline_queue.h"
#include "transport/qp/transmit_schedule.h"
#include "transport/route.h"
#include "transport/time.h"
#include "transport/wire/frame_room.h"
#include "transport/wire/packet.h"

namespace uroce::transport {

// Queue pair 1 of the port, the general services interface, with the communication manager behind
// it: passes arriving MADs to the communication manager, and sends its MADs as datagrams.
//
//   UD packet to queue pair 1 --> OnPacket --> connection_manager() --> Update --+--> kLoopback
//                                                                                +--> kWire
//                        Ethernet address still unknown: unresolved_ --> Resolve-+
//
// It exists only in endpoints whose communication manager is used. It allocates memory: it is not
// on the data path.
class GeneralServices : public DeadlineClient {
 public:
  // How many datagrams may wait for an Ethernet address; further ones are dropped.
  static constexpr size_t kMaxUnresolved = 256;
  // A datagram is dropped after this wait: the communication manager sends it again.
  static constexpr Duration kUnresolvedFor = Milliseconds(2'000);
  static constexpr Duration kAskAgain = Milliseconds(10);

  // All arguments outlive this object.
  GeneralServices(const EndpointConfig& config, EndpointState& state, TransmitSchedule& transmits,
                  DeadlineQueue& deadlines);
  ~GeneralServices() override;

  // Call Update after using it.
  cm::ConnectionManager& connection_manager() { return manager_; }
  // Queues the MADs that the communication manager wants to send, and adopts its deadline.
  void Update(Time now);

  // A packet to queue pair 1 of one of our GIDs.
  DropReason OnPacket(Time now, const Packet& packet);
  void OnDeadline(Time now) override;

  // Whether datagrams wait for Ethernet addresses, and it is time to call Resolve.
  bool WantsNeighbors() const { return wants_neighbors_; }
  // Calls `resolve(gid)` for each waiting datagram; it returns the Ethernet address if it is known.
  template <class ResolveNeighbor>
  void Resolve(Time now, ResolveNeighbor resolve);
  // An Ethernet address became known: Resolve is worth a call.
  void OnNeighbor() { wants_neighbors_ = !unresolved_.empty(); }

 private:
  struct Unresolved {
    cm::OutgoingMad mad;
    Time until;
  };
  // The datagrams that go by one route.
  class Outlet : public TransmitClient {
   public:
    Outlet(GeneralServices& services, Route route) : services_(services), route_(route) {}
    void Add(cm::OutgoingMad mad);
    void LeaveSchedule() { services_.transmits_.Remove(route_, *this); }
    size_t BuildFrame(Time now, const FrameRoom& out) override;

   private:
    GeneralServices& services_;
    const Route route_;
    std::deque<cm::OutgoingMad> mads_;
  };

  // Connection requests that were dropped or refused, as too many wait for their answer.
  uint64_t RequestsWithoutRoom() const {
    return manager_.counters().half_open_full + manager_.counters().backlog_full;
  }
  Route RouteOf(const cm::OutgoingMad& mad) const;
  void Send(cm::OutgoingMad mad);
  size_t Emit(const cm::OutgoingMad& mad, FrameRoom out);
  void SetDeadline();

  const EndpointConfig& config_;
  Counters& counters_;
  TransmitSchedule& transmits_;
  DeadlineQueue& deadlines_;
  cm::ConnectionManager manager_;
  Psn next_psn_;
  Outlet wire_;
  Outlet loopback_;
  std::deque<Unresolved> unresolved_;
  Time ask_at_ = kNever;  // when Resolve is to be called again
  bool wants_neighbors_ = false;
};

template <class ResolveNeighbor>
void GeneralServices::Resolve(Time now, ResolveNeighbor resolve) {
  std::deque<Unresolved> waiting;
  waiting.swap(unresolved_);
  for (Unresolved& entry : waiting) {
    MacAddress& mac = entry.mad.destination.path.destination_mac;
    if (const auto found = resolve(entry.mad.destination.path.destination_gid)) mac = *found;
    if (mac != MacAddress{}) {
      Send(std::move(entry.mad));
    } else if (now < entry.until) {
      unresolved_.push_back(std::move(entry));
    }
  }
  wants_neighbors_ = false;
  ask_at_ = unresolved_.empty() ? kNever : now + kAskAgain;
  SetDeadline();
}

}  // namespace uroce::transport
