#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/ids.h"

namespace uroce::transport::cm {

// The header with which rdma_cm begins the private data of a REQ and of a SIDR_REQ (annex A11,
// "RDMA IP CM service"; struct cma_hdr of Linux):
//
//   0  version of this header, 0
//   1  IP version in the upper four bits: 4 or 6
//   2  port of the requester, big-endian
//   4  address of the requester, 16 bytes; IPv4 in the last four, after zeros
//  20  address that was asked for
struct IpHeader {
  static constexpr size_t kBytes = 36;

  bool is_ipv6 = false;
  uint16_t source_port = 0;  // byte order of the host
  // IPv4 as a mapped GID, ::ffff:a.b.c.d, as everywhere in the transport.
  Gid source{};
  Gid destination{};

  bool operator==(const IpHeader&) const = default;
};

// nullopt: too short, another version of the header, neither IPv4 nor IPv6.
std::optional<IpHeader> ParseIpHeader(std::span<const uint8_t> private_data);
// Writes IpHeader::kBytes bytes.
void EmitIpHeader(const IpHeader& header, uint8_t* bytes);

}  // namespace uroce::transport::cm
