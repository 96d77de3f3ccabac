#include "dpdk_nic/dpdk_library.h"

#include <algorithm>
#include <memory>
#include <string>

#include "dpdk_nic/devargs.h"
#include "dpdk_nic/dpdk_port.h"
#include "dpdk_nic/neighbor_table.h"
#include "dpdk_nic/next_hop.h"

namespace uroce::nic {
namespace {

void SetError(const std::string& sentence, OpenDpdkPortResult* result) {
  const size_t bytes = std::min(sentence.size(), sizeof(result->error) - 1);
  std::copy_n(sentence.data(), bytes, result->error);
  result->error[bytes] = '\0';
}

std::unique_ptr<LinkLayer> MakeLinkLayer(const DpdkPort& port, const transport::Gid& ip) {
  if (!port.is_ethernet()) return std::make_unique<StaticNeighbors>();
  NeighborTable::Config config;
  config.mac = port.mac();
  config.addresses = {transport::Gid::LinkLocal(port.mac())};
  if (!ip.IsZero() && ip != config.addresses[0]) config.addresses.push_back(ip);
  if (port.kernel_interface_index() != 0) {
    config.next_hop = KernelNextHop(port.kernel_interface_index());
  }
  return std::make_unique<NeighborTable>(std::move(config));
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
  result->link_layer = MakeLinkLayer(*port, request.ip).release();
  result->port = port.release();
  return true;
}

}  // namespace
}  // namespace uroce::nic

bool uroce_open_dpdk_port(const uroce::nic::OpenDpdkPortRequest* request,
                          uroce::nic::OpenDpdkPortResult* result) {
  if (request->abi != uroce::nic::kDpdkLibraryAbi) {
    uroce::nic::SetError("the DPDK library is of another build than the rest of uroce; build anew",
                         result);
    return false;
  }
  return uroce::nic::Open(*request, result);
}
