#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "transport/address.h"
#include "transport/ids.h"
#include "transport/limits.h"
#include "transport/pkey.h"
#include "transport/qp_attributes.h"
#include "transport/random_numbers.h"
#include "transport/route.h"
#include "transport/wire/ethernet.h"

namespace uroce::transport {

class MemoryTable;

struct EndpointConfig {
  MacAddress mac{};
  // The GID table; index 0 is the link-local GID of the MAC. A zero GID is a free entry: addresses
  // come and go (Endpoint::FollowGids).
  std::vector<Gid> gids;
  // The P_Key table; index 0 is the default partition, which all are full members of.
  std::vector<uint16_t> pkeys{kDefaultPkey};
  // Whether the processes that share our GIDs are reached by links, one for each block of QPNs. If
  // there is no wire, all GIDs are such processes; each then has GIDs of its own.
  bool has_links = false;
  bool has_wire = true;
  // Whether members among our own queue pairs get their copies of a multicast datagram from the
  // endpoint. If not, what carries the frames brings each of them back by Route::kLoopback.
  bool copies_to_own_members = true;
  uint32_t port_mtu = 4'250;  // largest IP packet in bytes; bounds the path MTU
  Qpn first_qpn{0x100};       // the block of QPNs that is ours
  uint32_t qpn_count = kMaxQps;
  void* context = nullptr;  // comes back in events about the device
  // Whether a requester that hears nothing for longer than the path's round-trip time sends its
  // oldest packet once more, long before the ACK timeout.
  bool probes = false;
  // Whether packets of connections may go the short ways, out and in (README.md). What comes of
  // them is the same without.
  bool uses_short_way = true;
  // The memory table of another endpoint of the same device, which outlives this one. It changes
  // only while no call of either is made. nullptr: a table of its own.
  MemoryTable* memory = nullptr;
  Seed seed{};  // of what peers must not guess: memory keys, and which QPNs of the block are used

  // Whether packets with so much payload fit into an IP packet.
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

  // The longest Ethernet frame that the port carries, a VLAN tag in it.
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
  // What `address` leads from. Zero, with which frames reach nobody, if its entry of the GID table
  // is free or has an address of the other IP version.
  Gid SourceOf(const AddressVector& address) const {
    if (address.source_gid_index >= gids.size()) return {};
    const Gid& source = gids[address.source_gid_index];
    return source.IsIpv4Mapped() == address.destination_gid.IsIpv4Mapped() ? source : Gid{};
  }
  // The way to a queue pair, and the way that its packets come by. A GID of ours with a QPN of
  // another block is another process of this host: it has a link of its own, or is beyond the wire
  // as other hosts are.
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
