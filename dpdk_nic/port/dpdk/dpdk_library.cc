#include "dpdk_nic/port/dpdk/dpdk_library.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dpdk_nic/link_layer/kernel_neighbors.h"
#include "dpdk_nic/link_layer/neighbor_table.h"
#include "dpdk_nic/link_layer/rtnetlink_tables.h"
#include "dpdk_nic/port/devargs.h"
#include "dpdk_nic/port/dpdk/dpdk_port.h"

namespace uroce::nic {
namespace {

constexpr uint8_t kLinkLocalBits = 64;  // of the subnet fe80::/64

void SetError(const std::string& sentence, OpenDpdkPortResult* result) {
  const size_t bytes = std::min(sentence.size(), sizeof(result->error) - 1);
  std::copy_n(sentence.data(), bytes, result->error);
  result->error[bytes] = '\0';
}

// The link-local address of the MAC, then the addresses of the request.
std::vector<LocalAddress> AddressesOf(const DpdkPort& port, const OpenDpdkPortRequest& request) {
  std::vector<LocalAddress> addresses = {{transport::Gid::LinkLocal(port.mac()), kLinkLocalBits}};
  for (const LocalAddress& address : std::span(request.addresses).first(request.address_count)) {
    if (address.ip != addresses[0].ip) addresses.push_back(address);
  }
  return addresses;
}

std::unique_ptr<LinkLayer> MakeLinkLayer(const DpdkPort& port, const OpenDpdkPortRequest& request) {
  if (!port.is_ethernet()) return std::make_unique<StaticNeighbors>();
  std::vector<LocalAddress> addresses = AddressesOf(port, request);
  if (const int index = port.kernel_interface_index(); index != 0) {
    return std::make_unique<KernelNeighbors>(std::make_unique<RtnetlinkTables>(index), port.mac(),
                                             std::move(addresses));
  }
  return std::make_unique<NeighborTable>(
      NeighborTable::Config{.mac = port.mac(), .addresses = std::move(addresses), .next_hop = {}});
}

// An error if neither the kernel nor we would answer ARP for an address; empty if all is well.
std::string FindUnanswered(const DpdkPort& port, const OpenDpdkPortRequest& request) {
  if (!port.sees_roce_only()) return {};
  const auto of_kernel = RtnetlinkTables(port.kernel_interface_index()).Addresses();
  for (const LocalAddress& address : std::span(request.addresses).first(request.address_count)) {
    const bool has = std::any_of(of_kernel.begin(), of_kernel.end(),
                                 [&](const auto& candidate) { return candidate.ip == address.ip; });
    if (!has) {
      return "AF_XDP leaves ARP and neighbour discovery to the kernel, which does not have every "
             "address of --ip on the interface: give it the address ('ip address add'), or use "
             "net_af_packet";
    }
  }
  return {};
}

bool Open(const OpenDpdkPortRequest& request, OpenDpdkPortResult* result) {
  auto devargs = Devargs::Parse(request.devargs);
  if (!devargs.ok()) {
    SetError(devargs.error(), result);
    return false;
  }
  auto opened = DpdkPort::Open(std::move(devargs).value(), request.mtu_bytes, request.mac);
  if (!opened.ok()) {
    SetError(opened.error(), result);
    return false;
  }
  std::unique_ptr<DpdkPort> port = std::move(opened).value();
  if (const std::string reason = FindUnanswered(*port, request); !reason.empty()) {
    SetError(reason, result);
    return false;
  }
  result->link_layer = MakeLinkLayer(*port, request).release();
  result->port = port.release();
  return true;
}

}  // namespace
}  // namespace uroce::nic

bool uroce_open_dpdk_port(const uroce::nic::OpenDpdkPortRequest* request,
                          uroce::nic::OpenDpdkPortResult* result) {
  if (request->build != uroce::nic::kDpdkLibraryBuild) {
    uroce::nic::SetError(
        "the DPDK library is of another build than the rest of uroce: install the packages uroce "
        "and uroce-dpdk of one version, or build both anew",
        result);
    return false;
  }
  return uroce::nic::Open(*request, result);
}
