#include "transport/peers/peer_table.h"

#include <algorithm>
#include <span>

#include "transport/wire/byte_order.h"

namespace uroce::transport {
namespace {

constexpr uint8_t kStream = 2;  // of random numbers

}  // namespace

PeerTable::PeerTable(PeerFeatures own_features, uint32_t block, const Seed& seed,
                     Listener& listener, PeerCounters& counters)
    : own_features_(own_features),
      listener_(listener),
      counters_(counters),
      random_(seed, kStream),
      ids_(block, random_),
      hash_key_{random_.Next(), random_.Next() | 1},
      processes_(ids_) {}

// A multiplicative hash under a random key: a peer cannot choose a GID that drives out another.
size_t PeerTable::SetOf(const Gid& gid) const {
  uint64_t hash = (Load64(gid.bytes.data()) ^ hash_key_[0]) * hash_key_[1];
  hash = ((hash ^ hash >> 32) + Load64(gid.bytes.data() + 8)) * hash_key_[1];
  return (hash >> 32) % kSets;
}

const PeerTable::Peer* PeerTable::Find(const Gid& gid) const {
  if (peers_.empty()) return nullptr;
  for (const Peer& peer : std::span(peers_).subspan(SetOf(gid) * kWays, kWays)) {
    if (peer.asked_at != 0 && peer.address.destination_gid == gid) return &peer;
  }
  return nullptr;
}

PeerTable::Peer& PeerTable::FindOrReplace(const Gid& gid) {
  if (Peer* const known = Find(gid)) return *known;
  if (peers_.empty()) peers_.resize(kMaxPeers);
  const auto set = std::span(peers_).subspan(SetOf(gid) * kWays, kWays);
  Peer& oldest = *std::ranges::min_element(set, {}, &Peer::asked_at);
  oldest = {};
  return oldest;
}

void PeerTable::Ask(const AddressVector& address) {
  if (own_features_ == 0) return;
  Peer& peer = FindOrReplace(address.destination_gid);
  peer.address = address;
  if (peer.state != State::kUnasked) return;
  peer.state = State::kAsked;
  peer.tries = 0;
  peer.asked_at = ++asked_;
  peer.transaction_id = ids_.Next();
  SetDeadline(kAtOnce, peer);
  listener_.OnPeerWanted();
}

void PeerTable::AskAboutProcess(const AddressVector& address, Qpn qpn) {
  Ask(address);
  if (!Speaks(address.destination_gid, PeerFeature::kTellsOfProcess)) return;
  if (!processes_.Ask(address, qpn)) return;
  next_deadline_ = kAtOnce;
  listener_.OnPeerWanted();
}

void PeerTable::OnNeighbor(const Gid& gid, const MacAddress& mac) {
  Peer* const peer = Find(gid);
  if (peer == nullptr) return;
  const MacAddress before = std::exchange(peer->address.destination_mac, mac);
  if (before == mac || before == MacAddress{}) return;
  peer->features = 0;
  if (peer->state != State::kAsked) peer->state = State::kUnasked;
}

// The random part of the transaction id proves that the device has seen the query.
void PeerTable::OnAnswer(Time now, const Gid& source, const PeerQuery& answer) {
  if (answer.IsAboutProcess()) {
    if (!processes_.OnAnswer(now, source, answer)) ++counters_.ignored;
    next_deadline_ = std::min(next_deadline_, now + PeerProcesses::kPause);
    return;
  }
  Peer* const peer = Find(source);
  const bool is_awaited = peer != nullptr && answer.kind != PeerQuery::Kind::kQuery &&
                          answer.transaction_id == peer->transaction_id &&
                          (peer->state == State::kAsked || peer->state == State::kSilent);
  if (!is_awaited) {
    ++counters_.ignored;
  } else if (answer.kind == PeerQuery::Kind::kAnswer) {
    ++counters_.peers_found;
    peer->features = answer.features;
    Enter(State::kAnswered, now + kKnownFor, *peer);
  } else if (peer->state == State::kAsked) {
    ++counters_.peers_silent;
    peer->features = 0;
    Enter(State::kSilent, now + kSilentFor, *peer);
  }
}

// Returns to kUnasked when the answer is old, or when the silence has lasted long enough.
bool PeerTable::OnDeadline(Time now, Peer& peer) {
  if (peer.state != State::kAsked) {
    Enter(State::kUnasked, kNever, peer);
    return false;
  }
  if (peer.tries == kTries) {
    ++counters_.peers_silent;
    peer.features = 0;
    Enter(State::kSilent, now + kSilentFor, peer);
    return false;
  }
  SetDeadline(now + kFirstWait * (int64_t{1} << peer.tries), peer);
  ++peer.tries;
  return true;
}

void PeerTable::Enter(State state, Time deadline, Peer& peer) {
  peer.state = state;
  SetDeadline(deadline, peer);
}

void PeerTable::SetDeadline(Time deadline, Peer& peer) {
  peer.deadline = deadline;
  next_deadline_ = std::min(next_deadline_, deadline);
}

}  // namespace uroce::transport
