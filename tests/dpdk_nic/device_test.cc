#include "dpdk_nic/device.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "dpdk_nic/shm_link.h"
#include "tests/dpdk_nic/link_names.h"

namespace uroce::nic {
namespace {

using transport::Gid;

DeviceConfig ConfigFor(const std::string& link) {
  DeviceConfig config;
  config.link = link;
  config.ip = Gid::FromIpv4({10, 9, 8, 7});
  return config;
}

transport::EndpointConfig EndpointConfigOf(Device& device) {
  return device.engine().WithEndpoint(
      [](transport::Endpoint& endpoint) { return endpoint.config(); });
}

TEST(DeviceTest, ConfigurationReachesTheEndpoint) {
  DeviceConfig config = ConfigFor(UniqueLinkName());
  config.mtu_bytes = 1'500;
  const auto device = Device::Open(config, {});
  ASSERT_TRUE(device.ok());
  const auto endpoint = EndpointConfigOf(*device.value());
  const transport::MacAddress mac = {2, 0x75, 10, 9, 8, 7};
  EXPECT_EQ(endpoint.mac, mac);
  EXPECT_EQ(endpoint.port_mtu, 1'500u);
  EXPECT_EQ(endpoint.gids, (std::vector<Gid>{Gid::LinkLocal(mac), config.ip}));
}

TEST(DeviceTest, ProcessHasOneDeviceUntilTheLastCloses) {
  const std::string link = UniqueLinkName();
  auto first = Device::Open(ConfigFor(link), {}).value();
  auto second = Device::Open(ConfigFor(UniqueLinkName()), {}).value();
  EXPECT_EQ(first, second);
  EXPECT_EQ(second->config().link, link);
  first.reset();
  second.reset();
  const std::string other = UniqueLinkName();
  EXPECT_EQ(Device::Open(ConfigFor(other), {}).value()->config().link, other);
}

TEST(DeviceTest, LinkIsOccupiedOnlyOnceItIsJoined) {
  const std::string link = UniqueLinkName();
  ShmPort other(link, {}, 4'200);
  ASSERT_EQ(other.Join().value(), 0);
  auto device = Device::Open(ConfigFor(link), {}).value();
  EXPECT_FALSE(ProbeLink(link).has_value());
  EXPECT_FALSE(device->Join().has_value());
  EXPECT_TRUE(ProbeLink(link).has_value());
  EXPECT_EQ(EndpointConfigOf(*device).first_qpn.value, 0x8000u) << "side 1";
  EXPECT_FALSE(device->Join().has_value()) << "joining twice does nothing";

  device.reset();
  EXPECT_FALSE(ProbeLink(link).has_value());
}

TEST(DeviceTest, BusyLinkIsASentence) {
  const std::string link = UniqueLinkName();
  ShmPort a(link, {}, 4'200), b(link, {}, 4'200);
  ASSERT_TRUE(a.Join().ok() && b.Join().ok());
  const auto device = Device::Open(ConfigFor(link), {}).value();
  const auto error = device->Join();
  ASSERT_TRUE(error.has_value());
  EXPECT_NE(error->sentence.find("busy"), std::string::npos) << error->sentence;
}

TEST(DeviceTest, DirectModeNeedsItsLibrary) {
  DeviceConfig config = ConfigFor("unused");
  config.port_devargs = "net_null0";
  const auto unset = Device::Open(config, {});
  ASSERT_FALSE(unset.ok());
  EXPECT_NE(unset.error().find("UROCE_DPDK_LIBRARY"), std::string::npos);

  config.dpdk_library = "/nonexistent/liburoce-dpdk.so";
  const auto missing = Device::Open(config, {});
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().find("/nonexistent/liburoce-dpdk.so"), std::string::npos);

  config.dpdk_library = "libc.so.6";
  const auto foreign = Device::Open(config, {});
  ASSERT_FALSE(foreign.ok());
  EXPECT_NE(foreign.error().find("libc.so.6"), std::string::npos);
}

TEST(DeviceTest, CaptureFileThatCannotBeWrittenIsASentence) {
  DeviceConfig config = ConfigFor(UniqueLinkName());
  config.capture_file = "/nonexistent/x.pcapng";
  const auto device = Device::Open(config, {});
  ASSERT_FALSE(device.ok());
  EXPECT_NE(device.error().find("/nonexistent/x.pcapng"), std::string::npos);
}

TEST(DeviceTest, ForkedChildOpensADeviceOfItsOwn) {
  const std::string link = UniqueLinkName();
  const auto device = Device::Open(ConfigFor(link), {}).value();
  ASSERT_FALSE(device->Join().has_value());
  const pid_t child = fork();
  if (child == 0) {
    const auto own = Device::Open(ConfigFor(link), {});
    const bool joined = own.ok() && own.value() != device && !own.value()->Join().has_value() &&
                        EndpointConfigOf(*own.value()).first_qpn.value == 0x8000;
    _exit(joined ? 0 : 1);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(device->engine().orphaned());
}

}  // namespace
}  // namespace uroce::nic
