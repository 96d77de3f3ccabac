#include "dpdk_nic/device/device_config.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <string>

#include "dpdk_nic/link_layer/link_layer.h"

namespace uroce::nic {
namespace {

using transport::Gid;
using transport::MacAddress;

ErrorOr<DeviceConfig> Read(const std::map<std::string, std::string>& environment) {
  return DeviceConfig::FromEnvironment([&](const char* variable) -> const char* {
    const auto found = environment.find(variable);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

// A list of `count` partitions.
std::string Pkeys(int count) {
  std::string list = "1";
  for (int partition = 2; partition <= count; ++partition) list += "," + std::to_string(partition);
  return list;
}

TEST(DeviceConfigTest, PkeyTableHas128Entries) {
  const auto config = Read({{"UROCE_PKEY", Pkeys(127)}});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config.value().pkeys.size(), 128u);
}

TEST(DeviceConfigTest, EmptyEnvironmentGivesTheDefaultFabric) {
  const auto config = Read({{"UROCE_IP", ""}});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config.value().fabric, "default");
  EXPECT_FALSE(config.value().is_ip_chosen);
  EXPECT_FALSE(config.value().direct());
  EXPECT_EQ(config.value().ip, Gid::FromIpv4({127, 0, 0, 1}));
  EXPECT_EQ(config.value().pkeys, std::vector<uint16_t>{0xffff});
  EXPECT_EQ(config.value().mode, ProgressMode::kAuto);
  EXPECT_FALSE(config.value().impairments.any());
  EXPECT_TRUE(config.value().scenario.empty());
}

TEST(DeviceConfigTest, EveryVariableIsRead) {
  const std::string scenario = testing::TempDir() + "device_config.json";
  std::ofstream(scenario) << R"({"rules": [{"psn": 7, "action": "drop"}]})";
  const auto config = Read({{"UROCE_FABRIC", "rack-1.a_b"},
                            {"UROCE_IP", "fd00::7"},
                            {"UROCE_MTU", "1500"},
                            {"UROCE_PKEY", "0x8001,2,0X7Ffe,65533"},
                            {"UROCE_PORT", "net_memif0,role=server"},
                            {"UROCE_MODE", "dedicated"},
                            {"UROCE_CAPTURE", "/tmp/x.pcapng"},
                            {"UROCE_DPDK_LIBRARY", "/lib/dpdk.so"},
                            {"UROCE_IMPAIR", "drop=2%,delay=30us,seed=9"},
                            {"UROCE_SCENARIO", scenario}});
  std::remove(scenario.c_str());
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config.value().fabric, "rack-1.a_b");
  EXPECT_TRUE(config.value().is_ip_chosen);
  EXPECT_EQ(config.value().ip.bytes[0], 0xfd);
  EXPECT_EQ(config.value().ip.bytes[15], 7);
  EXPECT_EQ(config.value().mtu_bytes, 1500u);
  EXPECT_EQ(config.value().pkeys, (std::vector<uint16_t>{0xffff, 0x8001, 0x0002, 0x7ffe, 0xfffd}));
  EXPECT_TRUE(config.value().direct());
  EXPECT_EQ(config.value().mode, ProgressMode::kDedicated);
  EXPECT_EQ(config.value().capture_file, "/tmp/x.pcapng");
  EXPECT_EQ(config.value().dpdk_library, "/lib/dpdk.so");
  EXPECT_DOUBLE_EQ(config.value().impairments.drop, 0.02);
  EXPECT_EQ(config.value().impairments.delay.ns, 30'000);
  EXPECT_EQ(config.value().impairments.seed, 9u);
  EXPECT_EQ(config.value().scenario.rules.size(), 1u);
}

TEST(DeviceConfigTest, WrongValueIsNamedInTheError) {
  const std::map<std::string, std::vector<std::string>> wrong = {
      {"UROCE_FABRIC", {"a/b", "a b", std::string(65, 'x')}},
      {"UROCE_IP",
       {"10.0.0", "10.0.0.1/24", "0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "ff02::1",
        "host"}},
      {"UROCE_MTU", {"0", "575", "9601", "-1", "4200x", "1e3"}},
      {"UROCE_PKEY",
       {"0", "0x8000", "0x10001", "65536", "-1", "0x", "1,", ",1", "1,,2", "1 ", "0x1g",
        "1,2,0x8001", "0xffff", "0x7fff", Pkeys(128)}},
      {"UROCE_MODE", {"fast", "AUTO"}},
      {"UROCE_ENGINES", {"0", "65", "-1", "two", "2x"}},
      {"UROCE_SCENARIO", {"/nonexistent.json", "/"}},
      {"UROCE_IMPAIR",
       {"drop", "drop=1", "drop=101%", "drop=-1%", "lose=1%", "delay=5", "delay=1e9us", "seed=x",
        "drop=%", "drop=nan%", "drop=60%,corrupt=60%"}},
  };
  for (const auto& [variable, values] : wrong) {
    for (const std::string& value : values) {
      const auto config = Read({{variable, value}});
      ASSERT_FALSE(config.ok()) << variable << "=" << value;
      EXPECT_NE(config.error().find(variable), std::string::npos) << config.error();
      EXPECT_EQ(config.error().find('\n'), std::string::npos);
    }
  }
}

TEST(DeviceConfigTest, SeveralEnginesAreRefusedWithUdpCaptureOrFaults) {
  const std::string scenario = testing::TempDir() + "several_engines.json";
  std::ofstream(scenario) << R"({"rules": [{"psn": 7, "action": "drop"}]})";
  const auto config = Read({{"UROCE_ENGINES", "64"}});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config.value().engines, 64u);
  const std::map<std::string, std::string> others = {{"UROCE_PORT", "udp"},
                                                     {"UROCE_CAPTURE", "/tmp/x.pcapng"},
                                                     {"UROCE_IMPAIR", "drop=1%"},
                                                     {"UROCE_SCENARIO", scenario}};
  for (const auto& [variable, value] : others) {
    EXPECT_TRUE(Read({{"UROCE_ENGINES", "1"}, {variable, value}}).ok()) << variable;
    const auto refused = Read({{"UROCE_ENGINES", "2"}, {variable, value}});
    ASSERT_FALSE(refused.ok()) << variable;
    EXPECT_NE(refused.error().find("UROCE_ENGINES"), std::string::npos) << refused.error();
  }
  std::remove(scenario.c_str());
}

TEST(DeviceConfigTest, PeerDerivesOurMacFromEveryGidWeHave) {
  for (const char* ip : {"127.0.0.1", "10.1.2.3", "fd00::a:b:c:d", "fe80::1"}) {
    const auto config = Read({{"UROCE_IP", ip}});
    ASSERT_TRUE(config.ok());
    const MacAddress mac = DeviceMac(config.value());
    for (const Gid& gid : GidTable(mac, config.value().ip)) EXPECT_EQ(MacAddressFor(gid), mac);
  }
}

TEST(DeviceConfigTest, LinkLocalAddressOfTheMacIsListedOnce) {
  const MacAddress mac = {2, 0x75, 10, 0, 0, 1};
  EXPECT_EQ(GidTable(mac, Gid::LinkLocal(mac)).size(), 1u);
  EXPECT_EQ(GidTable(mac, Gid::FromIpv4({10, 0, 0, 1})).size(), 2u);
}

// RFC 1112, 6.4: 23 bits of an IPv4 group; RFC 2464, 7: 32 bits of an IPv6 group.
TEST(DeviceConfigTest, MulticastGroupsHaveAddressesOfTheirOwn) {
  const Gid ipv4_group = Gid::FromIpv4({239, 0x81, 2, 3});
  EXPECT_EQ(MulticastMac(ipv4_group), (MacAddress{0x01, 0x00, 0x5e, 0x01, 2, 3}));
  EXPECT_EQ(MacAddressFor(ipv4_group), *MulticastMac(ipv4_group));
  const Gid ipv6_group = {{0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xa, 0xb, 0xc, 0xd}};
  EXPECT_EQ(MulticastMac(ipv6_group), (MacAddress{0x33, 0x33, 0xa, 0xb, 0xc, 0xd}));
  EXPECT_FALSE(MulticastMac(Gid::FromIpv4({10, 1, 2, 3})).has_value());
  EXPECT_FALSE(MulticastMac(Gid::FromIpv4({240, 1, 2, 3})).has_value());
}

TEST(DeviceConfigTest, MacOfAnIpv4AddressIsReadable) {
  const MacAddress expected = {0x02, 0x75, 10, 1, 2, 3};
  EXPECT_EQ(MacAddressFor(Gid::FromIpv4({10, 1, 2, 3})), expected);
}

}  // namespace
}  // namespace uroce::nic
