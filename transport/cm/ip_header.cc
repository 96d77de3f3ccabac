#include "transport/cm/ip_header.h"

#include <algorithm>

#include "transport/wire/byte_order.h"

namespace uroce::transport::cm {
namespace {

constexpr size_t kSourceOffset = 4;
constexpr size_t kDestinationOffset = 20;
constexpr size_t kIpv4Offset = 12;  // within an address of 16 bytes
static_assert(kDestinationOffset + 16 == IpHeader::kBytes);

Gid ParseAddress(const uint8_t* bytes, bool is_ipv6) {
  if (!is_ipv6) {
    const uint8_t* ipv4 = bytes + kIpv4Offset;
    return Gid::FromIpv4({ipv4[0], ipv4[1], ipv4[2], ipv4[3]});
  }
  Gid address;
  std::copy_n(bytes, address.bytes.size(), address.bytes.begin());
  return address;
}

void EmitAddress(const Gid& address, bool is_ipv6, uint8_t* bytes) {
  std::copy(address.bytes.begin(), address.bytes.end(), bytes);
  if (!is_ipv6) std::fill_n(bytes, kIpv4Offset, uint8_t{0});
}

}  // namespace

std::optional<IpHeader> ParseIpHeader(std::span<const uint8_t> private_data) {
  if (private_data.size() < IpHeader::kBytes || private_data[0] != 0) return std::nullopt;
  const int ip_version = private_data[1] >> 4;
  if (ip_version != 4 && ip_version != 6) return std::nullopt;
  const bool is_ipv6 = ip_version == 6;
  return IpHeader{.is_ipv6 = is_ipv6,
                  .source_port = Load16(&private_data[2]),
                  .source = ParseAddress(&private_data[kSourceOffset], is_ipv6),
                  .destination = ParseAddress(&private_data[kDestinationOffset], is_ipv6)};
}

void EmitIpHeader(const IpHeader& header, uint8_t* bytes) {
  bytes[0] = 0;
  bytes[1] = static_cast<uint8_t>((header.is_ipv6 ? 6 : 4) << 4);
  Store16(header.source_port, bytes + 2);
  EmitAddress(header.source, header.is_ipv6, bytes + kSourceOffset);
  EmitAddress(header.destination, header.is_ipv6, bytes + kDestinationOffset);
}

}  // namespace uroce::transport::cm
