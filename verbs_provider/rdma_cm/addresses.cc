// From sockaddr to service ids: cma_bind_addr, rdma_listen of Linux.
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

constexpr uint16_t kPkey = 0xffff;
// The largest backlog, and the default: net.rdma_ucm.max_backlog of Linux, which is 1,024 if it is
// not set. A request beyond it comes again only after seconds.
constexpr uint32_t kMaxBacklog = transport::cm::kMaxHalfOpen;

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
    host_.ReadAddresses();
  }
  if (!address.IsAny()) {
    const int error = CheckLocal(device_->facts(), host_, address);
    if (error == ENODEV && address.IsIp()) device_->ExplainMissingGid(address.gid);
    if (error != 0) return error;
    if (id.space == PortSpace::kIpoib) return EINVAL;
  }
  if (!id.af_only_chosen) {
    id.binding.af_only =
        address.family == AF_INET || (address.family == AF_INET6 && BindsOnlyIpv6());
  }
  id.binding.address = address;
  id.binding.only_ipv6 = address.family == AF_INET6 && address.IsAny() && id.binding.af_only;
  if (is_reserved) {
    id.binding.service_gid = ServiceGid(device_->facts(), host_.addresses, address);
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
      id.binding, ServiceGid(device_->facts(), host_.addresses, id.address()));
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
