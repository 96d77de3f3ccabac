#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "transport/cm/identifiers.h"
#include "transport/random_numbers.h"
#include "verbs_provider/rdma_cm/device_access.h"
#include "verbs_provider/rdma_cm/socket_address.h"

namespace uroce::verbs::rdma_cm {

// The part of an id that the rules of port sharing need. Embedded in the id.
struct Binding {
  SocketAddress address{};
  bool reuses_address = false;  // RDMA_OPTION_ID_REUSEADDR
  bool af_only = false;         // RDMA_OPTION_ID_AFONLY
  // The GID at which requests for the address arrive: Service::address.
  transport::Gid service_gid{};
  bool only_ipv6 = false;
  // Set by Ports.
  transport::cm::PortSpace space{};
  uint16_t port = 0;  // 0: not bound
  bool is_reserved = false;

  transport::cm::ServiceId service_id() const { return transport::cm::ServiceIdOf(space, port); }
};

// The ports of one process, by port space: cma_get_port of Linux. Other processes of the fabric
// are asked through `Reserve`.
class Ports {
 public:
  // 0 or an errno value; EADDRINUSE: another process has the service.
  using Reserve = std::function<int(const Service&)>;
  using Release = std::function<void(const Service&)>;

  Ports(const transport::Seed& seed, Reserve reserve, Release release)
      : random_(seed, /*stream=*/0), reserve_(std::move(reserve)), release_(std::move(release)) {}

  // Gives `binding` the port of its address in `space`, or a free port if that is 0, and writes it
  // into the address. `is_reserved`: no other process of the fabric may have the port. 0, or
  // EADDRINUSE, EADDRNOTAVAIL, EACCES, or the error of Reserve.
  int Bind(Binding& binding, transport::cm::PortSpace space, bool is_reserved);
  // Before an id listens: checks that no other id shares its port by reuse_address.
  int CheckListen(const Binding& binding) const;
  // When an id listens: no other process may have the port now, and requests to `service_gid` come
  // here. `service_gid` may be another one than when the id was bound.
  int ReserveForListen(Binding& binding, const transport::Gid& service_gid);
  void Unbind(Binding& binding);

 private:
  using Key = std::pair<transport::cm::PortSpace, uint16_t>;
  using Owners = std::vector<Binding*>;

  int BindTo(Binding& binding, Key key, bool is_reserved);
  // Releases the service to other processes, unless another owner of the port needs it as well.
  void ReleaseService(const Binding& binding);
  // Whether another owner of the port has the same service reserved.
  static bool IsShared(const Owners& owners, const Binding& binding);
  static int Check(const Owners& owners, const Binding& binding, bool reuses_address);

  transport::RandomNumbers random_;
  Reserve reserve_;
  Release release_;
  std::map<Key, Owners> ports_;
};

}  // namespace uroce::verbs::rdma_cm
