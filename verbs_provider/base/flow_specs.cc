#include "verbs_provider/base/flow_specs.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "verbs_provider/base/c_boundary.h"

namespace uroce::verbs {
namespace {

using nic::FlowRule;
using nic::FrameFields;

constexpr uint32_t kMaxSpecs = 10;  // IB_FLOW_SPEC_SUPPORT_LAYERS of Linux
constexpr uint8_t kLastPort = 1;    // 0 means this port too, as in mlx5

using Pair = std::array<uint8_t, 2>;

// Verbs hold a number in network byte order, a rule holds its bytes.
template <class Number, size_t kBytes>
void SetBytes(Number value, Number mask, std::array<uint8_t, kBytes>& value_out,
              std::array<uint8_t, kBytes>& mask_out) {
  static_assert(sizeof(Number) == kBytes);
  std::memcpy(value_out.data(), &value, kBytes);
  std::memcpy(mask_out.data(), &mask, kBytes);
}

template <size_t kBytes>
void CopyBytes(const uint8_t (&value)[kBytes], const uint8_t (&mask)[kBytes],
               std::array<uint8_t, kBytes>& value_out, std::array<uint8_t, kBytes>& mask_out) {
  std::memcpy(value_out.data(), value, kBytes);
  std::memcpy(mask_out.data(), mask, kBytes);
}

// Fills a rule, specification by specification.
class RuleWriter {
 public:
  explicit RuleWriter(FlowRule& rule) : value_(rule.value), mask_(rule.mask) {}

  int Add(uint32_t type, const std::byte* spec) {
    switch (type) {
      case IBV_FLOW_SPEC_ETH:
        return AddEthernet(Read<ibv_flow_spec_eth>(spec));
      case IBV_FLOW_SPEC_IPV4:
        return AddIpv4(Read<ibv_flow_spec_ipv4>(spec));
      case IBV_FLOW_SPEC_IPV4_EXT:
        return AddIpv4Extended(Read<ibv_flow_spec_ipv4_ext>(spec));
      case IBV_FLOW_SPEC_IPV6:
        return AddIpv6(Read<ibv_flow_spec_ipv6>(spec));
      default:
        return AddPorts(type, Read<ibv_flow_spec_tcp_udp>(spec));
    }
  }

  // Completes the layers of the rule. EINVAL: a layer contradicts the requested Ethernet type.
  int Finish() {
    if ((layers_ & FrameFields::kIpv4) != 0 && ContradictsEtherType({0x08, 0x00})) return EINVAL;
    if ((layers_ & FrameFields::kIpv6) != 0 && ContradictsEtherType({0x86, 0xdd})) return EINVAL;
    if (mask_.vlan_tag != Pair{}) layers_ |= FrameFields::kVlan;
    value_.layers = mask_.layers = layers_;
    return 0;
  }

 private:
  template <class Spec>
  static Spec Read(const std::byte* bytes) {
    Spec spec;
    std::memcpy(&spec, bytes, sizeof spec);
    return spec;
  }

  // EINVAL: the rule already has this layer or the one that it excludes.
  int Claim(uint8_t layer, uint8_t excluded) {
    if ((layers_ & (layer | excluded)) != 0) return EINVAL;
    layers_ |= layer;
    return 0;
  }

  int AddEthernet(const ibv_flow_spec_eth& spec) {
    if (has_ethernet_) return EINVAL;
    has_ethernet_ = true;
    CopyBytes(spec.val.dst_mac, spec.mask.dst_mac, value_.destination_mac, mask_.destination_mac);
    CopyBytes(spec.val.src_mac, spec.mask.src_mac, value_.source_mac, mask_.source_mac);
    SetBytes(spec.val.ether_type, spec.mask.ether_type, value_.ether_type, mask_.ether_type);
    SetBytes(spec.val.vlan_tag, spec.mask.vlan_tag, value_.vlan_tag, mask_.vlan_tag);
    return 0;
  }

  template <class Filter>
  void SetIpv4Addresses(const Filter& val, const Filter& mask) {
    SetBytes(val.src_ip, mask.src_ip, value_.ipv4_source, mask_.ipv4_source);
    SetBytes(val.dst_ip, mask.dst_ip, value_.ipv4_destination, mask_.ipv4_destination);
  }

  int AddIpv4(const ibv_flow_spec_ipv4& spec) {
    SetIpv4Addresses(spec.val, spec.mask);
    return Claim(FrameFields::kIpv4, FrameFields::kIpv6);
  }

  int AddIpv4Extended(const ibv_flow_spec_ipv4_ext& spec) {
    constexpr uint8_t kKnownFlags = FrameFields::kDontFragment | FrameFields::kMoreFragments;
    if ((spec.mask.flags & ~kKnownFlags) != 0) return EINVAL;
    SetIpv4Addresses(spec.val, spec.mask);
    value_.ipv4_protocol = spec.val.proto;
    mask_.ipv4_protocol = spec.mask.proto;
    value_.ipv4_type_of_service = spec.val.tos;
    mask_.ipv4_type_of_service = spec.mask.tos;
    value_.ipv4_time_to_live = spec.val.ttl;
    mask_.ipv4_time_to_live = spec.mask.ttl;
    value_.ipv4_flags = spec.val.flags;
    mask_.ipv4_flags = spec.mask.flags;
    return Claim(FrameFields::kIpv4, FrameFields::kIpv6);
  }

  int AddIpv6(const ibv_flow_spec_ipv6& spec) {
    CopyBytes(spec.val.src_ip, spec.mask.src_ip, value_.ipv6_source, mask_.ipv6_source);
    CopyBytes(spec.val.dst_ip, spec.mask.dst_ip, value_.ipv6_destination, mask_.ipv6_destination);
    SetBytes(spec.val.flow_label, spec.mask.flow_label, value_.ipv6_flow_label,
             mask_.ipv6_flow_label);
    value_.ipv6_next_header = spec.val.next_hdr;
    mask_.ipv6_next_header = spec.mask.next_hdr;
    value_.ipv6_traffic_class = spec.val.traffic_class;
    mask_.ipv6_traffic_class = spec.mask.traffic_class;
    value_.ipv6_hop_limit = spec.val.hop_limit;
    mask_.ipv6_hop_limit = spec.mask.hop_limit;
    return Claim(FrameFields::kIpv6, FrameFields::kIpv4);
  }

  int AddPorts(uint32_t type, const ibv_flow_spec_tcp_udp& spec) {
    SetBytes(spec.val.src_port, spec.mask.src_port, value_.source_port, mask_.source_port);
    SetBytes(spec.val.dst_port, spec.mask.dst_port, value_.destination_port,
             mask_.destination_port);
    const bool is_tcp = type == IBV_FLOW_SPEC_TCP;
    return is_tcp ? Claim(FrameFields::kTcp, FrameFields::kUdp)
                  : Claim(FrameFields::kUdp, FrameFields::kTcp);
  }

  bool ContradictsEtherType(const Pair& needed) const {
    const auto differs = [&](size_t i) {
      return ((value_.ether_type[i] ^ needed[i]) & mask_.ether_type[i]) != 0;
    };
    return differs(0) || differs(1);
  }

  FrameFields& value_;
  FrameFields& mask_;
  uint8_t layers_ = 0;
  bool has_ethernet_ = false;
};

// 0: an unsupported type.
size_t BytesOf(uint32_t type) {
  switch (type) {
    case IBV_FLOW_SPEC_ETH:
      return sizeof(ibv_flow_spec_eth);
    case IBV_FLOW_SPEC_IPV4:
      return sizeof(ibv_flow_spec_ipv4);
    case IBV_FLOW_SPEC_IPV4_EXT:
      return sizeof(ibv_flow_spec_ipv4_ext);
    case IBV_FLOW_SPEC_IPV6:
      return sizeof(ibv_flow_spec_ipv6);
    case IBV_FLOW_SPEC_TCP:
    case IBV_FLOW_SPEC_UDP:
      return sizeof(ibv_flow_spec_tcp_udp);
    default:
      return 0;
  }
}

bool IsKnownElsewhere(uint32_t type) {
  const uint32_t outer = type & ~uint32_t{IBV_FLOW_SPEC_INNER};
  switch (outer) {
    case IBV_FLOW_SPEC_ESP:
    case IBV_FLOW_SPEC_VXLAN_TUNNEL:
    case IBV_FLOW_SPEC_GRE:
    case IBV_FLOW_SPEC_MPLS:
    case IBV_FLOW_SPEC_ACTION_TAG:
    case IBV_FLOW_SPEC_ACTION_DROP:
    case IBV_FLOW_SPEC_ACTION_HANDLE:
    case IBV_FLOW_SPEC_ACTION_COUNT:
      return true;
    default:
      return BytesOf(outer) != 0;
  }
}

// Every specification begins with its type and its size, as struct ibv_flow_spec has it.
int AddSpecs(const ibv_flow_attr& attr, FlowRule& rule) {
  RuleWriter writer(rule);
  const auto* spec = reinterpret_cast<const std::byte*>(&attr + 1);
  for (uint32_t i = 0; i < attr.num_of_specs; ++i) {
    uint32_t type;
    uint16_t bytes;
    std::memcpy(&type, spec, sizeof type);
    std::memcpy(&bytes, spec + sizeof type, sizeof bytes);
    const size_t expected = BytesOf(type);
    if (expected == 0) return IsKnownElsewhere(type) ? EOPNOTSUPP : EINVAL;
    if (bytes != expected) return EINVAL;
    if (const int error = writer.Add(type, spec)) return error;
    spec += bytes;
  }
  return writer.Finish();
}

}  // namespace

int ToFlowRule(const ibv_flow_attr& attr, FlowRule& rule) {
  if (attr.port > kLastPort || attr.num_of_specs > kMaxSpecs) return EINVAL;
  constexpr uint32_t kKnownFlags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP | IBV_FLOW_ATTR_FLAGS_EGRESS;
  if ((attr.flags & ~kKnownFlags) != 0) return EINVAL;
  const bool lets_pass = (attr.flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP) != 0;
  const uint32_t type = RawValue(attr.type);
  if (type > IBV_FLOW_ATTR_SNIFFER) return EINVAL;
  if (lets_pass && type != IBV_FLOW_ATTR_NORMAL) return EINVAL;
  if ((attr.flags & IBV_FLOW_ATTR_FLAGS_EGRESS) != 0) return EOPNOTSUPP;

  rule = {};
  switch (type) {
    case IBV_FLOW_ATTR_ALL_DEFAULT:
      rule.kind = FlowRule::Kind::kAllDefault;
      return 0;
    case IBV_FLOW_ATTR_MC_DEFAULT:
      rule.kind = FlowRule::Kind::kMulticastDefault;
      return 0;
    case IBV_FLOW_ATTR_SNIFFER:
      rule.kind = FlowRule::Kind::kSniffer;
      return 0;
    default:
      rule.priority = attr.priority;
      rule.lets_pass = lets_pass;
      return AddSpecs(attr, rule);
  }
}

}  // namespace uroce::verbs
