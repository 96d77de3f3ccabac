#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/block_claim.h"
#include "dpdk_nic/control/control_address.h"
#include "dpdk_nic/control/descriptor_closer.h"
#include "dpdk_nic/control/fabric_description.h"
#include "dpdk_nic/control/frame_switch.h"
#include "dpdk_nic/control/group_shares.h"
#include "dpdk_nic/control/leases.h"
#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/control/rate_limited_log.h"
#include "dpdk_nic/control/registry.h"
#include "dpdk_nic/control/session.h"
#include "dpdk_nic/control/xrc_domains.h"
#include "transport/time.h"

namespace uroce::nic::control {

// uroced's control socket: lets processes in, keeps the record of clients and links, and tells the
// switch what each process may do. Runs in the handlers of one io_context, on one thread.
class Server {
 public:
  struct Limits {
    Registry::Limits registry = {};
    // Connections that have not said Hello. A client says it at once, so these limits are large;
    // the one for each user leaves room for the others.
    uint32_t max_unauthenticated = 1'024;
    uint32_t max_unauthenticated_per_user = 256;
    // How long such a connection, or a transient client, may stay.
    std::chrono::milliseconds handshake_timeout{5'000};
    // How long a private fabric waits for its first client or lease.
    std::chrono::milliseconds first_use_timeout{10'000};
    // Connections accepted in 10 ms, which bounds the cost of a flood of them.
    uint32_t connections_per_interval = 64;
  };

  struct Config {
    FabricDescription fabric = {};
    Limits limits = {};
    std::function<bool(uid_t)> admits = {};  // which users may attach
    RateLimitedLog::Sink log = {};
    // Called when a private fabric has no connection and no lease left. It has stopped listening.
    std::function<void()> on_unused = {};
  };

  Server(boost::asio::io_context& io, FabricListener listener, Config config);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Lets processes in from now on. The switch must end before the server, which it calls.
  void Start(FrameSwitch& frame_switch);

  // Events of the switch; any thread.
  void OnNeighbor(const Neighbor& neighbor);
  void OnWireState(bool is_up);
  // `gids`: the GID table of the wire now.
  void OnGids(const std::vector<transport::Gid>& gids);
  // Tells the processes that named the host `about`, and writes the sentence to the log.
  void OnNotice(const transport::Gid& about, const std::string& sentence);
  void OnBrokenUplink(Block block);
  // The wire has sockets now, also for processes that named a host before.
  void OnWireSockets();

  // Used by sessions.
  boost::asio::io_context& io() { return io_; }
  const FabricDescription& fabric() const { return config_.fabric; }
  const Limits& limits() const { return config_.limits; }
  Registry& registry() { return registry_; }
  GroupShares& group_shares() { return group_shares_; }
  XrcDomains& xrc_domains() { return xrc_domains_; }
  const BlockClaims& claims() const { return claims_; }
  DescriptorCloser& closer() { return closer_; }
  FrameSwitch& frame_switch() { return *frame_switch_; }
  transport::Time started_at() const { return started_at_; }
  void Log(std::string_view line);
  // nullptr if no client has the block.
  Session* FindClient(Block block) const;
  // Lets the process that called connect() keep a private fabric alive.
  ErrnoValue GrantLease(const Session& session);
  void OnAttached(Session& session);
  void OnClosed(Session& session, bool was_client);

 private:
  void AwaitConnections();
  void AcceptConnections();
  // Whether another connection may be accepted now; if not, accepting resumes when there is room.
  bool HasRoom();
  void AcceptLater(std::chrono::milliseconds delay);
  void Welcome(UniqueFd socket);
  void ForgetUnauthenticated(uid_t uid);
  template <class Function>
  void ForEachClient(Function function);
  void StopIfUnused();

  boost::asio::io_context& io_;
  Config config_;
  const transport::Time started_at_;
  RateLimitedLog log_;
  DescriptorCloser closer_;  // destroyed after all channels
  FabricListener fabric_;
  const BlockClaims claims_;
  Registry registry_;
  GroupShares group_shares_;
  XrcDomains xrc_domains_{[this](UniqueFd file) { closer_.Close(std::move(file)); }};
  FrameSwitch* frame_switch_ = nullptr;

  boost::asio::posix::stream_descriptor listener_;
  boost::asio::steady_timer accept_timer_;
  transport::Time interval_end_;
  uint32_t accepted_ = 0;                      // in this interval
  bool has_too_many_unauthenticated_ = false;  // accepts no more until one attaches or ends

  std::set<std::shared_ptr<Session>> sessions_;
  std::map<Block, Session*> clients_;
  uint32_t unauthenticated_ = 0;
  std::map<uid_t, uint32_t> unauthenticated_of_user_;

  Leases leases_;
  boost::asio::steady_timer first_visit_timer_;
  bool was_used_ = false;
};

}  // namespace uroce::nic::control
