#include "dpdk_nic/device/await_link.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/dpdk_nic/engine/scripted_port.h"

namespace uroce::nic {
namespace {

TEST(AwaitLinkTest, PortWithALinkIsNotWaitedFor) {
  ScriptedPort port;
  ::testing::internal::CaptureStderr();
  AwaitLink("0000:3b:00.0", &port);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(port.served, 0);
}

TEST(AwaitLinkTest, PortWithoutLinkIsServedAndReported) {
  ScriptedPort port;
  port.is_active = false;
  ::testing::internal::CaptureStderr();
  AwaitLink("0000:3b:00.0", &port);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "uroce: 0000:3b:00.0 has no link, and sends nothing until it has: check its cable, and "
            "the port at the other end.\n");
  EXPECT_GT(port.served, 0);
}

}  // namespace
}  // namespace uroce::nic
