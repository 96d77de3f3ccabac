#include "verbs_provider/rdma_cm/ports.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace uroce::verbs::rdma_cm {
namespace {

using transport::cm::PortSpace;

// The default of net.ipv4.ip_local_port_range.
constexpr uint32_t kFirstEphemeralPort = 32'768;
constexpr uint32_t kEphemeralPorts = 28'232;
// After so many attempts, all ports count as in use.
constexpr int kEphemeralAttempts = 1'000;
// Lower ports need CAP_NET_BIND_SERVICE.
constexpr uint16_t kFirstUnprivilegedPort = 1'024;

Service ServiceOf(const Binding& binding, bool shares) {
  return {.id = binding.service_id(),
          .address = binding.service_gid,
          .only_ipv6 = binding.only_ipv6,
          .shares = shares,
          .listens = false};
}

}  // namespace

// cma_check_port. Two wildcards, or a wildcard and an address, never share a port.
int Ports::Check(const Owners& owners, const Binding& binding, bool reuses_address) {
  for (const Binding* other : owners) {
    if (other == &binding || (reuses_address && other->reuses_address)) continue;
    if (binding.af_only && other->af_only && binding.address.family != other->address.family) {
      continue;
    }
    if (binding.address.IsAny() || other->address.IsAny()) return EADDRNOTAVAIL;
    if (binding.address.gid == other->address.gid) return EADDRINUSE;
  }
  return 0;
}

bool Ports::IsShared(const Owners& owners, const Binding& binding) {
  return std::any_of(owners.begin(), owners.end(), [&](const Binding* other) {
    return other != &binding && other->is_reserved && other->service_gid == binding.service_gid &&
           other->only_ipv6 == binding.only_ipv6;
  });
}

int Ports::BindTo(Binding& binding, Key key, bool is_reserved) {
  Owners& owners = ports_[key];
  binding.space = key.first;
  binding.port = key.second;
  int error = Check(owners, binding, binding.reuses_address);
  if (error == 0 && is_reserved && !IsShared(owners, binding)) {
    error = reserve_(ServiceOf(binding, binding.reuses_address));
  }
  if (error != 0) {
    binding.port = 0;
    if (owners.empty()) ports_.erase(key);
    return error;
  }
  owners.push_back(&binding);
  binding.is_reserved = is_reserved;
  binding.address.port = key.second;
  return 0;
}

int Ports::Bind(Binding& binding, PortSpace space, bool is_reserved) {
  const uint16_t wanted = binding.address.port;
  if (wanted != 0) {
    if (wanted < kFirstUnprivilegedPort && geteuid() != 0) return EACCES;
    return BindTo(binding, {space, wanted}, is_reserved);
  }
  for (int attempt = 0; attempt < kEphemeralAttempts; ++attempt) {
    const auto port = static_cast<uint16_t>(kFirstEphemeralPort + random_.Below(kEphemeralPorts));
    if (ports_.contains({space, port})) continue;
    const int error = BindTo(binding, {space, port}, is_reserved);
    if (error != EADDRINUSE) return error;
  }
  return EADDRNOTAVAIL;
}

int Ports::CheckListen(const Binding& binding) const {
  return Check(ports_.at({binding.space, binding.port}), binding, /*reuses_address=*/false);
}

int Ports::ReserveForListen(Binding& binding, const transport::Gid& service_gid) {
  Service service = ServiceOf(binding, /*shares=*/false);
  service.address = service_gid;
  service.listens = true;
  if (const int error = reserve_(service)) return error;
  if (service_gid != binding.service_gid) ReleaseService(binding);
  binding.service_gid = service_gid;
  binding.is_reserved = true;
  return 0;
}

void Ports::ReleaseService(const Binding& binding) {
  if (!binding.is_reserved || IsShared(ports_.at({binding.space, binding.port}), binding)) return;
  release_(ServiceOf(binding, /*shares=*/false));
}

void Ports::Unbind(Binding& binding) {
  const auto port = ports_.find({binding.space, binding.port});
  if (binding.port == 0 || port == ports_.end()) return;
  std::erase(port->second, &binding);
  ReleaseService(binding);
  if (port->second.empty()) ports_.erase(port);
  binding.port = 0;
  binding.is_reserved = false;
}

}  // namespace uroce::verbs::rdma_cm
