#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/base/thread_annotations.h"
#include "dpdk_nic/device/device.h"
#include "dpdk_nic/device/device_config.h"
#include "dpdk_nic/engine/engine.h"
#include "dpdk_nic/link_layer/local_gids.h"
#include "transport/address.h"
#include "transport/ids.h"
#include "verbs_provider/base/fork_generation.h"
#include "verbs_provider/base/object_list.h"
#include "verbs_provider/base/use_count.h"
#include "verbs_provider/device/engine_choice.h"
#include "verbs_provider/objects/xrc_domain.h"

namespace uroce::verbs {

inline constexpr char kDeviceName[] = "uroce0";
inline constexpr uint8_t kPortNumber = 1;  // the only one
inline constexpr size_t kGidTableLength = nic::LocalGids::kEntries;
inline constexpr uint32_t kMaxAddressHandles = 65'536;
// Device memory (ibv_alloc_dm) of a process. It is ordinary memory: the limit is what a program may
// expect of a NIC, not what the host has.
inline constexpr uint32_t kDeviceMemoryPages = 16'384;
inline constexpr uint32_t kDeviceMemoryPageBytes = 4'096;

class Context;
struct AddressHandle;

// Makes an access to application memory that is gone fail instead of ending the process. Called
// again with each region, in case the program has installed a signal handler past the preload
// library.
void GuardMemory();

// The device's configuration from the environment variables. The first call reads it, scenario file
// included.
const nic::ErrorOr<nic::DeviceConfig>& Configuration();

// The receivers of the engine's events. Protected by the engine's lock.
struct DeviceFollowers {
  ObjectList<Context> contexts;               // of events of the device
  ObjectList<AddressHandle> address_handles;  // of neighbours' addresses
  std::atomic<bool> has_failed = false;       // the device is gone for good; any thread reads it
};

// The RDMA device of this process, shared by all contexts that are open on it: the NIC device, and
// the numbers and quotas that verbs keep outside the transport.
class Device {
 public:
  // Makes fork() wait for an Open and hold the engines' locks. Called when the library is loaded.
  static void RegisterForkHandlers();

  // The device of this process, which is opened with the first context and closed with the last.
  // Null when it cannot be opened: `*error` is the errno, and stderr has a sentence that says why.
  static std::shared_ptr<Device> Open(int* error);
  // The device if it is open now, else null.
  static std::shared_ptr<Device> FindOpen();

  // The engine of `nic` reports to `followers`.
  Device(std::unique_ptr<nic::Device> nic, std::shared_ptr<DeviceFollowers> followers);

  // The first engine: it serves all but the queue pairs and completion queues of other engines.
  nic::Engine& engine() { return *engine_; }
  nic::EngineGroup& engines() { return nic_->engines(); }
  EngineChoice& engine_choice() { return engine_choice_; }
  // Returns `f(memory)`, where `memory` is the memory table that all engines share. Holds all
  // engines meanwhile.
  template <class F>
  auto WithMemory(F&& f) {
    const nic::EngineGroup::Hold hold(engines());
    return f(engines().memory());
  }
  DeviceFollowers& followers() { return *followers_; }

  // Finds the Ethernet address that `address` leads to. May take as long as address resolution on
  // the wire does. 0, or ETIMEDOUT when no host answers.
  int Resolve(transport::AddressVector& address);

  // The hop limit of packets by the kernel's route to `address`; the default one where the kernel
  // has no route, because the device has addresses of its own.
  uint8_t HopLimitTo(const transport::AddressVector& address);

  // Prepares the path from a queue pair of `engine` to a remote one. 0, or EBUSY when another
  // process of this host has that path. An absent peer is no error, as on any network. Lowers
  // `*path_mtu` to what the path carries. Does the same for the path to `alternate_gid`, to which
  // the connection may migrate, unless that is zero.
  int PreparePath(nic::Engine& engine, transport::Qpn local, const transport::Gid& remote_gid,
                  const transport::Gid& alternate_gid, transport::Qpn remote,
                  transport::Mtu* path_mtu);
  // The same for datagrams between `local` and all hosts beyond the wire.
  int PrepareDatagramPath(transport::Qpn local);
  // Makes the port receive a multicast group. 0, or ENOSPC when too many groups are in use.
  int JoinGroup(const transport::Gid& group);

  // At most kGidTableLength entries. A zero GID is a free entry.
  std::vector<transport::Gid> gids();
  // As EndpointConfig::SourceOf.
  transport::Gid SourceOf(const transport::AddressVector& address);
  const transport::MacAddress& mac() const { return mac_; }
  const std::vector<uint16_t>& pkeys() const { return pkeys_; }
  ibv_mtu active_mtu() const { return active_mtu_; }
  uint32_t max_queue_pairs() const { return nic_->max_queue_pairs(); }
  // Whether the device has raw packet queue pairs.
  bool carries_ethernet() const { return carries_ethernet_; }
  ibv_port_state port_state();
  // Whether IBV_EVENT_DEVICE_FATAL was raised.
  bool has_failed() const { return followers_->has_failed; }

  // nullopt when all are taken.
  std::optional<transport::PdId> TakePdId();
  void ReturnPdId(transport::PdId id);
  XrcDomains& xrc_domains() { return xrc_domains_; }
  Quota& completion_queues() { return completion_queues_; }
  Quota& shared_receive_queues() { return shared_receive_queues_; }
  Quota& address_handles() { return address_handles_; }
  Quota& device_memory_pages() { return device_memory_pages_; }

  // A child process of fork() shares no port with its parent, and the thread that drives the engine
  // does not exist in it: what it inherited cannot be used. It can open the device anew.
  bool lost_by_fork() const { return fork_generation_ != CurrentForkGeneration(); }

 private:
  int Prepare(nic::Engine& engine, const nic::PacketPort::Path& path);

  const uint32_t fork_generation_ = CurrentForkGeneration();
  const std::unique_ptr<nic::Device> nic_;
  const std::shared_ptr<DeviceFollowers> followers_;
  EngineChoice engine_choice_;
  nic::Engine* const engine_;  // of nic_: one load less on the data path
  const transport::MacAddress mac_;
  const std::vector<uint16_t> pkeys_;
  const ibv_mtu active_mtu_;
  const bool carries_ethernet_;

  nic::Mutex pd_ids_lock_;
  std::vector<transport::PdId> free_pd_ids_ UROCE_GUARDED_BY(pd_ids_lock_);
  uint32_t next_pd_id_ UROCE_GUARDED_BY(pd_ids_lock_) = 1;
  XrcDomains xrc_domains_;
  Quota completion_queues_;
  Quota shared_receive_queues_;
  Quota address_handles_;
  Quota device_memory_pages_;
};

}  // namespace uroce::verbs
