// Addresses of the host come and go while a UdpUplink or a UdpPort is open on one end of a veth
// pair.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dpdk_nic/port/udp/udp_port.h"
#include "dpdk_nic/port/udp/udp_uplink.h"
#include "tests/dpdk_nic/port/dpdk/veth_pair.h"
#include "tests/dpdk_nic/port/udp/udp_frames.h"

namespace uroce::nic {
namespace {

using transport::Gid;
using transport::Route;

constexpr int kTimeoutMs = 60'000;
constexpr uint32_t kMtuBytes = 1'500;

const Gid kSecond = Gid::FromIpv4({10, 77, 0, 9});
constexpr char kAddSecond[] = "ip address add 10.77.0.9/24 dev near";
constexpr char kRemoveSecond[] = "ip address del 10.77.0.9/24 dev near";

bool IsReadable(int fd) {
  pollfd poller = {.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&poller, 1, kTimeoutMs) == 1;
}

class AddressChangeTest : public testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    pair_ = new VethPair(kMtuBytes);
    if (!pair_->problem().empty()) return;
    // A link-local address would appear while a test runs, after the kernel has checked that it is
    // free.
    VethPair::Run("ip link set near addrgenmode none");
    VethPair::Run("ip -6 address flush dev near scope link");
  }
  void SetUp() override {
    if (!pair_->problem().empty()) GTEST_SKIP() << pair_->problem();
    const bool is_uplink = std::string(GetParam()) == "Uplink";
    is_uplink ? OpenUplink() : OpenDirect();
  }
  void TearDown() override { port_.reset(); }

  void OpenUplink() {
    auto uplink = UdpUplink::Create({.addresses = {}, .mtu_bytes = kMtuBytes});
    ASSERT_TRUE(uplink.ok()) << uplink.error();
    gids_ = uplink.value()->Gids();
    PacketPort::Path path;
    path.remote_gid = kFar;
    EXPECT_EQ(uplink.value()->PreparePath(path), PacketPort::PathState::kReady);
    port_ = std::move(uplink).value();
  }
  void OpenDirect() {
    auto port = UdpPort::Open({}, 0);
    ASSERT_TRUE(port.ok()) << port.error();
    gids_ = port.value()->Gids();
    port_ = std::move(port).value();
  }

  // Serves the port while wait_fd() is readable, until it reports a change.
  std::vector<Gid> AwaitChange() {
    std::optional<std::vector<Gid>> gids;
    while (!gids && IsReadable(port_->wait_fd())) {
      port_->ServeLink();
      gids = port_->TakeGids();
    }
    return gids.value_or(std::vector<Gid>());
  }
  uint64_t CountNotSent() { return port_->counters().drops[PortDrop::kNotSent]; }
  void SendFrom(const Gid& source) {
    const auto room = port_->AcquireTransmit(Route::kWire);
    ASSERT_FALSE(room.empty());
    port_->CommitTransmit(UdpFrameSpec{.source = source, .destination = kFar}.Build(room));
    port_->Flush();
  }

  static const VethPair* pair_;
  std::unique_ptr<PacketPort> port_;
  std::vector<Gid> gids_;  // at the beginning
};

const VethPair* AddressChangeTest::pair_ = nullptr;

TEST_P(AddressChangeTest, NewAddressComesToTheEndOfTheTableAndIsSentFrom) {
  EXPECT_EQ(port_->TakeGids(), std::nullopt);
  VethPair::Run(kAddSecond);
  std::vector<Gid> expected = gids_;
  expected.push_back(kSecond);
  EXPECT_EQ(AwaitChange(), expected);
  SendFrom(kSecond);
  SendFrom(kNear);
  EXPECT_EQ(CountNotSent(), 0u);
  VethPair::Run(kRemoveSecond);
}

TEST_P(AddressChangeTest, RemovedAddressFreesItsEntryAndCannotSend) {
  VethPair::Run(kAddSecond);
  std::vector<Gid> gids = AwaitChange();
  VethPair::Run(kRemoveSecond);
  std::replace(gids.begin(), gids.end(), kSecond, Gid{});
  EXPECT_EQ(AwaitChange(), gids);
  SendFrom(kSecond);
  EXPECT_EQ(CountNotSent(), 1u);
  SendFrom(kNear);
  EXPECT_EQ(CountNotSent(), 1u);
}

// This happens when a cable is moved to another network.
TEST_P(AddressChangeTest, AddressesThatAllGoComeBackToTheirEntries) {
  VethPair::Run("ip address flush dev near");
  const std::vector<Gid> none = AwaitChange();
  EXPECT_EQ(none[0], gids_[0]);
  EXPECT_NE(std::find(none.begin(), none.end(), Gid{}), none.end());
  SendFrom(kNear);
  EXPECT_EQ(CountNotSent(), 1u);
  VethPair::Run("ip address add 10.77.0.1/24 dev near");
  VethPair::AddAddress("fd77::1", "near");
  std::vector<Gid> gids;
  while (gids.size() < 3 || gids[1] != gids_[1] || gids[2] != gids_[2]) {
    gids = AwaitChange();
    ASSERT_FALSE(gids.empty()) << "nothing came";
  }
  SendFrom(kNear);
  EXPECT_EQ(CountNotSent(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Ports, AddressChangeTest, testing::Values("Uplink", "Direct"),
                         [](const auto& port) { return std::string(port.param); });

}  // namespace
}  // namespace uroce::nic
