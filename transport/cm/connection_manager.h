#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "transport/cm/connection.h"
#include "transport/cm/counters.h"
#include "transport/cm/event.h"
#include "transport/cm/parameters.h"
#include "transport/qp_attributes.h"
#include "transport/random_numbers.h"
#include "transport/status.h"

namespace uroce::transport::cm {

struct OutgoingMad {
  MadBytes mad;
  MadAddress destination;
};

// The communication manager of one device in one process: MADs, the calls of users and the time go
// in, MADs and events come out. It neither knows queue pairs nor touches them: Attributes() says
// how to modify one. README.md has the life of a connection.
//
// The calls are those of ib_cm of Linux; with an unknown id, or in a state that does not allow
// them, they return kInvalidArgument and change nothing. Not thread-safe.
class ConnectionManager {
 public:
  // Counts in `counters`, which outlives the manager, or in counters of its own.
  explicit ConnectionManager(const Config& config, Counters* counters = nullptr);

  // --- ids
  // A new id, for one listener, connection or resolution; nullopt if there are too many.
  std::optional<CommunicationId> Create();
  // Ends the connection, listener or resolution, tells the peer (REJ, DREQ, DREP), and drops its
  // events. The id is gone for the user; a DREQ is still repeated and the timewait kept.
  void Destroy(Time now, CommunicationId id);
  // Like Destroy, but an unanswered request of a peer is dropped silently: the peer will repeat it.
  void Abandon(Time now, CommunicationId id);
  std::optional<State> StateOf(CommunicationId id) const;

  // --- passive side
  // kBusy: another listener matches the same service ids. kAssignServiceId chooses one; `backlog`
  // is how many requests may be unanswered before further ones are dropped.
  Status Listen(CommunicationId id, ServiceId service_id, uint64_t mask = kExactServiceMask,
                uint32_t backlog = 0);
  // The service id that Listen was given or chose.
  std::optional<ServiceId> ListeningOn(CommunicationId id) const;
  // Whether a request for this service has a listener.
  bool IsListenedTo(ServiceId service_id) const { return FindListener(service_id) != nullptr; }
  Status Accept(Time now, CommunicationId id, const AcceptParameters& parameters);  // REP
  // The queue pair has received a packet (COMM_EST), which counts as an RTU.
  Status CommunicationEstablished(CommunicationId id);

  // --- active side
  Status Connect(Time now, CommunicationId id, const ConnectParameters& parameters);  // REQ
  Status ConfirmReady(CommunicationId id, Bytes private_data);                        // RTU

  // --- both
  Status Reject(Time now, CommunicationId id, const RejectParameters& parameters);  // REJ
  // MRA: the answer comes within 4.096 us * 2^service_timeout. `at_duplicate`: only if the peer
  // repeats its message, as rdma_cm does.
  Status AcknowledgeReceipt(CommunicationId id, uint8_t service_timeout, Bytes private_data,
                            bool at_duplicate = false);
  Status Disconnect(Time now, CommunicationId id, Bytes private_data);         // DREQ
  Status ConfirmDisconnect(Time now, CommunicationId id, Bytes private_data);  // DREP
  // The attributes that ibv_modify_qp needs to bring the queue pair to `state` (kInit,
  // kReadyToReceive or kReadyToSend), and their bits in `mask` (QpAttributeMask).
  Status Attributes(CommunicationId id, QpState state, QpAttributes& attributes,
                    uint32_t& mask) const;

  // --- datagram services
  Status Resolve(Time now, CommunicationId id, const ResolveParameters& parameters);    // SIDR_REQ
  Status AnswerResolution(CommunicationId id, const ResolutionParameters& parameters);  // SIDR_REP

  // --- alternate paths
  Status LoadAlternatePath(Time now, CommunicationId id, const Path& path,
                           Bytes private_data);                                       // LAP
  Status AnswerAlternatePath(CommunicationId id, const AlternatePathAnswer& answer);  // APR
  Status PathMigrated(CommunicationId id);  // the queue pair uses the alternate path now

  // --- the wire and the time
  // The payload of a datagram to queue pair 1 with the right Q_Key.
  void OnMad(Time now, std::span<const uint8_t> mad, const MadAddress& source);
  std::optional<OutgoingMad> PollTransmit();
  bool HasTransmit() const { return !outbox_.empty(); }
  // The earliest time at which OnDeadline has something to do; kNever if there is none.
  Time NextDeadline() const { return deadlines_.empty() ? kNever : deadlines_.begin()->first; }
  void OnDeadline(Time now);
  std::optional<Event> TakeEvent();
  bool HasEvent() const { return !events_.empty(); }

  const Counters& counters() const { return counters_; }
  // Ids in use, including those that only a DREQ or the timewait still needs.
  size_t id_count() const { return connections_.size(); }
  size_t half_open_count() const { return half_open_; }
  // Entries of the tables by which duplicates and stale connections are found.
  size_t remote_count() const {
    return remote_ids_.size() + remote_qpns_.size() + resolutions_.size();
  }

 private:
  struct Incoming {
    Time now;
    const ParsedMad& mad;
    const MadAddress& source;
    const Gid& gid() const { return source.path.destination_gid; }
  };
  using PeerTable = std::map<PeerKey, CommunicationId>;

  // ids (connection_manager.cc)
  Connection* CreateConnection();
  Connection* Find(CommunicationId id) const;
  Connection* FindOwned(CommunicationId id) const;  // not orphaned
  Connection* FindPair(CommunicationId local, CommunicationId remote) const;
  Connection* FindListener(ServiceId service_id) const;
  void Erase(Connection& connection);
  void Release(Time now, Connection& connection);
  void SetState(Connection& connection, State state);
  bool List(PeerTable& table, std::optional<PeerKey>& key, const PeerKey& wanted,
            CommunicationId id);
  static void Unlist(PeerTable& table, std::optional<PeerKey>& key);
  bool HasRoomFor(const Connection& listener, const Gid& gid);
  // A new connection for a request to the listener; nullptr if there is no room.
  Connection* CreateIncoming(const Incoming& in, const Connection& listener);
  void MakeRoomForId();

  // transmit and time
  void SetDeadline(Connection& connection, Time deadline);
  void Transmit(const MadBytes& mad, const MadAddress& destination, size_t limit);
  void StartRequest(Time now, Connection& connection, const Message& message,
                    uint64_t transaction_id);
  void StopRequest(Connection& connection) { SetDeadline(connection, kNever); }
  void KeepAnswer(Connection& connection, const Message& message);
  void SendAnswer(Connection& connection, const Message& message);
  void RepeatAnswer(const Connection& connection, Attribute kind, const Incoming& in);
  void Refuse(const Incoming& in, const Message& message);
  void RefuseRequest(const Incoming& in, const Req& req, RejectReason reason);
  void RunDeadline(Time now, Connection& connection);
  void GiveUp(Time now, Connection& connection);
  void EnterTimewait(Time now, Connection& connection);
  void LeaveTimewait(Connection& connection);
  void GoIdle(Connection& connection);
  void BeginDisconnect(Time now, Connection& connection, Bytes private_data);
  uint64_t NewTransactionId(const Connection& connection);

  // events
  void Tell(EventKind kind, const Connection& connection);
  void Tell(EventKind kind, const Connection& connection, const Incoming& in,
            CommunicationId listener_id = {});

  // messages (incoming.cc, sidr.cc, alternate_path.cc)
  void On(const Incoming& in, const Req& req);
  void On(const Incoming& in, const Mra& mra);
  void On(const Incoming& in, const Rej& rej);
  void On(const Incoming& in, const Rep& rep);
  void On(const Incoming& in, const Rtu& rtu);
  void On(const Incoming& in, const Dreq& dreq);
  void On(const Incoming& in, const Drep& drep);
  void On(const Incoming& in, const SidrReq& request);
  void On(const Incoming& in, const SidrRep& reply);
  void On(const Incoming& in, const Lap& lap);
  void On(const Incoming& in, const Apr& apr);
  bool IsNewPeer(const Incoming& in, const Req& req);
  void OnDuplicateReq(const Incoming& in, const Req& req, Connection& connection);
  void OnStale(Time now, CommunicationId old);
  Connection* FindRejected(const Incoming& in, const Rej& rej);
  // Whether a first answer comes from the GID that the request went to; counts it if not.
  bool IsFromPeer(const Connection& connection, const Incoming& in);
  void CountDuplicate(const Incoming& in);

  Config config_;
  // Our id in a REJ that names none: 0 behind the prefix, by which a switch still finds the
  // process.
  CommunicationId no_id_;
  RandomNumbers random_;
  uint64_t next_assigned_service_;
  std::unordered_map<uint32_t, std::unique_ptr<Connection>> connections_;
  std::map<std::pair<uint64_t, uint64_t>, CommunicationId> listeners_;  // by mask and id
  PeerTable remote_ids_;
  PeerTable remote_qpns_;
  PeerTable resolutions_;
  std::map<Gid, uint32_t> half_open_of_;
  uint32_t half_open_ = 0;
  std::set<std::pair<Time, CommunicationId>> deadlines_;
  std::set<std::pair<Time, CommunicationId>> orphans_in_timewait_;
  std::deque<OutgoingMad> outbox_;
  std::deque<Event> events_;
  Counters own_counters_;
  Counters& counters_;
};

}  // namespace uroce::transport::cm
