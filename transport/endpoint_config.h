#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "transport/address.h"
#include "transport/congestion/congestion.h"
#include "transport/ids.h"
#include "transport/limits.h"
#include "transport/peers/peer_query.h"
#include "transport/pkey.h"
#include "transport/qp_attributes.h"
#include "transport/random_numbers.h"
#include "transport/route.h"
#include "transport/wire/ethernet.h"

namespace uroce::transport {

class MemoryTable;
class PeerProgress;

struct EndpointConfig {
  MacAddress mac{};
  // The GID table; index 0 is the link-local GID of the MAC. A zero GID is a free entry: addresses
  // come and go (Endpoint::FollowGids).
  std::vector<Gid> gids;
  // The P_Key table; index 0 is the default partition, of which every port is a full member.
  std::vector<uint16_t> pkeys{kDefaultPkey};
  // Whether other processes of this host are reached by links, one a block of QPNs. With a wire
  // they share our GIDs; without one each has its own, and all unicast GIDs are theirs or ours.
  bool has_links = false;
  bool has_wire = true;
  // Whether the members of a group among our own queue pairs get multicast datagrams of ours from
  // the endpoint. If not, the port returns each such frame by Route::kLoopback.
  bool copies_to_own_members = true;
  uint32_t port_mtu = 4'250;  // largest IP packet in bytes; bounds the path MTU
  Qpn first_qpn{0x100};       // the first of our block of QPNs
  uint32_t qpn_count = kMaxQps;
  void* context = nullptr;  // comes back in events about the device
  // Whether a requester that hears nothing for longer than the path's round-trip time sends its
  // oldest packet once more, long before the ACK timeout.
  bool probes = false;
  // Of connections over the wire.
  Congestion congestion = Congestion::kNone;
  // Packets that responders keep, of all queue pairs together, when they arrive before an earlier
  // one. 0: they are dropped, and the peer sends them again.
  uint32_t reorder_packets = 0;
  // Features beyond the specification, of which other hosts are told. 0: the endpoint neither asks
  // nor answers, like a device that is not uroce.
  PeerFeatures features = kOwnFeatures;
  // Header prediction of the packets of connections, out and in (README.md). The outcome is the
  // same without.
  bool uses_prediction = true;
  // The memory table of another endpoint of the same device, which outlives this one. It changes
  // only while neither endpoint is in a call. nullptr: this endpoint has a table of its own.
  MemoryTable* memory = nullptr;
  // Outlives the endpoint. nullptr: nothing is known about a silent peer.
  PeerProgress* peer_progress = nullptr;
  Seed seed{};  // of values that peers must not guess: memory keys, and the choice of QPNs

  // Whether packets with a payload of `mtu` fit into the port's largest IP packet.
  bool Carries(Mtu mtu) const {
    // IPv6 40, UDP 8, BTH 12, the largest extension headers (AtomicETH) 28, ICRC 4.
    constexpr uint32_t kMaxHeaderBytes = 40 + 8 + 12 + 28 + 4;
    return Bytes(mtu) + kMaxHeaderBytes <= port_mtu;
  }
  // The largest MTU that the port carries, or the smallest there is.
  Mtu active_mtu() const {
    for (const Mtu mtu : {Mtu::k4096, Mtu::k2048, Mtu::k1024, Mtu::k512}) {
      if (Carries(mtu)) return mtu;
    }
    return Mtu::k256;
  }

  // The longest Ethernet frame that the port carries, VLAN tag included.
  uint32_t max_frame_bytes() const {
    return port_mtu + uint32_t{EthernetHeader::kBytes + EthernetHeader::kVlanTagBytes};
  }

  // Whether a packet with this P_Key is of a partition that we are in.
  bool HasPartition(uint16_t pkey) const {
    return std::any_of(pkeys.begin(), pkeys.end(),
                       [pkey](uint16_t own) { return PkeysMatch(own, pkey); });
  }
  // Index in the GID table, or -1.
  int FindGid(const Gid& gid) const {
    if (gid.IsZero()) return -1;
    for (size_t i = 0; i < gids.size(); ++i) {
      if (gids[i] == gid) return static_cast<int>(i);
    }
    return -1;
  }
  // The source GID of packets to `address`. Zero, with which they reach no peer, if its entry of
  // the GID table is free or of the other IP version.
  Gid SourceOf(const AddressVector& address) const {
    if (address.source_gid_index >= gids.size()) return {};
    const Gid& source = gids[address.source_gid_index];
    return source.IsIpv4Mapped() == address.destination_gid.IsIpv4Mapped() ? source : Gid{};
  }
  // The route to queue pair `remote` at `gid`, by which its packets also arrive. A GID of ours with
  // a QPN of another block is another process of this host: it is reached by its link or, without
  // links, over the wire like another host.
  Route RouteTo(const Gid& gid, Qpn remote) const {
    const bool is_own_gid = FindGid(gid) >= 0;
    if (is_own_gid && OwnsQpn(remote)) return Route::kLoopback;
    const bool is_local = is_own_gid || (!has_wire && !gid.IsMulticast());
    return has_links && is_local ? RouteToBlock(BlockOf(remote)) : Route::kWire;
  }
  bool OwnsQpn(Qpn qpn) const {
    return qpn.value >= first_qpn.value && qpn.value - first_qpn.value < qpn_count;
  }
};

}  // namespace uroce::transport
