// The switch refuses blocks that no process can have.
#include "dpdk_nic/switch/switch.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>

#include "tests/dpdk_nic/switch/switch_frames.h"

namespace uroce::nic {
namespace {

using control::Block;

TEST(SwitchTest, BlocksThatNoProcessHasAreRefused) {
  auto created = Switch::Create({});
  ASSERT_TRUE(created.ok()) << created.error();
  Switch& fabric_switch = *created.value();
  constexpr control::ServiceClaim kService = {1'234, kOurIpv4, 0};
  constexpr Block kLast = transport::BlockOf(transport::kMulticastQpn);
  for (const Block block : {control::kSwitchBlock, kLast, Block{UINT32_MAX}}) {
    SCOPED_TRACE(block);
    EXPECT_EQ(fabric_switch.ConnectUplink(block, nullptr), EINVAL);
    EXPECT_EQ(fabric_switch.Declare(block, {QpOf(block, 5), {42}, kFarIpv4}), EINVAL);
    EXPECT_EQ(fabric_switch.JoinGroup(block, kGroup), EINVAL);
    EXPECT_EQ(fabric_switch.Listen(block, {kService, 0, 1}), EINVAL);
    EXPECT_EQ(fabric_switch.usage(block).declared_connections, 0u);
    fabric_switch.Forget(block, QpOf(block, 5));
    fabric_switch.LeaveGroup(block, kGroup);
    fabric_switch.Unlisten(block, kService);
    fabric_switch.Remove(block);
  }
}

}  // namespace
}  // namespace uroce::nic
