#pragma once

#include <cstdint>
#include <optional>

#include "transport/ids.h"

namespace uroce::nic {

// A question for the kernel's routing tables. It is asked as a UDP socket of this process would
// ask: metrics, policy rules, preferred sources and the VRF that the process is in all count.
struct RouteQuestion {
  transport::Gid destination;
  transport::Gid source{};  // zero: the kernel chooses
  int interface_index = 0;  // where a link-local destination is
};

// The answer for a host.
struct KernelRoute {
  int error = 0;            // an errno value if there is no route; 0: there is one
  uint32_t mtu_bytes = 0;   // of the path; 0: unknown
  transport::Gid source{};  // the address that packets are from; zero: unknown
  uint8_t hop_limit = 0;    // of packets to hosts in general; 0: unknown
};

// Sends nothing and does not wait. EADDRNOTAVAIL if `source` is no address of this host.
KernelRoute FindKernelRoute(const RouteQuestion& question);

// The first hop of a route, which has to be there.
struct NextHop {
  int interface_index = 0;
  transport::Gid gid;     // the gateway, or the destination itself
  uint8_t hop_limit = 0;  // of packets by this route (ip route ... hoplimit); 0: no special one
};
// nullopt where the kernel cannot be asked.
std::optional<NextHop> FindNextHop(const RouteQuestion& question);

// The hop limit that the kernel gives packets by the route, as ip4_dst_hoplimit of Linux.
// kDefaultHopLimit if there is no route.
uint8_t HopLimitOf(const RouteQuestion& question);
inline constexpr uint8_t kDefaultHopLimit = 64;  // IPDEFTTL

// Whether the kernel knows the Ethernet address of the hop, or needs none. If it does not, the call
// has the kernel look for it; RTMGRP_NEIGH reports the result.
bool IsResolved(const NextHop& hop);

}  // namespace uroce::nic
