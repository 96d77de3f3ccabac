#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "transport/address.h"
#include "transport/ids.h"
#include "transport/peers/counters.h"
#include "transport/peers/peer_processes.h"
#include "transport/peers/peer_query.h"
#include "transport/peers/transaction_ids.h"
#include "transport/random_numbers.h"
#include "transport/time.h"

namespace uroce::transport {

// The devices behind the GIDs that this endpoint's queue pairs are connected to: which of them are
// uroce, and what they speak beyond the specification. It decides when a query is sent; sending and
// receiving is up to its user (GeneralServices).
//
//                           an answer
//      Ask            +------------------> kAnswered --+
//  kUnasked --> kAsked                                 | kKnownFor, kSilentFor
//      ^              +------------------> kSilent ----+
//      |        kTries without an answer,              |
//      |        or a refusal                           |
//      +-----------------------------------------------+
//
// The features of a peer stay valid until its silence, so nothing changes while an answered peer is
// asked again. Nothing is sent unless Ask is called. A late answer counts, too.
class PeerTable {
 public:
  // The peer that was asked longest ago, of those with a similar hash, makes room for another one.
  static constexpr size_t kMaxPeers = 1'024;
  // The waits for an answer, of which each is twice as long as the one before, are 620 ms together:
  // longer than any path's round trip.
  static constexpr int kTries = 5;
  static constexpr Duration kFirstWait = Milliseconds(20);
  static constexpr Duration kSilentFor = Milliseconds(60'000);
  static constexpr Duration kKnownFor = Milliseconds(300'000);

  class Listener {
   public:
    virtual ~Listener() = default;
    // A query is to be sent: Run is due.
    virtual void OnPeerWanted() = 0;
  };

  // With `own_features` 0 it asks no peer. `block` is that of the endpoint's QPNs. References
  // outlive the table.
  PeerTable(PeerFeatures own_features, uint32_t block, const Seed& seed, Listener& listener,
            PeerCounters& counters);

  PeerFeatures own_features() const { return own_features_; }

  // Whether the peer has said that it has the feature.
  bool Speaks(const Gid& gid, PeerFeature feature) const {
    if (peers_.empty()) return false;
    const Peer* const peer = Find(gid);
    return peer != nullptr && Has(peer->features, feature);
  }
  // Has the peer asked unless it is being asked, has answered or was silent lately. `address` is
  // that of a connection over the wire. The first call allocates.
  void Ask(const AddressVector& address);
  // Speaks; if that is not known, the peer is asked.
  bool FindOut(const AddressVector& address, PeerFeature feature) {
    if (Speaks(address.destination_gid, feature)) return true;
    Ask(address);
    return false;
  }

  // Whether the process that has the queue pair there lives and stands still (PeerProcesses).
  // AskAboutProcess is called when it is silent, some time before. A peer that was not asked yet is
  // asked first what it speaks.
  void AskAboutProcess(const AddressVector& address, Qpn qpn);
  bool StandsStill(const Gid& gid, Qpn qpn) const { return processes_.StandsStill(gid, qpn); }

  // The Ethernet address of a neighbour: if it is another one, another device may have the GID.
  void OnNeighbor(const Gid& gid, const MacAddress& mac);
  // An answer or a refusal that came from `source`.
  void OnAnswer(Time now, const Gid& source, const PeerQuery& answer);

  Time NextDeadline() const { return next_deadline_; }
  // Calls `send(address, query)` for each query that is to be sent now. `send` does not call Ask.
  template <class Send>
  void Run(Time now, Send send);

 private:
  static constexpr size_t kWays = 8;
  static constexpr size_t kSets = kMaxPeers / kWays;
  static constexpr Time kAtOnce{};

  enum class State : uint8_t { kUnasked, kAsked, kAnswered, kSilent };
  struct Peer {
    AddressVector address;  // of kUnasked entries that were never used, all zero
    State state = State::kUnasked;
    int tries = 0;
    PeerFeatures features = 0;
    uint64_t transaction_id = 0;
    uint64_t asked_at = 0;  // in order; 0: never
    Time deadline = kNever;
  };

  size_t SetOf(const Gid& gid) const;
  const Peer* Find(const Gid& gid) const;
  Peer* Find(const Gid& gid) { return const_cast<Peer*>(std::as_const(*this).Find(gid)); }
  Peer& FindOrReplace(const Gid& gid);
  // Returns whether a query is to be sent.
  bool OnDeadline(Time now, Peer& peer);
  void Enter(State state, Time deadline, Peer& peer);
  void SetDeadline(Time deadline, Peer& peer);

  const PeerFeatures own_features_;
  Listener& listener_;
  PeerCounters& counters_;
  RandomNumbers random_;
  TransactionIds ids_;
  const std::array<uint64_t, 2> hash_key_;
  PeerProcesses processes_;
  std::vector<Peer> peers_;  // kSets times kWays; empty until Ask
  uint64_t asked_ = 0;
  Time next_deadline_ = kNever;  // not later than the first
};

template <class Send>
void PeerTable::Run(Time now, Send send) {
  if (now < next_deadline_) return;
  const auto count_and_send = [&](const AddressVector& address, const PeerQuery& query) {
    ++counters_.queries_sent;
    send(address, query);
  };
  next_deadline_ = processes_.Run(now, count_and_send);
  for (Peer& peer : peers_) {
    if (peer.deadline <= now && OnDeadline(now, peer)) {
      count_and_send(peer.address, {.transaction_id = peer.transaction_id});
    }
    next_deadline_ = std::min(next_deadline_, peer.deadline);
  }
}

}  // namespace uroce::transport
