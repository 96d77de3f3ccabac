#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/link_layer/local_address.h"
#include "dpdk_nic/port/packet_port.h"
#include "transport/ids.h"

// The one function that the DPDK library exports, and all that uroce's library in an application
// knows of DPDK. The DPDK library is loaded only in direct mode: it carries a DPDK of its own,
// linked statically and hidden, so that programs which use DPDK themselves are not disturbed.
//
// Both libraries come from one build: the C++ interfaces PacketPort and LinkLayer cross the border
// as they are.

namespace uroce::nic {

// Changes with every change of what crosses the border; tests/tools/dpdk_border_test.py checks.
inline constexpr uint32_t kDpdkLibraryAbi = 13;

// The compilers of both sides have to agree on the layout of std::span, which is another in
// libstdc++ before release 11.
inline constexpr uint32_t kSpanLayout = _GLIBCXX_RELEASE < 11 ? 10 : 11;
inline constexpr uint32_t kDpdkLibraryBuild = kDpdkLibraryAbi << 16 | kSpanLayout;

struct OpenDpdkPortRequest {
  uint32_t build = kDpdkLibraryBuild;
  const char* devargs = nullptr;  // what UROCE_PORT says, e.g. "net_memif0,role=server,id=0"
  uint32_t mtu_bytes = 0;         // of IP packets; 0: the port's own, or the largest useful one
  // The addresses to answer for, beside the link-local one of the MAC.
  std::array<LocalAddress, kMaxLocalAddresses> addresses{};
  size_t address_count = 0;
  transport::MacAddress mac{};  // for devices that have no MAC of their own (memif, ring)
};

struct OpenDpdkPortResult {
  // On success both are set. The caller deletes them, `link_layer` first.
  PacketPort* port = nullptr;
  LinkLayer* link_layer = nullptr;
  // On failure one sentence without a final full stop, which says what to do.
  char error[512] = {};
};

}  // namespace uroce::nic

extern "C" {

// Starts DPDK in this process at the first call, and opens the port. Returns whether it is open.
// Another `build` than the library's own is an error.
bool uroce_open_dpdk_port(const uroce::nic::OpenDpdkPortRequest* request,
                          uroce::nic::OpenDpdkPortResult* result);

}  // extern "C"

namespace uroce::nic {

inline constexpr char kOpenDpdkPortSymbol[] = "uroce_open_dpdk_port";
using OpenDpdkPortFunction = decltype(&uroce_open_dpdk_port);

}  // namespace uroce::nic
