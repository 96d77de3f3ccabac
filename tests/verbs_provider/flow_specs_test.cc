#include "verbs_provider/base/flow_specs.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace uroce::verbs {
namespace {

using nic::FlowRule;
using nic::FrameFields;
using Kind = FlowRule::Kind;
using Pair = std::array<uint8_t, 2>;

constexpr Pair kAllOfPair = {0xff, 0xff};

// A flow attribute with its specifications, laid out in memory as a program does.
class FlowBytes {
 public:
  explicit FlowBytes(ibv_flow_attr_type type = IBV_FLOW_ATTR_NORMAL) : bytes_(sizeof attr) {
    attr.type = type;
    attr.port = 1;
  }
  template <class Spec>
  FlowBytes& With(Spec spec, ibv_flow_spec_type type, uint16_t size = sizeof(Spec)) {
    spec.type = type;
    spec.size = size;
    const auto* begin = reinterpret_cast<const uint8_t*>(&spec);
    bytes_.insert(bytes_.end(), begin, begin + sizeof spec);
    ++attr.num_of_specs;
    return *this;
  }
  int Translate(FlowRule& rule) {
    std::memcpy(bytes_.data(), &attr, sizeof attr);
    return ToFlowRule(*reinterpret_cast<const ibv_flow_attr*>(bytes_.data()), rule);
  }
  int Refusal() {
    FlowRule rule;
    return Translate(rule);
  }

  ibv_flow_attr attr = {};

 private:
  std::vector<uint8_t> bytes_;
};

ibv_flow_spec_eth Ethernet(uint16_t ether_type = 0) {
  ibv_flow_spec_eth spec = {};
  std::memcpy(spec.val.dst_mac, "\x02\x00\x00\x00\x00\x02", 6);
  std::memset(spec.mask.dst_mac, 0xff, 6);
  if (ether_type != 0) {
    spec.val.ether_type = htons(ether_type);
    spec.mask.ether_type = 0xffff;
  }
  return spec;
}

ibv_flow_spec_tcp_udp Ports(uint16_t source, uint16_t destination) {
  ibv_flow_spec_tcp_udp spec = {};
  spec.val = {.dst_port = htons(destination), .src_port = htons(source)};
  spec.mask = {.dst_port = 0xffff, .src_port = 0xffff};
  return spec;
}

TEST(FlowSpecsTest, EthernetIpv4AndUdp) {
  ibv_flow_spec_ipv4 ipv4 = {};
  ipv4.val.dst_ip = htonl(0x0a000002);
  ipv4.mask.dst_ip = htonl(0xffffff00);
  FlowBytes flow;
  flow.attr.priority = 7;
  flow.attr.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
  flow.With(Ports(0x1234, 0x5678), IBV_FLOW_SPEC_UDP)  // in any order
      .With(ipv4, IBV_FLOW_SPEC_IPV4)
      .With(Ethernet(0x0800), IBV_FLOW_SPEC_ETH);
  FlowRule rule;
  ASSERT_EQ(flow.Translate(rule), 0);
  EXPECT_EQ(rule.kind, Kind::kNormal);
  EXPECT_EQ(rule.priority, 7);
  EXPECT_TRUE(rule.lets_pass);

  FrameFields value;
  FrameFields mask;
  value.destination_mac = {2, 0, 0, 0, 0, 2};
  mask.destination_mac.fill(0xff);
  value.ether_type = {0x08, 0x00};
  mask.ether_type = kAllOfPair;
  value.ipv4_destination = {10, 0, 0, 2};
  mask.ipv4_destination = {0xff, 0xff, 0xff, 0};
  value.source_port = {0x12, 0x34};
  value.destination_port = {0x56, 0x78};
  mask.source_port = mask.destination_port = kAllOfPair;
  value.layers = mask.layers = FrameFields::kIpv4 | FrameFields::kUdp;
  EXPECT_EQ(rule.value, value);
  EXPECT_EQ(rule.mask, mask);
}

TEST(FlowSpecsTest, Ipv4Extended) {
  ibv_flow_spec_ipv4_ext spec = {};
  spec.val = {.src_ip = htonl(0x0a000001),
              .dst_ip = 0,
              .proto = 6,
              .tos = 0x2e,
              .ttl = 63,
              .flags = FrameFields::kDontFragment};
  spec.mask = {.src_ip = 0xffff'ffff,
               .dst_ip = 0,
               .proto = 0xff,
               .tos = 0xfc,
               .ttl = 0xff,
               .flags = FrameFields::kDontFragment};
  FlowRule rule;
  ASSERT_EQ(FlowBytes().With(spec, IBV_FLOW_SPEC_IPV4_EXT).Translate(rule), 0);
  EXPECT_EQ(rule.value.ipv4_source, (std::array<uint8_t, 4>{10, 0, 0, 1}));
  EXPECT_EQ(rule.value.ipv4_protocol, 6);
  EXPECT_EQ(rule.value.ipv4_type_of_service, 0x2e);
  EXPECT_EQ(rule.mask.ipv4_type_of_service, 0xfc);
  EXPECT_EQ(rule.value.ipv4_time_to_live, 63);
  EXPECT_EQ(rule.mask.ipv4_flags, FrameFields::kDontFragment);
  spec.mask.flags = 1;
  EXPECT_EQ(FlowBytes().With(spec, IBV_FLOW_SPEC_IPV4_EXT).Refusal(), EINVAL);
}

TEST(FlowSpecsTest, Ipv6AndTcp) {
  ibv_flow_spec_ipv6 spec = {};
  spec.val.src_ip[15] = 1;
  spec.val.dst_ip[15] = 2;
  spec.val.flow_label = htonl(0xabcde);
  spec.val.next_hdr = 6;
  spec.val.traffic_class = 0x5a;
  spec.val.hop_limit = 61;
  std::memset(&spec.mask, 0xff, sizeof spec.mask);
  FlowRule rule;
  ASSERT_EQ(FlowBytes()
                .With(spec, IBV_FLOW_SPEC_IPV6)
                .With(Ports(80, 443), IBV_FLOW_SPEC_TCP)
                .Translate(rule),
            0);
  EXPECT_EQ(rule.value.ipv6_source[15], 1);
  EXPECT_EQ(rule.value.ipv6_destination[15], 2);
  EXPECT_EQ(rule.value.ipv6_flow_label, (std::array<uint8_t, 4>{0, 0x0a, 0xbc, 0xde}));
  EXPECT_EQ(rule.value.ipv6_next_header, 6);
  EXPECT_EQ(rule.value.ipv6_traffic_class, 0x5a);
  EXPECT_EQ(rule.value.ipv6_hop_limit, 61);
  EXPECT_EQ(rule.mask.ipv6_hop_limit, 0xff);
  EXPECT_EQ(rule.value.layers, FrameFields::kIpv6 | FrameFields::kTcp);
}

TEST(FlowSpecsTest, VlanTagImpliesThatThereIsOne) {
  ibv_flow_spec_eth spec = Ethernet();
  spec.val.vlan_tag = htons(5);
  spec.mask.vlan_tag = htons(0x0fff);
  FlowRule rule;
  ASSERT_EQ(FlowBytes().With(spec, IBV_FLOW_SPEC_ETH).Translate(rule), 0);
  EXPECT_EQ(rule.value.vlan_tag, (Pair{0, 5}));
  EXPECT_EQ(rule.mask.vlan_tag, (Pair{0x0f, 0xff}));
  EXPECT_EQ(rule.mask.layers, FrameFields::kVlan);
}

TEST(FlowSpecsTest, OtherTypes) {
  const std::pair<ibv_flow_attr_type, Kind> types[] = {
      {IBV_FLOW_ATTR_ALL_DEFAULT, Kind::kAllDefault},
      {IBV_FLOW_ATTR_MC_DEFAULT, Kind::kMulticastDefault},
      {IBV_FLOW_ATTR_SNIFFER, Kind::kSniffer}};
  for (const auto& [type, kind] : types) {
    FlowRule rule;
    EXPECT_EQ(FlowBytes(type).Translate(rule), 0);
    EXPECT_EQ(rule.kind, kind);
    FlowBytes passing(type);
    passing.attr.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
    EXPECT_EQ(passing.Refusal(), EINVAL);
  }
  FlowBytes unknown;
  const uint32_t number = 4;
  std::memcpy(&unknown.attr.type, &number, sizeof number);
  EXPECT_EQ(unknown.Refusal(), EINVAL);
}

TEST(FlowSpecsTest, AttributesThatThereAreNot) {
  FlowBytes port;
  port.attr.port = 2;
  EXPECT_EQ(port.Refusal(), EINVAL);
  FlowBytes flag;
  flag.attr.flags = 1;
  EXPECT_EQ(flag.Refusal(), EINVAL);
  FlowBytes egress;
  egress.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
  EXPECT_EQ(egress.Refusal(), EOPNOTSUPP);
  FlowBytes any_port;
  any_port.attr.port = 0;
  EXPECT_EQ(any_port.Refusal(), 0);
}

// The number of specifications is checked before their types.
TEST(FlowSpecsTest, MoreSpecificationsThanLinuxTakes) {
  FlowBytes flow;
  for (int i = 0; i < 10; ++i) flow.With(Ethernet(), IBV_FLOW_SPEC_ESP);
  EXPECT_EQ(flow.Refusal(), EOPNOTSUPP);
  EXPECT_EQ(flow.With(Ethernet(), IBV_FLOW_SPEC_ESP).Refusal(), EINVAL);
}

TEST(FlowSpecsTest, SpecificationsThatThereAreNot) {
  EXPECT_EQ(FlowBytes().With(Ethernet(), static_cast<ibv_flow_spec_type>(0x21)).Refusal(), EINVAL);
  for (const auto type : {IBV_FLOW_SPEC_ESP, IBV_FLOW_SPEC_VXLAN_TUNNEL, IBV_FLOW_SPEC_GRE,
                          IBV_FLOW_SPEC_MPLS, IBV_FLOW_SPEC_ACTION_TAG, IBV_FLOW_SPEC_ACTION_DROP,
                          IBV_FLOW_SPEC_ACTION_HANDLE, IBV_FLOW_SPEC_ACTION_COUNT}) {
    EXPECT_EQ(FlowBytes().With(Ethernet(), type).Refusal(), EOPNOTSUPP) << type;
  }
  const auto inner = static_cast<ibv_flow_spec_type>(IBV_FLOW_SPEC_ETH | IBV_FLOW_SPEC_INNER);
  EXPECT_EQ(FlowBytes().With(Ethernet(), inner).Refusal(), EOPNOTSUPP);
}

TEST(FlowSpecsTest, WrongSizes) {
  for (const int size : {0, 38, 39, 41, UINT16_MAX}) {
    const auto bytes = static_cast<uint16_t>(size);
    EXPECT_EQ(FlowBytes().With(Ethernet(), IBV_FLOW_SPEC_ETH, bytes).Refusal(), EINVAL) << size;
  }
}

TEST(FlowSpecsTest, LayersThatContradictEachOther) {
  const ibv_flow_spec_ipv4 ipv4 = {};
  const ibv_flow_spec_ipv6 ipv6 = {};
  const auto ethernet = [](uint16_t type) {
    return FlowBytes().With(Ethernet(type), IBV_FLOW_SPEC_ETH);
  };
  EXPECT_EQ(ethernet(0x0800).With(ipv4, IBV_FLOW_SPEC_IPV4).Refusal(), 0);
  EXPECT_EQ(ethernet(0x86dd).With(ipv4, IBV_FLOW_SPEC_IPV4).Refusal(), EINVAL);
  EXPECT_EQ(ethernet(0x86dd).With(ipv6, IBV_FLOW_SPEC_IPV6).Refusal(), 0);
  EXPECT_EQ(ethernet(0x0800).With(ipv6, IBV_FLOW_SPEC_IPV6).Refusal(), EINVAL);
  for (const uint16_t other : {uint16_t{0x0801}, uint16_t{0x0900}}) {
    EXPECT_EQ(ethernet(other).With(ipv4, IBV_FLOW_SPEC_IPV4).Refusal(), EINVAL) << other;
  }
  EXPECT_EQ(ethernet(0).With(Ethernet(), IBV_FLOW_SPEC_ETH).Refusal(), EINVAL);
  EXPECT_EQ(FlowBytes().With(ipv4, IBV_FLOW_SPEC_IPV4).With(ipv4, IBV_FLOW_SPEC_IPV4).Refusal(),
            EINVAL);
  EXPECT_EQ(FlowBytes().With(ipv4, IBV_FLOW_SPEC_IPV4).With(ipv6, IBV_FLOW_SPEC_IPV6).Refusal(),
            EINVAL);
  EXPECT_EQ(FlowBytes()
                .With(Ports(1, 2), IBV_FLOW_SPEC_TCP)
                .With(Ports(1, 2), IBV_FLOW_SPEC_UDP)
                .Refusal(),
            EINVAL);
}

}  // namespace
}  // namespace uroce::verbs
