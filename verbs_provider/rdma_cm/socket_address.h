#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/ids.h"

namespace uroce::verbs::rdma_cm {

inline constexpr sa_family_t kFamilyIb = 27;  // AF_IB
inline constexpr size_t kStorageBytes = sizeof(sockaddr_storage);

// An address of rdma_cm: struct sockaddr_in, sockaddr_in6 or sockaddr_ib.
struct SocketAddress {
  sa_family_t family = AF_UNSPEC;
  transport::Gid gid{};  // IPv4 as a mapped address
  uint16_t port = 0;     // byte order of the host; of AF_IB: the low 16 bits of the service id
  uint32_t flow_info = 0;
  uint32_t scope_id = 0;  // AF_INET6
  // AF_IB, byte order of the host.
  uint16_t pkey = 0;
  uint64_t service_id = 0;
  uint64_t service_mask = 0;

  bool IsIp() const { return family == AF_INET || family == AF_INET6; }
  // The wildcard address; of AF_IB also the loopback GID ::1, as in the kernel.
  bool IsAny() const;
  bool IsLoopback() const;  // 127.0.0.0/8, ::1
  bool IsLinkLocal() const;
};

SocketAddress AnyAddress(sa_family_t family);

// The size of the family's struct: rdma_addr_size() of the kernel; 0 for other families.
size_t AddressBytes(sa_family_t family);
sa_family_t FamilyOf(std::span<const uint8_t> bytes);  // at least 2 bytes

// nullopt: another family, or fewer bytes than the family's struct has.
std::optional<SocketAddress> ParseAddress(std::span<const uint8_t> bytes);
// Writes AddressBytes(address.family) bytes and returns how many these are.
size_t EmitAddress(const SocketAddress& address, uint8_t* bytes);

}  // namespace uroce::verbs::rdma_cm
