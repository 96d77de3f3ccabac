// From sockaddr to GIDs and service ids: cma_bind_addr, rdma_resolve_addr, rdma_listen of Linux.
#include <algorithm>
#include <cerrno>

#include "transport/cm/limits.h"
#include "verbs_provider/rdma_cm/agent.h"
#include "verbs_provider/rdma_cm/routes.h"

namespace uroce::verbs::rdma_cm {
namespace {

using transport::cm::ConnectionManager;
using transport::cm::PortSpace;
using transport::cm::ServiceIdOf;

constexpr uint8_t kPacketLifeTime = 16;  // CMA_IBOE_PACKET_LIFETIME: 268 ms
constexpr uint8_t kHopLimit = 64;
constexpr uint16_t kPkey = 0xffff;
// The largest backlog, and the default: net.rdma_ucm.max_backlog of Linux, which is 1,024 if it is
// not set. A request beyond it comes again only after seconds.
constexpr uint32_t kMaxBacklog = transport::cm::kMaxHalfOpen;

// RDMA_IB_IP_PS_MASK.
constexpr uint64_t kIpServiceMask = 0xffff'ffff'ffff'0000;

bool BindsOnlyIpv6() { return false; }  // the default of net.ipv6.bindv6only

}  // namespace

// cma_select_ib_ps: an AF_IB address names the port space in its service id.
std::optional<PortSpace> Agent::ChooseSpace(const Id& id, SocketAddress& address) const {
  if (address.IsIp()) return id.space;
  const uint64_t wanted = address.service_id & address.service_mask;
  for (const PortSpace space : {PortSpace::kIb, PortSpace::kTcp, PortSpace::kUdp}) {
    const uint64_t named = ServiceIdOf(space, 0).value;
    const bool may_use = id.space == PortSpace::kIb || id.space == space;
    if (!may_use || (wanted & kIpServiceMask) != (named & address.service_mask & kIpServiceMask)) {
      continue;
    }
    address.service_id = named | address.port;
    address.service_mask |= kIpServiceMask;
    return space;
  }
  return std::nullopt;
}

int Agent::Bind(Id& id, const SocketAddress& wanted) {
  if (id.state != IdState::kIdle) return EINVAL;
  if (wanted.IsLinkLocal() && wanted.scope_id == 0) return EINVAL;
  SocketAddress address = wanted;
  const auto space = ChooseSpace(id, address);
  if (!space) return EPROTONOSUPPORT;
  // librdmacm binds the wildcard of AF_IB without a port to ask whether there is AF_IB.
  const bool is_reserved = address.IsIp() || !address.IsAny() || address.port != 0;
  if (!address.IsAny() || is_reserved) {
    if (const int error = NeedDevice()) return error;
    host_addresses_ = HostAddresses();
  }
  if (!address.IsAny()) {
    if (!IsLocal(device_->facts(), host_addresses_, address)) {
      return address.IsIp() ? EADDRNOTAVAIL : ENODEV;
    }
    if (id.space == PortSpace::kIpoib) return EINVAL;
  }
  if (!id.af_only_chosen) {
    id.binding.af_only =
        address.family == AF_INET || (address.family == AF_INET6 && BindsOnlyIpv6());
  }
  id.binding.address = address;
  id.binding.only_ipv6 = address.family == AF_INET6 && address.IsAny() && id.binding.af_only;
  if (is_reserved) {
    id.binding.service_gid = ServiceGid(device_->facts(), host_addresses_, address);
  }
  if (const int error = ports_.Bind(id.binding, *space, is_reserved)) {
    id.binding.address = {};
    return error;
  }
  if (!address.IsIp()) {
    id.binding.address.service_id = ServiceIdOf(*space, id.binding.port).value;
    id.binding.address.pkey = kPkey;
  }
  id.has_device = !address.IsAny() && NamesDevice(device_->facts(), address);
  id.state = IdState::kAddressBound;
  return 0;
}

int Agent::ResolveAddress(Id& id, const SocketAddress& source, const SocketAddress& destination) {
  if (id.state != IdState::kIdle && id.state != IdState::kAddressBound) return EINVAL;
  if (const int error = NeedDevice()) return error;
  if (id.space == PortSpace::kIpoib) return EINVAL;
  if (id.state == IdState::kIdle) {
    const bool is_chosen = source.family != AF_UNSPEC && (!source.IsAny() || source.port != 0);
    SocketAddress own = source.family == AF_UNSPEC ? AnyAddress(destination.family) : source;
    if (own.family != destination.family) return EINVAL;
    if (!own.IsIp() && own.service_mask == 0) {
      own.service_id = ServiceIdOf(id.space, 0).value;
      own.service_mask = kIpServiceMask;
    }
    const int error = is_chosen ? Bind(id, own) : BindForConnect(id, own);
    if (error != 0) return error;
  }
  if (id.address().family != destination.family) return EINVAL;

  host_addresses_ = HostAddresses();
  const auto& facts = device_->facts();
  const auto route = FindRoute(facts, host_addresses_, id.address(), destination);
  if (!route) return ENETUNREACH;
  id.peer = destination;
  const uint16_t port = id.address().port;
  const uint64_t service_id = id.address().service_id;
  const uint64_t service_mask = id.address().service_mask;
  id.binding.address = route->source;
  id.binding.address.port = port;
  id.binding.address.service_id = service_id;
  id.binding.address.service_mask = service_mask;

  transport::cm::Path path{.source_gid = route->source_gid,
                           .pkey = kPkey,
                           .mtu = facts.mtu,
                           .packet_life_time = kPacketLifeTime};
  path.address.destination_gid = route->destination_gid;
  path.address.source_gid_index = route->source_gid_index;
  path.address.hop_limit = kHopLimit;
  path.address.traffic_class = id.type_of_service;
  id.path = path;
  id.has_device = true;
  id.state = IdState::kAddressResolved;
  Tell(id, UserEvent::kAddressResolved);
  return 0;
}

// An id that only connects gets no requests, but needs a port that no other id of this process has.
int Agent::BindForConnect(Id& id, const SocketAddress& any) {
  id.binding.address = any;
  SocketAddress address = any;
  const auto space = ChooseSpace(id, address);
  if (!space) return EPROTONOSUPPORT;
  if (const int error = ports_.Bind(id.binding, *space, /*is_reserved=*/false)) return error;
  id.binding.address.service_id = ServiceIdOf(*space, id.binding.port).value;
  id.state = IdState::kAddressBound;
  return 0;
}

int Agent::ResolveRoute(Id& id) {
  if (id.state != IdState::kAddressResolved) return EINVAL;
  id.path->address.traffic_class = id.type_of_service;
  if (id.ack_timeout && *id.ack_timeout > 0) {
    id.path->packet_life_time = static_cast<uint8_t>(*id.ack_timeout - 1);
  }
  id.has_route = true;
  id.state = IdState::kRouteResolved;
  Tell(id, UserEvent::kRouteResolved);
  return 0;
}

int Agent::Listen(Id& id, uint32_t backlog) {
  if (const int error = NeedDevice()) return error;
  if (id.state == IdState::kIdle) {
    if (const int error = Bind(id, AnyAddress(AF_INET))) return error;
  }
  if (id.state != IdState::kAddressBound) return EINVAL;
  if (const int error = ports_.CheckListen(id.binding)) return error;
  if (const int error = StartListening(id)) return error;
  id.state = IdState::kListening;
  id.backlog = backlog > 0 && backlog < kMaxBacklog ? backlog : kMaxBacklog;
  const int error = ports_.ReserveForListen(
      id.binding, ServiceGid(device_->facts(), host_addresses_, id.address()));
  if (error == 0) return 0;
  StopListening(id);
  id.state = IdState::kAddressBound;
  return error;
}

int Agent::StartListening(Id& id) {
  Service& service = services_[id.binding.service_id()];
  if (!service.ids.empty()) {
    service.ids.push_back(&id);
    return 0;
  }
  const int error = With([&](ConnectionManager& cm, transport::Time now) {
    const auto listener = cm.Create();
    if (!listener) return ENOMEM;
    service.listener = *listener;
    if (cm.Listen(*listener, id.binding.service_id()) == transport::Status::kOk) return 0;
    cm.Destroy(now, *listener);
    return EADDRINUSE;
  });
  if (error != 0) {
    services_.erase(id.binding.service_id());
    return error;
  }
  listeners_[service.listener.value] = id.binding.service_id();
  service.ids.push_back(&id);
  return 0;
}

int Agent::SetReuseAddress(Id& id, bool reuses) {
  const bool may = id.state == IdState::kIdle || (reuses && id.state != IdState::kListening);
  if (!may) return EINVAL;
  id.binding.reuses_address = reuses;
  return 0;
}

int Agent::SetAfOnly(Id& id, bool af_only) {
  if (id.state != IdState::kIdle && id.state != IdState::kAddressBound) return EINVAL;
  id.binding.af_only = af_only;
  id.af_only_chosen = true;
  return 0;
}

int Agent::SetAckTimeout(Id& id, uint8_t timeout) {
  if (id.qp_type != kQpTypeRc && id.qp_type != kQpTypeXrcSend) return EINVAL;
  id.ack_timeout = timeout;
  return 0;
}

}  // namespace uroce::verbs::rdma_cm
