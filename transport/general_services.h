#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "transport/cm/connection_manager.h"
#include "transport/counters.h"
#include "transport/endpoint_config.h"
#include "transport/endpoint_state.h"
#include "transport/ids.h"
#include "transport/peers/peer_query.h"
#include "transport/peers/peer_table.h"
#include "transport/qp/deadline_queue.h"
#include "transport/qp/transmit_schedule.h"
#include "transport/route.h"
#include "transport/time.h"
#include "transport/wire/frame_room.h"
#include "transport/wire/packet.h"

namespace uroce::transport {

// Queue pair 1 of the port, the general services interface, with the communication manager and the
// table of peers behind it: passes arriving MADs to them, and sends their MADs as datagrams.
//
//   UD packet to queue pair 1 --> OnPacket -+-> connection_manager() --> Update -+--> kLoopback
//                                           |                                    |
//                                           +-> PeerTable, answers --------------+--> kWire
//                        Ethernet address still unknown: unresolved_ --> Resolve-+
//
// It exists only in endpoints whose communication manager is used, that ask a peer, or that were
// sent a MAD. It allocates memory: it is not on the data path.
class GeneralServices : public DeadlineClient {
 public:
  // How many datagrams may wait for an Ethernet address; further ones are dropped.
  static constexpr size_t kMaxUnresolved = 256;
  // A datagram is dropped after this wait: the communication manager sends it again.
  static constexpr Duration kUnresolvedFor = Milliseconds(2'000);
  static constexpr Duration kAskAgain = Milliseconds(10);
  // Queries are not answered while so many datagrams wait for the wire: answers to a flood leave
  // room for the communication manager, and peers ask again.
  static constexpr size_t kMaxBeforeAnswers = 256;

  // All arguments outlive this object.
  GeneralServices(const EndpointConfig& config, EndpointState& state, TransmitSchedule& transmits,
                  DeadlineQueue& deadlines, PeerTable& peers);
  ~GeneralServices() override;

  // Call Update after using it.
  cm::ConnectionManager& connection_manager() { return manager_; }
  // Queues the MADs that the communication manager wants to send, and adopts its deadline.
  void Update(Time now);

  // A packet to queue pair 1 of one of our GIDs.
  DropReason OnPacket(Time now, const Packet& packet);
  void OnDeadline(Time now) override;
  // The table of peers has a query to send.
  void OnPeerWanted() { SetDeadline(); }

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
    size_t size() const { return mads_.size(); }
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
  void OnPeerQuery(Time now, const Packet& packet);
  PeerQuery AnswerTo(const PeerQuery& query) const;
  Route RouteOf(const cm::OutgoingMad& mad) const;
  void SendOrResolve(Time now, cm::OutgoingMad mad);
  void Send(cm::OutgoingMad mad);
  size_t Emit(const cm::OutgoingMad& mad, FrameRoom out);
  void SetDeadline();

  const EndpointConfig& config_;
  Counters& counters_;
  PeerCounters& peer_counters_;
  TransmitSchedule& transmits_;
  DeadlineQueue& deadlines_;
  PeerTable& peers_;
  cm::ConnectionManager manager_;
  Psn next_psn_;
  Outlet wire_;
  Outlet loopback_;
  std::deque<Unresolved> unresolved_;
  Time ask_at_ = kNever;  // when Resolve is to be called again
  bool wants_neighbors_ = false;
};

// Queue pair 1 of an endpoint: the table of peers, and the general services, which are made when
// they are first used.
class QueuePairOne : private PeerTable::Listener {
 public:
  // All arguments outlive this object.
  QueuePairOne(const EndpointConfig& config, EndpointState& state, TransmitSchedule& transmits,
               DeadlineQueue& deadlines);

  PeerTable& peers() { return peers_; }
  GeneralServices* services() { return services_.get(); }  // nullptr until UseServices
  GeneralServices& UseServices();
  DropReason OnPacket(Time now, const Packet& packet);
  // The Ethernet address of a neighbour changed.
  void OnNeighbor(const Gid& gid, const MacAddress& mac);

 private:
  // On the data path, but only after a loss, and makes the general services once.
  void OnPeerWanted() override { UseServices().OnPeerWanted(); }

  const EndpointConfig& config_;
  EndpointState& state_;
  TransmitSchedule& transmits_;
  DeadlineQueue& deadlines_;
  PeerTable peers_;
  std::unique_ptr<GeneralServices> services_;
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
