#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "transport/cm/connection_manager.h"
#include "transport/cm/event.h"
#include "transport/cm/ip_header.h"
#include "transport/qp_attributes.h"
#include "verbs_provider/rdma_cm/channel.h"
#include "verbs_provider/rdma_cm/device_access.h"
#include "verbs_provider/rdma_cm/id.h"
#include "verbs_provider/rdma_cm/ports.h"
#include "verbs_provider/rdma_cm/routes.h"
#include "verbs_provider/rdma_cm/slots.h"

namespace uroce::verbs::rdma_cm {

// RDMA_IB_IP_PS_MASK.
inline constexpr uint64_t kIpServiceMask = 0xffff'ffff'ffff'0000;

// The arguments of rdma_connect and rdma_accept about the queue pair: struct rdma_conn_param.
struct ConnectionParameters {
  transport::Qpn qpn{};
  uint32_t qkey = 0;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  bool flow_control = false;
  uint8_t retry_count = 0;
  uint8_t rnr_retry_count = 0;
  bool srq = false;
  std::span<const uint8_t> private_data{};
};

// The rdma_cm of this process: all ids of all channels. Behaves as drivers/infiniband/core/cma.c
// and ucma.c of Linux. The calls return 0 or an errno value. Not thread-safe: all callers hold the
// same lock.
class Agent {
 public:
  // Opens the device when an id needs it for the first time: a program that only asks whether there
  // is an rdma_cm does not join the fabric.
  using OpenDevice = std::function<std::unique_ptr<DeviceAccess>(int* error)>;

  Agent(const transport::Seed& seed, OpenDevice open_device);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // --- channels and ids (ids.cc)
  Channel* OpenChannel(Channel::TokenSink tokens);
  // Ends all ids of the channel and tells the peers.
  void CloseChannel(Channel* channel);
  bool IsChannel(const Channel* channel) const { return channels_.contains(channel); }
  // Ends all ids of all channels, when the process ends.
  void CloseAll();
  int CreateId(Channel& channel, uint64_t uid, uint16_t port_space, uint8_t qp_type,
               uint32_t& handle);
  int DestroyId(Channel& channel, uint32_t handle, uint32_t& events_reported);
  int MigrateId(Channel& to, const Channel* from, uint32_t handle, uint32_t& events_reported);
  // ENOENT: no such id; EINVAL: an id of another channel; ENXIO: its device is gone.
  int Find(const Channel& channel, uint32_t handle, Id*& id) const;
  // Queues an event that the application or librdmacm has made.
  void WriteEvent(Id& id, const rdma_ucm_event_resp& event) { Tell(id, event); }
  // EAGAIN: no event. `deliver` returns whether it could write the event; EFAULT if not.
  int GetEvent(Channel& channel, const std::function<bool(const rdma_ucm_event_resp&)>& deliver);

  // --- addresses (addresses.cc, resolution.cc)
  int Bind(Id& id, const SocketAddress& address);
  int ResolveAddress(Id& id, const SocketAddress& source, const SocketAddress& destination,
                     transport::Duration timeout);
  int ResolveRoute(Id& id);
  // Goes on with resolutions that wait for a neighbor. Call when one has been found, and at
  // NextDeadline.
  void ServeResolutions();
  transport::Time NextDeadline() const;
  int Listen(Id& id, uint32_t backlog);
  int SetReuseAddress(Id& id, bool reuses);
  int SetAfOnly(Id& id, bool af_only);
  int SetAckTimeout(Id& id, uint8_t timeout);
  // Only valid while an id has a device.
  uint64_t node_guid() const { return device_->facts().node_guid; }

  // --- connections (connections.cc)
  int Connect(Id& id, const ConnectionParameters& parameters);
  // nullopt: the queue pair is ready, as the peer's reply demands.
  int Accept(Id& id, uint64_t uid, const std::optional<ConnectionParameters>& parameters);
  int Reject(Id& id, uint8_t reason, std::span<const uint8_t> private_data);
  int Disconnect(Id& id);
  int CommunicationEstablished(Id& id);
  int PathMigrated(Id& id);
  int InitQpAttributes(Id& id, transport::QpState state, transport::QpAttributes& attributes,
                       uint32_t& mask);

  // --- multicast (multicast.cc)
  int Join(Id& id, uint64_t uid, const SocketAddress& group, uint32_t& handle);
  int Leave(const Channel& channel, uint32_t handle, uint32_t& events_reported);

  // --- events of the connection manager (incoming.cc) and of the device
  // Call when the device has events or other addresses, or has failed.
  void TakeConnectionEvents();

  size_t id_count() const { return ids_.size(); }

 private:
  // The listeners of a service id: one listener of the connection manager for all ids of the port.
  struct Service {
    transport::cm::CommunicationId listener{};
    std::vector<Id*> ids;
  };

  // Runs `f(connection_manager, now)` and returns its result.
  template <class F>
  auto With(F f) {
    using Result =
        decltype(f(std::declval<transport::cm::ConnectionManager&>(), transport::Time{}));
    std::optional<Result> result;
    device_->WithConnectionManager(
        [&](transport::cm::ConnectionManager& cm, transport::Time now) { result = f(cm, now); });
    return *result;
  }

  int NeedDevice();
  void CloseUnusedDevice();
  transport::Psn NewPsn();

  int FindAny(const Channel& channel, uint32_t handle, Id*& id) const;
  // address_change.cc
  void TellAddressChanges();
  // device_removal.cc
  void RemoveDevice();
  void RemoveDeviceOf(Id& id);
  // Removes the id from everything that refers to it.
  void End(Id& id);
  int StartListening(Id& id);
  void StopListening(Id& id);
  void LeaveAll(Id& id);
  uint32_t Forget(const Multicast& member);
  void DropEvents(Id& id);
  void CloseIdsOf(Channel& channel);

  int BindForResolution(Id& id, const SocketAddress& source, const SocketAddress& destination);
  int BindForConnect(Id& id, const SocketAddress& any);
  // Whether packets can take the route now. If not, the neighbor is asked for.
  bool IsResolved(const Route& route);
  void FinishResolution(Id& id, const Route& route);
  std::optional<transport::cm::PortSpace> ChooseSpace(const Id& id, SocketAddress& address) const;
  int ChooseQkey(Id& id, uint32_t qkey);
  void EndConnection(Id& id);
  int ConnectReliably(Id& id, const ConnectionParameters& parameters,
                      std::span<const uint8_t> private_data);
  int ResolveQueuePair(Id& id, std::span<const uint8_t> private_data);
  int AcceptReliably(Id& id, const std::optional<ConnectionParameters>& parameters);
  int AnswerResolution(Id& id, const std::optional<ConnectionParameters>& parameters);
  std::vector<uint8_t> WithIpHeader(const Id& id, std::span<const uint8_t> private_data) const;

  // Queues an event, unless the application does not know the id yet.
  void Tell(Id& id, const rdma_ucm_event_resp& event);
  void Tell(Id& id, UserEvent event, int status = 0);

  void OnEvent(const transport::cm::Event& event);
  void OnRequest(const transport::cm::Event& event);
  void OnConnectionEvent(Id& id, const transport::cm::Event& event);
  void OnResolution(Id& id, const transport::cm::Event& event);
  Id* FindListener(const Service& service, const std::optional<transport::cm::IpHeader>& header);
  std::unique_ptr<Id> MakeRequestId(const Id& listener, const transport::cm::Event& event,
                                    const std::optional<transport::cm::IpHeader>& header);
  void Refuse(transport::cm::CommunicationId connection, bool with_a_word);

  transport::RandomNumbers random_;
  const OpenDevice open_device_;
  std::unique_ptr<DeviceAccess> device_;
  std::vector<transport::Gid> known_gids_;  // the device's GIDs at the last TellAddressChanges
  HostFacts host_;
  std::set<Id*> resolving_;  // ids in kResolvingAddress
  Ports ports_;
  std::map<const Channel*, std::unique_ptr<Channel>> channels_;
  Slots<Id> ids_;
  Slots<Multicast> multicasts_;
  std::map<transport::cm::ServiceId, Service> services_;
  std::unordered_map<uint32_t, Id*> connections_;                     // by communication id
  std::unordered_map<uint32_t, transport::cm::ServiceId> listeners_;  // by communication id
};

}  // namespace uroce::verbs::rdma_cm
