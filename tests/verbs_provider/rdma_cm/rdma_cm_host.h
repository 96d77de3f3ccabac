#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transport/cm/connection_manager.h"
#include "verbs_provider/rdma_cm/agent.h"
#include "verbs_provider/rdma_cm/commands.h"

// Processes with rdma_cm, their connection managers and a wire between them, without a kernel, a
// thread or a clock. Commands are written as librdmacm writes them.
namespace uroce::verbs::rdma_cm {

using transport::Gid;

class Host;

// Carries MADs, and knows which process has reserved which service.
struct Network {
  std::vector<Host*> hosts;
  transport::Time now{1'000'000};
  std::vector<std::pair<const Host*, Service>> services;

  // Delivers MADs until none is left.
  void Run();
  void Advance(transport::Duration by);
};

class Host {
 public:
  // The address is 10.0.0.`number`, or `gid` if given, which several processes may share.
  Host(Network& network, uint8_t number, std::optional<Gid> gid = {});

  Agent& agent() { return agent_; }
  Channel& channel() { return *channel_; }
  const Gid& gid() const { return gid_; }
  transport::cm::ConnectionManager& manager() { return manager_; }

  // --- raw commands: 0 or an errno value
  template <class Command>
  int Write(uint32_t number, const Command& command, size_t out = 0, Channel* channel = nullptr) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&command);
    return WriteBytes(number, {bytes, sizeof command}, out, channel);
  }
  int WriteBytes(uint32_t number, std::span<const uint8_t> command, size_t out = 0,
                 Channel* channel = nullptr);

  // --- the calls of librdmacm
  uint32_t Create(uint16_t space = RDMA_PS_TCP, uint8_t qp_type = 2, uint64_t uid = 0);
  int Destroy(uint32_t id, uint32_t* events_reported = nullptr);
  template <class Address>
  int Bind(uint32_t id, const Address& address) {
    rdma_ucm_bind command{};
    command.id = id;
    command.addr_size = sizeof address;
    std::memcpy(&command.addr, &address, sizeof address);
    return Write(RDMA_USER_CM_CMD_BIND, command);
  }
  template <class Address>
  int Resolve(uint32_t id, const Address& destination) {
    rdma_ucm_resolve_addr command{};
    command.id = id;
    command.timeout_ms = 2'000;
    command.dst_size = sizeof destination;
    std::memcpy(&command.dst_addr, &destination, sizeof destination);
    return Write(RDMA_USER_CM_CMD_RESOLVE_ADDR, command);
  }
  int ResolveRoute(uint32_t id) {
    return Write(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{id, 2'000});
  }
  int Listen(uint32_t id, uint32_t backlog = 0) {
    return Write(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id, backlog});
  }
  static rdma_ucm_conn_param Parameters(uint32_t qpn, const std::string& private_data = "");
  int Connect(uint32_t id, const rdma_ucm_conn_param& parameters);
  int Accept(uint32_t id, const rdma_ucm_conn_param& parameters);
  int ConfirmReady(uint32_t id);
  int Disconnect(uint32_t id) {
    return Write(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{id});
  }
  int InitQp(uint32_t id, uint32_t state, ib_uverbs_qp_attr& answer);
  // 4.096 us * 2^timeout.
  int SetAckTimeout(uint32_t id, uint8_t timeout);
  // Joins the group 239.1.2.3, as user id 77.
  int Join(uint32_t id, uint32_t& member, uint16_t flags = RDMA_MC_JOIN_FLAG_FULLMEMBER);
  int Leave(uint32_t member, uint32_t& events_reported);
  int GetEvent(rdma_ucm_event_resp& event, Channel* channel = nullptr);
  // The next event, which must be of this kind.
  rdma_ucm_event_resp Expect(UserEvent kind);
  void ExpectNoEvent();
  rdma_ucm_query_addr_resp Query(uint32_t id, uint32_t option = RDMA_USER_CM_QUERY_ADDR);

  int tokens = 0;  // of all channels
  int device_opens = 0;
  bool has_address = true;  // of the device's interface
  Gid other_gid{};          // the interface's address instead
  bool has_device_failed = false;
  // The way to others; has_wire is read when the device is opened.
  bool has_wire = false;
  std::function<nic::KernelRoute(const nic::RouteQuestion&)> kernel_route;
  uint8_t hop_limit = 0;
  std::set<Gid> silent_neighbors;
  Gid missing_gid{};  // that the device has explained
  const Channel* migrate_from = nullptr;

 private:
  friend struct Network;

  class Device;

  Network& network_;
  const Gid gid_;
  transport::cm::ConnectionManager manager_;
  Agent agent_;
  Channel* channel_;
  uint64_t last_uid_ = 1'000;
};

inline sockaddr_in Ipv4(uint32_t address, uint16_t port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  in.sin_addr.s_addr = htonl(address);
  return in;
}
inline sockaddr_in Ipv4(const Host& host, uint16_t port) {
  return Ipv4(0x0a00'0000u | host.gid().bytes[15], port);
}
inline sockaddr_in Any(uint16_t port) { return Ipv4(INADDR_ANY, port); }
inline sockaddr_in6 Any6(uint16_t port) {
  sockaddr_in6 in{};
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(port);
  return in;
}
template <class Address>
Address AddressIn(const __kernel_sockaddr_storage& storage) {
  Address address;
  std::memcpy(&address, &storage, sizeof address);
  return address;
}

}  // namespace uroce::verbs::rdma_cm
