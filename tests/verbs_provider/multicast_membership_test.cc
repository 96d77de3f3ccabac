// The kernel's multicast memberships for a program in direct mode over UDP sockets.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

ibv_gid GroupOf(uint8_t last) {
  return {.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, last}};
}

// The kernel writes the address as a number of the host's byte order.
bool IsJoined(uint8_t last) {
  std::array<char, 16> text;
  std::snprintf(text.data(), text.size(), "%02X0201EF", last);
  std::ifstream groups("/proc/self/net/igmp");
  for (std::string line; std::getline(groups, line);) {
    if (line.find(text.data()) != std::string::npos) return true;
  }
  return false;
}

class MulticastMembershipTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (getenv("UROCE_TEST_NAMESPACE") == nullptr) GTEST_SKIP() << "no network namespace";
  }
  static Qp Create(const Host& host, ibv_cq* cq) {
    ibv_qp_init_attr attr = Attributes(IBV_QPT_UD, cq, cq);
    Qp qp(ibv_create_qp(host.pd.get(), &attr));
    EXPECT_NE(qp, nullptr);
    if (qp != nullptr) BringUp(qp.get());
    return qp;
  }
};

TEST_F(MulticastMembershipTest, LastQueuePairOfAGroupLeavesIt) {
  Host host;
  const Cq cq = host.CreateCq(16);
  const Qp one = Create(host, cq.get());
  const Qp other = Create(host, cq.get());
  const ibv_gid group = GroupOf(3);
  ASSERT_FALSE(IsJoined(3));
  ASSERT_EQ(ibv_attach_mcast(one.get(), &group, 0), 0);
  ASSERT_EQ(ibv_attach_mcast(other.get(), &group, 0), 0);
  EXPECT_TRUE(IsJoined(3));
  ASSERT_EQ(ibv_detach_mcast(one.get(), &group, 0), 0);
  EXPECT_TRUE(IsJoined(3));
  ASSERT_EQ(ibv_detach_mcast(other.get(), &group, 0), 0);
  EXPECT_FALSE(IsJoined(3));
}

// A program leaves the destruction of everything to ibv_close_device.
TEST_F(MulticastMembershipTest, ClosedDeviceLeavesItsGroups) {
  Host stays;  // keeps the port open
  const Cq cq = stays.CreateCq(16);
  const Qp member = Create(stays, cq.get());
  const ibv_gid both = GroupOf(4);
  const ibv_gid only = GroupOf(5);
  ASSERT_EQ(ibv_attach_mcast(member.get(), &both, 0), 0);
  Host leaving;
  Cq left_cq = leaving.CreateCq(16);
  Qp left_qp = Create(leaving, left_cq.get());
  ASSERT_EQ(ibv_attach_mcast(left_qp.get(), &both, 0), 0);
  ASSERT_EQ(ibv_attach_mcast(left_qp.get(), &only, 0), 0);
  EXPECT_TRUE(IsJoined(5));
  // The structs stay: the program may still point to them.
  static const std::array<void*, 4> left_behind = {left_qp.release(), left_cq.release(),
                                                   leaving.mr.release(), leaving.pd.release()};
  ASSERT_NE(left_behind[0], nullptr);
  leaving.context.reset();
  EXPECT_FALSE(IsJoined(5));
  EXPECT_TRUE(IsJoined(4));
  ASSERT_EQ(ibv_detach_mcast(member.get(), &both, 0), 0);
  EXPECT_FALSE(IsJoined(4));
}

// Each group needs a socket, of which there are 128.
TEST_F(MulticastMembershipTest, GroupThatThePortHasNoRoomForIsRefused) {
  Host host;
  const Cq cq = host.CreateCq(16);
  const Qp qp = Create(host, cq.get());
  uint8_t joined = 0;
  int error = 0;
  for (; joined < 200 && error == 0; ++joined) {
    const ibv_gid group = GroupOf(joined);
    error = ibv_attach_mcast(qp.get(), &group, 0);
  }
  EXPECT_EQ(error, ENOSPC);
  --joined;
  EXPECT_EQ(joined, 128);
  EXPECT_FALSE(IsJoined(joined));
  for (uint8_t i = 0; i < joined; ++i) {
    const ibv_gid group = GroupOf(i);
    EXPECT_EQ(ibv_detach_mcast(qp.get(), &group, 0), 0);
  }
  EXPECT_FALSE(IsJoined(0));
}

}  // namespace
}  // namespace uroce::verbs::testing
