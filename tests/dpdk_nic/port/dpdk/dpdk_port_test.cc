// Tests in one process, with devices without a peer.
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "tests/dpdk_nic/port/dpdk/dpdk_test_support.h"

namespace uroce::nic {
namespace {

constexpr transport::Gid kIp = transport::Gid::FromIpv4({10, 0, 0, 1});

TEST(DpdkPortTest, RingReturnsSentFrames) {
  OpenedPort ring = OpenDpdkPort("net_ring0", 0, kIp);
  ASSERT_NE(ring.port, nullptr) << ring.error;
  EXPECT_TRUE(ring.port->link_up());
  EXPECT_EQ(ring.port->mac(), MacAddressFor(kIp));
  EXPECT_EQ(ring.port->mtu(), 4210u);
  EXPECT_EQ(ring.port->wait_fd(), -1);

  EXPECT_TRUE(AllComeBack(ring.port.get(), 20'000));
}

TEST(DpdkPortTest, FullRingPushesBackAndLosesNothing) {
  OpenedPort ring = OpenDpdkPort("net_ring1");
  ASSERT_NE(ring.port, nullptr) << ring.error;
  Traffic traffic(ring.port.get(), 60, 60);
  uint64_t before = 0;
  do {  // fills the ring, which has no receiver yet
    before = traffic.sent();
    traffic.Send();
  } while (traffic.sent() != before);
  EXPECT_GT(before, 1'000u);
  EXPECT_TRUE(ring.port->AcquireTransmit(transport::Route::kWire).empty());

  EXPECT_TRUE(PollUntil([&] {
    traffic.Receive();  // also sends frames that had to wait
    return traffic.received() == before;
  }));
  EXPECT_EQ(traffic.lost(), 0u);
  EXPECT_EQ(traffic.corrupt(), 0u);
  EXPECT_FALSE(ring.port->AcquireTransmit(transport::Route::kWire).empty());
}

TEST(DpdkPortTest, AcquiringAgainGivesTheSameBuffer) {
  OpenedPort null = OpenDpdkPort("net_null0");
  ASSERT_NE(null.port, nullptr) << null.error;
  const std::span<uint8_t> first = null.port->AcquireTransmit(transport::Route::kWire);
  EXPECT_GE(first.size(), 4'224u);
  EXPECT_EQ(null.port->AcquireTransmit(transport::Route::kWire).data(), first.data());
}

TEST(DpdkPortTest, NullTakesEverythingAndGivesNothing) {
  OpenedPort null = OpenDpdkPort("net_null0");
  ASSERT_NE(null.port, nullptr) << null.error;
  Traffic traffic(null.port.get(), 60, 4'224);
  for (int i = 0; i < 1'000; ++i) {
    traffic.Send();
    traffic.Receive();
  }
  EXPECT_EQ(traffic.sent(), 32'000u);
  EXPECT_TRUE(null.port->Receive().bytes.empty());
}

TEST(DpdkPortTest, SeveralPortsInOneProcess) {
  OpenedPort first = OpenDpdkPort("net_ring0");
  OpenedPort second = OpenDpdkPort("net_ring1");
  ASSERT_NE(first.port, nullptr) << first.error;
  ASSERT_NE(second.port, nullptr) << second.error;
  Traffic one(first.port.get(), 60, 60);
  Traffic two(second.port.get(), 60, 60);
  one.Send(10);
  two.Send(20);
  one.Receive();
  two.Receive();
  EXPECT_EQ(one.received(), 10u);
  EXPECT_EQ(two.received(), 20u);
}

TEST(DpdkPortTest, TheSameDeviceTwiceIsRefused) {
  OpenedPort first = OpenDpdkPort("net_ring0");
  OpenedPort second = OpenDpdkPort("net_ring0");
  EXPECT_EQ(second.port, nullptr);
  EXPECT_EQ(second.error,
            "net_ring0 is open in this process already; give this one another number");
}

TEST(DpdkPortTest, OpensAndClosesManyTimes) {
  for (int i = 0; i < 200; ++i) {
    OpenedPort ring = OpenDpdkPort("net_ring0");
    ASSERT_NE(ring.port, nullptr) << "round " << i << ": " << ring.error;
    Traffic traffic(ring.port.get(), 60, 60);
    traffic.Send(100);  // still in the ring when the port is closed
  }
}

TEST(DpdkPortTest, UnusableOptionsAreOneSentence) {
  EXPECT_EQ(
      OpenDpdkPort("net_tap0").error,
      "there is no port \"net_tap0\"; use udp, net_memif0, net_af_packet0, net_af_xdp0, net_ring0, "
      "net_null0 or a PCI address such as 0000:3b:00.0");
  EXPECT_EQ(OpenDpdkPort("net_af_packet0,iface=nosuch0").error,
            "there is no network interface nosuch0; `ip link` lists those there are");
  const std::string socket = "/tmp/uroce-dpdk-port-test." + std::to_string(getpid());
  EXPECT_EQ(OpenDpdkPort("net_memif0,role=server,bsize=5000,socket=" + socket, 9'000).error,
            "net_memif0 cannot have an MTU of 9000; the most it can have is 4986");
}

TEST(DpdkPortTest, AbsentPciDeviceIsExplained) {
  EXPECT_EQ(OpenDpdkPort("0000:ff:1f.7").error,
            "there is no PCI device 0000:ff:1f.7; 'lspci -D' lists those that there are");
}

TEST(DpdkPortTest, LibraryOfAnotherBuildIsRefused) {
  OpenDpdkPort("net_ring0");  // loads the library for good
  OpenDpdkPortRequest request;
  request.devargs = "net_ring0";
  for (const uint32_t other : {kDpdkLibraryBuild + 1, kDpdkLibraryBuild + (1u << 16), 2u}) {
    request.build = other;
    OpenDpdkPortResult result;
    EXPECT_FALSE(TestedOpenFunction()(&request, &result));
    EXPECT_NE(std::string(result.error).find("of another build"), std::string::npos);
  }
}

}  // namespace
}  // namespace uroce::nic
