#include "dpdk_nic/device/device.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "dpdk_nic/control/block_claim.h"
#include "dpdk_nic/control/control_address.h"
#include "dpdk_nic/port/fabric/fabric_query.h"
#include "tests/dpdk_nic/control/fabric_names.h"
#include "tests/dpdk_nic/port/fabric/fake_uroced.h"
#include "tests/dpdk_nic/port/fabric/test_fabric.h"
#include "transport/route.h"

namespace uroce::nic {
namespace {

using transport::Gid;

DeviceConfig ConfigFor(const std::string& fabric) {
  DeviceConfig config;
  config.fabric = fabric;
  config.ip = Gid::FromIpv4({10, 9, 8, 7});
  return config;
}

transport::EndpointConfig EndpointConfigOf(Device& device) {
  return device.engines().first().WithEndpoint(
      [](transport::Endpoint& endpoint) { return endpoint.config(); });
}

// The keys and, in their block, the QPNs that the device gives next.
std::vector<uint32_t> NextNumbersOf(Device& device) {
  return device.engines().first().WithEndpoint([](transport::Endpoint& endpoint) {
    std::vector<uint32_t> numbers;
    const auto cq = endpoint.CreateCompletionQueue(1, nullptr);
    transport::QpInitAttributes init;
    init.send_cq = init.receive_cq = cq.get();
    std::vector<transport::QueuePair*> qps(4);
    for (transport::QueuePair*& qp : qps) {
      numbers.push_back(endpoint.memory().Register({}).value().value);
      EXPECT_EQ(endpoint.CreateQueuePair(init, &qp), transport::Status::kOk);
      numbers.push_back(qp->qpn().value % transport::kMaxQps);
    }
    for (transport::QueuePair* qp : qps) endpoint.DestroyQueuePair(qp);
    return numbers;
  });
}

TEST(DeviceTest, ConfigurationReachesTheEndpoint) {
  DeviceConfig config = ConfigFor(TestFabric());
  config.mtu_bytes = 1'500;
  const auto device = Device::Open(config, {});
  ASSERT_TRUE(device.ok());
  const auto endpoint = EndpointConfigOf(*device.value());
  const transport::MacAddress mac = {2, 0x75, 10, 9, 8, 7};
  EXPECT_EQ(endpoint.mac, mac);
  EXPECT_EQ(endpoint.port_mtu, 1'500u);
  EXPECT_EQ(endpoint.gids, (std::vector<Gid>{Gid::LinkLocal(mac), config.ip}));
  EXPECT_TRUE(endpoint.has_links);
  EXPECT_FALSE(endpoint.has_wire);
}

TEST(DeviceTest, QueuePairsAreOfTheBlockThatTheProcessHolds) {
  const auto device = Device::Open(ConfigFor(TestFabric()), {});
  ASSERT_TRUE(device.ok());
  const uint32_t block = transport::BlockOf(EndpointConfigOf(*device.value()).first_qpn);
  EXPECT_EQ(EndpointConfigOf(*device.value()).first_qpn.value, block * transport::kMaxQps);
  const UniqueFd folder = control::OpenFolderOf(TestFabric());
  EXPECT_EQ(control::BlockClaims(folder.get()).OwnerOf(block), geteuid());
}

// The keys and numbers that a peer has seen of one device do not reveal those of another, or of the
// same one opened anew.
TEST(DeviceTest, ReopenedDeviceHasNewKeysAndNumbers) {
  std::set<std::vector<uint32_t>> sequences;
  for (int i = 0; i < 3; ++i) {
    const auto device = Device::Open(ConfigFor(TestFabric()), {});
    ASSERT_TRUE(device.ok());
    sequences.insert(NextNumbersOf(*device.value()));
  }
  EXPECT_EQ(sequences.size(), 3u);
}

TEST(DeviceTest, StateIsPublished) {
  const auto device = Device::Open(ConfigFor(TestFabric()), {});
  ASSERT_TRUE(device.ok());
  const auto answer = QueryFabric(TestFabric());
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer.value().clients, 1u);
}

TEST(DeviceTest, ClosingLeavesTheFabric) {
  auto device = Device::Open(ConfigFor(TestFabric()), {}).value();
  EXPECT_EQ(QueryFabric(TestFabric()).value().clients, 1u);
  device.reset();
  EXPECT_EQ(QueryFabric(TestFabric()).value().clients, 0u);
  EXPECT_TRUE(Device::Open(ConfigFor(TestFabric()), {}).ok());
}

TEST(DeviceTest, FabricWithoutDaemonIsASentence) {
  const std::string fabric = UniqueFabricName();
  const auto device = Device::Open(ConfigFor(fabric), {});
  ASSERT_FALSE(device.ok());
  EXPECT_NE(device.error().find("uroce run"), std::string::npos) << device.error();
  const auto description = Device::Describe(ConfigFor(fabric));
  ASSERT_FALSE(description.ok());
  EXPECT_EQ(description.error(), device.error());
}

TEST(DeviceTest, DescriptionIsThatOfTheDeviceAndNeedsNoMembership) {
  for (const uint32_t mtu_bytes : {0u, 1'500u}) {
    DeviceConfig config = ConfigFor(TestFabric());
    config.mtu_bytes = mtu_bytes;
    const auto description = Device::Describe(config);
    ASSERT_TRUE(description.ok()) << description.error();
    EXPECT_EQ(QueryFabric(TestFabric()).value().clients, 0u);
    const auto device = Device::Open(config, {});
    ASSERT_TRUE(device.ok()) << device.error();
    const auto endpoint = EndpointConfigOf(*device.value());
    EXPECT_EQ(description.value().mac, endpoint.mac);
    EXPECT_EQ(description.value().gids, endpoint.gids);
    EXPECT_EQ(description.value().mtu_bytes, endpoint.port_mtu);
    EXPECT_EQ(description.value().is_active, device.value()->engines().first().port_active());
  }
}

TEST(DeviceTest, FabricWithANicHasItsAddresses) {
  const std::string fabric = UniqueFabricName();
  const control::Welcome nic = FakeUroced::WiredFabric();
  FakeUroced uroced(fabric, nic);
  std::atomic<bool> is_done = false;
  std::thread serving([&] {
    while (!is_done) uroced.Serve();
  });
  const auto description = Device::Describe(ConfigFor(fabric));
  auto device = Device::Open(ConfigFor(fabric), {});
  is_done = true;
  serving.join();
  ASSERT_TRUE(device.ok()) << device.error();
  const auto endpoint = EndpointConfigOf(*device.value());
  EXPECT_EQ(endpoint.mac, nic.mac);
  EXPECT_EQ(endpoint.gids, (std::vector<Gid>{nic.gids[0], nic.gids[1]}));
  EXPECT_EQ(endpoint.port_mtu, 1'500u);
  EXPECT_TRUE(endpoint.has_links);
  EXPECT_TRUE(endpoint.has_wire);
  ASSERT_TRUE(description.ok()) << description.error();
  EXPECT_EQ(description.value().mac, nic.mac);
  EXPECT_EQ(description.value().gids, endpoint.gids);
  EXPECT_EQ(description.value().mtu_bytes, 1'500u);
  EXPECT_TRUE(description.value().is_active);
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
  DeviceConfig config = ConfigFor(TestFabric());
  config.capture_file = "/nonexistent/x.pcapng";
  const auto device = Device::Open(config, {});
  ASSERT_FALSE(device.ok());
  EXPECT_NE(device.error().find("/nonexistent/x.pcapng"), std::string::npos);
}

TEST(DeviceTest, ForkedChildOpensADeviceOfItsOwn) {
  const auto device = Device::Open(ConfigFor(TestFabric()), {}).value();
  const uint32_t first_qpn = EndpointConfigOf(*device).first_qpn.value;
  const pid_t child = fork();
  if (child == 0) {
    const auto own = Device::Open(ConfigFor(TestFabric()), {});
    _exit(own.ok() && EndpointConfigOf(*own.value()).first_qpn.value != first_qpn ? 0 : 1);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(device->engines().first().in_forked_child());
}

}  // namespace
}  // namespace uroce::nic
