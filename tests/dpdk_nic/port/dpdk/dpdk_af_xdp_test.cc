// Properties of net_af_xdp alone. dpdk_veth_test sends frames through it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/dpdk_nic/port/dpdk/dpdk_test_support.h"
#include "tests/dpdk_nic/port/dpdk/veth_pair.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/frame_builder.h"

namespace uroce::nic {
namespace {

using transport::Gid;

constexpr Gid kNearIp = Gid::FromIpv4({10, 77, 0, 1});
constexpr Gid kOwnIp = Gid::FromIpv4({10, 77, 0, 50});  // not an address of the kernel

class AfXdpTest : public testing::Test {
 protected:
  explicit AfXdpTest(uint32_t mtu_bytes = 1'500) : veth_(mtu_bytes) {}
  void SetUp() override {
    if (!veth_.problem().empty()) GTEST_SKIP() << veth_.problem();
    if (veth_.in_user_namespace()) GTEST_SKIP() << "AF_XDP is for root only";
  }
  static OpenedPort Open(const Gid& ip = kNearIp) {
    return OpenDpdkPort("net_af_xdp0,iface=near", 0, ip);
  }
  static bool HasProgram() { return system("ip link show near | grep -q xdp") == 0; }

  VethPair veth_;
};

TEST_F(AfXdpTest, ProgramIsThereForAsLongAsThePortIsOpen) {
  for (int i = 0; i < 3; ++i) {
    OpenedPort near = Open();
    ASSERT_NE(near.port, nullptr) << near.error;
    EXPECT_TRUE(HasProgram());
    near = {};
    EXPECT_FALSE(HasProgram());
  }
}

// That memory has no buffers of more than a page.
TEST_F(AfXdpTest, FramesAreBuiltInTheMemoryThatTheKernelReads) {
  const OpenedPort near = Open();
  ASSERT_NE(near.port, nullptr) << near.error;
  const transport::FrameRoom room = near.port->AcquireTransmit(transport::Route::kWire);
  EXPECT_GE(room.size(), near.port->mtu() + transport::EthernetHeader::kBytes);
  EXPECT_LT(room.size(), transport::kMaxFrameBytes);
}

TEST_F(AfXdpTest, KilledProcessLeavesNothingBehind) {
  for (int i = 0; i < 3; ++i) {
    Peer peer("net_af_xdp0,iface=near");
    ASSERT_TRUE(PollUntil(HasProgram));
    peer.Kill();
    EXPECT_FALSE(HasProgram());
  }
  EXPECT_NE(Open().port, nullptr);
}

TEST_F(AfXdpTest, ForkedChildKeepsNeitherQueueNorProgram) {
  OpenedPort near = Open();
  ASSERT_NE(near.port, nullptr) << near.error;
  int forked[2];
  ASSERT_EQ(pipe(forked), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (write(forked[1], "", 1) != 1) _exit(1);
    while (true) pause();
  }
  char byte;
  ASSERT_EQ(read(forked[0], &byte, 1), 1);
  near = {};
  EXPECT_FALSE(HasProgram());
  near = Open();
  EXPECT_NE(near.port, nullptr) << near.error;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(AfXdpTest, QueueOfAnotherSocketIsRefused) {
  Peer peer("net_af_xdp0,iface=near");
  ASSERT_TRUE(PollUntil(HasProgram));
  const OpenedPort near = Open();
  EXPECT_NE(near.error.find("an interface without another XDP program"), std::string::npos)
      << near.error;
}

TEST_F(AfXdpTest, AddressThatTheKernelLacksIsRefused) {
  const OpenedPort near = Open(kOwnIp);
  EXPECT_EQ(near.error,
            "AF_XDP leaves ARP and neighbour discovery to the kernel, which does not have every "
            "address of --ip on the interface: give it the address ('ip address add'), or use "
            "net_af_packet");
  EXPECT_FALSE(HasProgram());
}

TEST_F(AfXdpTest, OneOfSeveralQueuesHasToBeNamed) {
  VethPair::Run("ip link add several numrxqueues 2 numtxqueues 2 type veth peer name peer");
  EXPECT_EQ(OpenDpdkPort("net_af_xdp0,iface=several").error,
            "net_af_xdp0 receives from one queue of several, which has 2: 'ethtool -L several "
            "combined 1', or steer UDP port 4791 to one and say start_queue=N");
  const OpenedPort opened = OpenDpdkPort("net_af_xdp0,iface=several,start_queue=1");
  EXPECT_NE(opened.port, nullptr) << opened.error;
}

class AfXdpJumboTest : public AfXdpTest {
 protected:
  AfXdpJumboTest() : AfXdpTest(9'000) {}
};

TEST_F(AfXdpJumboTest, JumboFramesAreRefused) {
  EXPECT_EQ(Open().error,
            "net_af_xdp0 cannot be used while the MTU of near is 9000, as AF_XDP has no jumbo "
            "frames: use net_af_packet, or 'ip link set near mtu 1500'");
  VethPair::Run("ip link set near mtu 3400");
  const OpenedPort near = Open();
  EXPECT_NE(near.port, nullptr) << near.error;
}

}  // namespace
}  // namespace uroce::nic
