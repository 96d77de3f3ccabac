#include "verbs_provider/rdma_cm/socket_address.h"

#include <endian.h>
#include <infiniband/ib.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace uroce::verbs::rdma_cm {
namespace {

using transport::Gid;

static_assert(AF_IB == kFamilyIb);

constexpr Gid kIpv6Loopback{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

template <class Struct>
Struct Load(std::span<const uint8_t> bytes) {
  Struct loaded;
  std::memcpy(&loaded, bytes.data(), sizeof loaded);
  return loaded;
}

template <class Struct>
size_t Store(const Struct& stored, uint8_t* bytes) {
  std::memcpy(bytes, &stored, sizeof stored);
  return sizeof stored;
}

Gid GidOf(const void* bytes) {
  Gid gid;
  std::memcpy(gid.bytes.data(), bytes, gid.bytes.size());
  return gid;
}

SocketAddress FromIpv4(const sockaddr_in& in) {
  std::array<uint8_t, 4> ip;
  std::memcpy(ip.data(), &in.sin_addr, ip.size());
  SocketAddress address;
  address.family = AF_INET;
  address.gid = Gid::FromIpv4(ip);
  address.port = ntohs(in.sin_port);
  return address;
}

SocketAddress FromIpv6(const sockaddr_in6& in) {
  SocketAddress address;
  address.family = AF_INET6;
  address.gid = GidOf(&in.sin6_addr);
  address.port = ntohs(in.sin6_port);
  address.flow_info = in.sin6_flowinfo;
  address.scope_id = in.sin6_scope_id;
  return address;
}

SocketAddress FromIb(const sockaddr_ib& in) {
  SocketAddress address;
  address.family = kFamilyIb;
  address.gid = GidOf(&in.sib_addr);
  address.pkey = be16toh(in.sib_pkey);
  address.flow_info = in.sib_flowinfo;
  address.service_id = be64toh(in.sib_sid);
  address.service_mask = be64toh(in.sib_sid_mask);
  address.port = static_cast<uint16_t>(address.service_id & address.service_mask);
  return address;
}

sockaddr_in ToIpv4(const SocketAddress& address) {
  sockaddr_in out = {};
  out.sin_family = AF_INET;
  out.sin_port = htons(address.port);
  std::memcpy(&out.sin_addr, &address.gid.bytes[12], sizeof out.sin_addr);
  return out;
}

sockaddr_in6 ToIpv6(const SocketAddress& address) {
  sockaddr_in6 out = {};
  out.sin6_family = AF_INET6;
  out.sin6_port = htons(address.port);
  out.sin6_flowinfo = address.flow_info;
  std::memcpy(&out.sin6_addr, address.gid.bytes.data(), sizeof out.sin6_addr);
  out.sin6_scope_id = address.scope_id;
  return out;
}

sockaddr_ib ToIb(const SocketAddress& address) {
  sockaddr_ib out = {};
  out.sib_family = AF_IB;
  out.sib_pkey = htobe16(address.pkey);
  out.sib_flowinfo = address.flow_info;
  std::memcpy(&out.sib_addr, address.gid.bytes.data(), sizeof out.sib_addr);
  out.sib_sid = htobe64(address.service_id);
  out.sib_sid_mask = htobe64(address.service_mask);
  return out;
}

}  // namespace

bool SocketAddress::IsAny() const {
  if (family == AF_INET)
    return std::all_of(&gid.bytes[12], &gid.bytes[15] + 1, [](auto b) { return b == 0; });
  return gid.IsZero() || (family == kFamilyIb && gid == kIpv6Loopback);
}

bool SocketAddress::IsLoopback() const {
  return family == AF_INET ? gid.bytes[12] == 127 : gid == kIpv6Loopback;
}

bool SocketAddress::IsLinkLocal() const {
  return family == AF_INET6 && gid.bytes[0] == 0xfe && (gid.bytes[1] & 0xc0) == 0x80;
}

SocketAddress AnyAddress(sa_family_t family) {
  SocketAddress address;
  address.family = family;
  if (family == AF_INET) address.gid = Gid::FromIpv4({0, 0, 0, 0});
  return address;
}

size_t AddressBytes(sa_family_t family) {
  switch (family) {
    case AF_INET:
      return sizeof(sockaddr_in);
    case AF_INET6:
      return sizeof(sockaddr_in6);
    case kFamilyIb:
      return sizeof(sockaddr_ib);
    default:
      return 0;
  }
}

sa_family_t FamilyOf(std::span<const uint8_t> bytes) { return Load<sa_family_t>(bytes); }

std::optional<SocketAddress> ParseAddress(std::span<const uint8_t> bytes) {
  if (bytes.size() < sizeof(sa_family_t)) return std::nullopt;
  const sa_family_t family = FamilyOf(bytes);
  const size_t needed = AddressBytes(family);
  if (needed == 0 || bytes.size() < needed) return std::nullopt;
  switch (family) {
    case AF_INET:
      return FromIpv4(Load<sockaddr_in>(bytes));
    case AF_INET6:
      return FromIpv6(Load<sockaddr_in6>(bytes));
    default:
      return FromIb(Load<sockaddr_ib>(bytes));
  }
}

size_t EmitAddress(const SocketAddress& address, uint8_t* bytes) {
  switch (address.family) {
    case AF_INET:
      return Store(ToIpv4(address), bytes);
    case AF_INET6:
      return Store(ToIpv6(address), bytes);
    case kFamilyIb:
      return Store(ToIb(address), bytes);
    default:
      return 0;
  }
}

}  // namespace uroce::verbs::rdma_cm
