#pragma once

#include <cstdint>
#include <optional>

#include "transport/cm/identifiers.h"
#include "transport/cm/parameters.h"
#include "transport/ids.h"
#include "transport/psn.h"
#include "transport/time.h"
#include "verbs_provider/rdma_cm/ports.h"
#include "verbs_provider/rdma_cm/routes.h"
#include "verbs_provider/rdma_cm/socket_address.h"

namespace uroce::verbs::rdma_cm {

class Channel;

// enum rdma_cm_state of Linux, without the states in which no id here waits.
//
//   kIdle ─ bind ─► kAddressBound ─ listen ─► kListening
//     └─ resolve address ─► kAddressResolved ─ resolve route ─► kRouteResolved
//   kAddressBound ─ resolve address, the neighbor is unknown ─► kResolvingAddress
//   kResolvingAddress ─ the neighbor answers ─► kAddressResolved; it does not ─► kAddressBound
//   kRouteResolved ─ connect ─► kConnecting (also the id of a request) ─ either end ─►
//   kDisconnected
//   any state with a device ─ the device is gone ─► kDeviceRemoved
enum class IdState : uint8_t {
  kIdle,
  kAddressBound,
  kListening,
  kResolvingAddress,  // RDMA_CM_ADDR_QUERY
  kAddressResolved,
  kRouteResolved,
  kConnecting,  // or connected
  kDisconnected,
  kDeviceRemoved,  // can only be destroyed
};

inline constexpr uint32_t kNoHandle = UINT32_MAX;

// The values of enum ibv_qp_type that an id may have.
inline constexpr uint8_t kQpTypeRc = 2;
inline constexpr uint8_t kQpTypeUc = 3;
inline constexpr uint8_t kQpTypeUd = 4;
inline constexpr uint8_t kQpTypeXrcSend = 9;

// The resolution that an id in kResolvingAddress waits for.
struct Resolution {
  Route route{};
  transport::Time deadline{};
};

// One rdma_cm_id as the kernel has it: the parts of ucma (handle, uid, events) and cma (the rest).
struct Id {
  uint32_t handle = kNoHandle;  // none before the application has fetched the connect request
  uint64_t uid = 0;             // the application's; until it is set, no events but the request
  Channel* channel = nullptr;
  uint32_t events_reported = 0;
  uint32_t backlog = 0;  // connect requests that may still wait to be fetched

  transport::cm::PortSpace space{};
  uint8_t qp_type = kQpTypeRc;
  IdState state = IdState::kIdle;
  Binding binding{};
  SocketAddress peer{};
  Resolution resolution{};
  bool has_device = false;  // the address determines the device
  std::optional<transport::cm::Path> path{};
  bool has_route = false;

  uint8_t type_of_service = 0;
  bool af_only_chosen = false;
  std::optional<uint8_t> ack_timeout{};

  std::optional<transport::cm::CommunicationId> connection{};
  transport::Qpn qpn{};
  uint32_t qkey = 0;  // 0: not chosen yet
  transport::Psn starting_psn{};

  bool is_datagram() const { return qp_type == kQpTypeUd; }
  const SocketAddress& address() const { return binding.address; }
  // Only for an id that has a device.
  const transport::Gid& own_gid() const { return path ? path->source_gid : address().gid; }
};

// A group that an id is a member of.
struct Multicast {
  uint32_t handle = 0;
  uint64_t uid = 0;
  uint32_t events_reported = 0;
  Id* id = nullptr;
};

}  // namespace uroce::verbs::rdma_cm
