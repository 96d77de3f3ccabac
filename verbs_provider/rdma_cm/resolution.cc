// From addresses to paths: rdma_resolve_addr, rdma_resolve_route of Linux.
#include <algorithm>
#include <cerrno>
#include <set>

#include "verbs_provider/rdma_cm/agent.h"
#include "verbs_provider/rdma_cm/routes.h"

namespace uroce::verbs::rdma_cm {
namespace {

using transport::cm::ConnectionManager;
using transport::cm::PortSpace;
using transport::cm::ServiceIdOf;

constexpr uint8_t kPacketLifeTime = 16;  // CMA_IBOE_PACKET_LIFETIME: 268 ms
constexpr uint16_t kPkey = 0xffff;

}  // namespace

// resolve_prepare_src.
int Agent::BindForResolution(Id& id, const SocketAddress& source,
                             const SocketAddress& destination) {
  if (id.state != IdState::kIdle) return 0;
  const bool is_chosen = source.family != AF_UNSPEC && (!source.IsAny() || source.port != 0);
  SocketAddress own = source.family == AF_UNSPEC ? AnyAddress(destination.family) : source;
  if (own.family != destination.family) return EINVAL;
  if (!own.IsIp() && own.service_mask == 0) {
    own.service_id = ServiceIdOf(id.space, 0).value;
    own.service_mask = kIpServiceMask;
  }
  return is_chosen ? Bind(id, own) : BindForConnect(id, own);
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

int Agent::ResolveAddress(Id& id, const SocketAddress& source, const SocketAddress& destination,
                          transport::Duration timeout) {
  if (id.state != IdState::kIdle && id.state != IdState::kAddressBound) return EINVAL;
  if (const int error = NeedDevice()) return error;
  if (id.space == PortSpace::kIpoib) return EINVAL;
  if (const int error = BindForResolution(id, source, destination)) return error;
  if (id.address().family != destination.family) return EINVAL;

  host_.ReadAddresses();
  id.peer = destination;
  Route route;
  if (const int error = FindRoute(device_->facts(), host_, id.address(), destination, route)) {
    return error;
  }
  if (IsResolved(route)) {
    FinishResolution(id, route);
    return 0;
  }
  const transport::Time deadline =
      With([&](ConnectionManager&, transport::Time now) { return now + timeout; });
  id.resolution = {.route = route, .deadline = deadline};
  id.state = IdState::kResolvingAddress;
  resolving_.insert(&id);
  return 0;
}

bool Agent::IsResolved(const Route& route) {
  if (!device_->facts().has_wire || route.destination_gid == route.source_gid) return true;
  if (route.destination_gid.IsMulticast()) return true;
  return route.is_kernels ? device_->KnowsNextHop(route.question())
                          : device_->KnowsNeighbor(route.destination_gid);
}

// addr_handler of Linux, without an error.
void Agent::FinishResolution(Id& id, const Route& route) {
  const uint16_t port = id.address().port;
  const uint64_t service_id = id.address().service_id;
  const uint64_t service_mask = id.address().service_mask;
  id.binding.address = route.source;
  id.binding.address.port = port;
  id.binding.address.service_id = service_id;
  id.binding.address.service_mask = service_mask;

  transport::cm::Path path{.source_gid = route.source_gid,
                           .pkey = kPkey,
                           .mtu = device_->facts().mtu,
                           .packet_life_time = kPacketLifeTime};
  path.address.destination_gid = route.destination_gid;
  path.address.source_gid_index = route.source_gid_index;
  path.address.hop_limit =
      route.is_kernels ? device_->HopLimit(route.question()) : nic::kDefaultHopLimit;
  path.address.traffic_class = id.type_of_service;
  id.path = path;
  id.has_device = true;
  id.state = IdState::kAddressResolved;
  Tell(id, UserEvent::kAddressResolved);
}

// process_one_req of Linux: an id whose next hop has not answered in time can be used again.
void Agent::ServeResolutions() {
  if (resolving_.empty()) return;
  const transport::Time now = With([](ConnectionManager&, transport::Time at) { return at; });
  std::erase_if(resolving_, [&](Id* id) {
    if (IsResolved(id->resolution.route)) {
      FinishResolution(*id, id->resolution.route);
      return true;
    }
    if (id->resolution.deadline > now) return false;
    id->state = IdState::kAddressBound;
    Tell(*id, UserEvent::kAddressError, -ETIMEDOUT);
    return true;
  });
}

transport::Time Agent::NextDeadline() const {
  transport::Time next = transport::kNever;
  for (const Id* id : resolving_) next = std::min(next, id->resolution.deadline);
  return next;
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

}  // namespace uroce::verbs::rdma_cm
