#include "dpdk_nic/device/open_port.h"

#include <algorithm>
#include <utility>

#include "dpdk_nic/device/device_config.h"
#include "dpdk_nic/device/open_dpdk_port.h"
#include "dpdk_nic/port/devargs.h"
#include "dpdk_nic/port/udp/udp_port.h"
#include "dpdk_nic/port/udp/udp_uplink.h"

namespace uroce::nic {
namespace {

using transport::Gid;

// An address in the devargs takes precedence over those of the request, which can be several.
ErrorOr<std::vector<Gid>> UdpAddresses(const PortRequest& request, const Devargs& devargs) {
  if (const std::string* text = devargs.Find("address")) {
    const auto address = ParseHostAddress(*text);
    if (!address) {
      return Error{"the address of the UDP port is '" + *text +
                   "': give the IPv4 or IPv6 address of one host, for example 10.0.0.1"};
    }
    return std::vector{*address};
  }
  std::vector<Gid> addresses;
  for (const LocalAddress& address : request.addresses) {
    if (request.are_addresses_chosen) addresses.push_back(address.ip);
  }
  return addresses;
}

ErrorOr<OpenedPort> OpenUdp(const PortRequest& request, const Devargs& devargs) {
  const auto addresses = UdpAddresses(request, devargs);
  if (!addresses.ok()) return Error{addresses.error()};
  auto opened = UdpPort::Open(addresses.value(), request.mtu_bytes);
  if (!opened.ok()) return Error{opened.error()};
  std::unique_ptr<UdpPort> port = std::move(opened).value();
  std::vector<Gid> gids = port->Gids();
  return OpenedPort{std::move(port), std::make_unique<StaticNeighbors>(), std::move(gids)};
}

ErrorOr<OpenedPort> OpenDpdk(const PortRequest& wanted) {
  OpenDpdkPortRequest request;
  request.devargs = wanted.devargs.c_str();
  request.mtu_bytes = wanted.mtu_bytes;
  std::copy(wanted.addresses.begin(), wanted.addresses.end(), request.addresses.begin());
  request.address_count = wanted.addresses.size();
  request.mac = MacAddressFor(wanted.addresses[0].ip);
  auto opened = OpenDpdkPort(wanted.dpdk_library, request);
  if (!opened.ok()) return Error{opened.error()};

  OpenedPort result;
  DpdkPortParts parts = std::move(opened).value();
  result.gids = {Gid::LinkLocal(parts.port->mac())};
  for (const LocalAddress& address : wanted.addresses) {
    if (address.ip != result.gids[0]) result.gids.push_back(address.ip);
  }
  result.port = std::move(parts.port);
  result.link_layer = std::move(parts.link_layer);
  return result;
}

}  // namespace

ErrorOr<OpenedPort> OpenPort(const PortRequest& request) {
  const auto devargs = Devargs::Parse(request.devargs);
  if (!devargs.ok()) return Error{devargs.error()};
  const bool is_udp = devargs.value().driver() == Devargs::Driver::kUdp;
  return is_udp ? OpenUdp(request, devargs.value()) : OpenDpdk(request);
}

ErrorOr<OpenedPort> OpenUplink(const UplinkChoice& choice, uint32_t mtu_bytes,
                               bool shares_sockets) {
  if (choice.wish == control::UplinkWish::kNone) return OpenedPort{};
  UdpUplink::Options options = {
      .addresses = {}, .mtu_bytes = mtu_bytes, .shares_sockets = shares_sockets};
  if (!choice.address.IsZero()) options.addresses.push_back(choice.address);
  auto created = UdpUplink::Create(options);
  if (!created.ok()) return Error{created.error()};
  std::unique_ptr<UdpUplink> uplink = std::move(created).value();
  if (uplink == nullptr && choice.wish == control::UplinkWish::kUdp) {
    return Error{
        "this host has no address that others reach: connect it to a network, or choose "
        "--no-uplink"};
  }
  if (uplink == nullptr) return OpenedPort{};
  SocketSharing* const sharing = shares_sockets ? uplink.get() : nullptr;
  std::vector<Gid> gids = uplink->Gids();
  return OpenedPort{std::move(uplink), std::make_unique<StaticNeighbors>(), std::move(gids),
                    sharing};
}

}  // namespace uroce::nic
