#pragma once

#include <compare>
#include <cstdint>

#include "transport/ids.h"

namespace uroce::transport::cm {

// Names a connection, a listener or a resolution in the messages of one end. 0 is none.
using CommunicationId = Id<struct CommunicationIdTag>;

// The service that a peer asks for.
struct ServiceId {
  uint64_t value = 0;

  constexpr auto operator<=>(const ServiceId&) const = default;
};

// The port spaces of rdma_cm (enum rdma_ucm_port_space of include/uapi/rdma/rdma_user_cm.h). A
// service id has the port in its low 16 bits and the port space above them.
enum class PortSpace : uint16_t {
  kIpoib = 0x0002,
  kIb = 0x013f,
  kTcp = 0x0106,
  kUdp = 0x0111,
};

// `port` in the byte order of the host.
constexpr ServiceId ServiceIdOf(PortSpace space, uint16_t port) {
  return {uint64_t{static_cast<uint16_t>(space)} << 16 | port};
}
// Of a service id of a port space: the port, in the byte order of the host.
constexpr uint16_t PortOf(ServiceId id) { return static_cast<uint16_t>(id.value); }
constexpr bool IsOf(PortSpace space, ServiceId id) {
  return id.value >> 16 == static_cast<uint16_t>(space);
}

inline constexpr uint64_t kExactServiceMask = UINT64_MAX;
// "Choose one for me": ids of this range are given out by the communication manager.
inline constexpr ServiceId kAssignServiceId{0x0200'0000'0000'0000};
inline constexpr uint64_t kAssignedServiceMask = 0xff00'0000'0000'0000;

}  // namespace uroce::transport::cm
