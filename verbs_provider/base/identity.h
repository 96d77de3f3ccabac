#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "transport/ids.h"

// The identity of the device, as ibv_query_device and ibv_query_port show it, and the virtual
// kernel in netlink and sysfs.
namespace uroce::verbs {

inline constexpr char kFirmwareVersion[] = "0.1.0";
inline constexpr char kNodeDescription[] = "uroce software RDMA NIC";
// Not an assigned OUI: the locally administered bit is set ("uo").
inline constexpr uint32_t kVendorId = 0x02'756f;
inline constexpr uint32_t kVendorPartId = 1;

inline constexpr uint8_t kPhysicalStateDisabled = 3;  // PortPhysicalState of PortInfo
inline constexpr uint8_t kPhysicalStateLinkUp = 5;
constexpr uint8_t PhysicalState(ibv_port_state state) {
  return state == IBV_PORT_ACTIVE ? kPhysicalStateLinkUp : kPhysicalStateDisabled;
}

inline constexpr uint32_t kPortCapabilities = IBV_PORT_IP_BASED_GIDS;
// 4 lanes of 25 Gbit/s: the order of magnitude that a shared-memory link moves.
inline constexpr uint8_t kActiveWidth4X = 2;
inline constexpr uint8_t kActiveSpeedEdr = 32;
inline constexpr uint32_t kRateMbps = 100'000;

// EUI-64 of the MAC address, in host byte order.
constexpr uint64_t NodeGuid(const transport::MacAddress& mac) {
  uint64_t guid = 0;
  for (const uint8_t byte : transport::Gid::LinkLocal(mac).bytes) guid = guid << 8 | byte;
  return guid;  // the upper 64 bits of the GID have been shifted out
}

}  // namespace uroce::verbs
