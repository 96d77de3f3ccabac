#include "dpdk_nic/engine/port_notice.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

namespace uroce::nic {
namespace {

using transport::Gid;

const Gid kGid = Gid::FromIpv4({192, 0, 2, 1});
const Gid kOther = Gid::FromIpv4({192, 0, 2, 2});

// Of this test process alone.
PortKey Key() { return {.devargs = "test" + std::to_string(getpid()), .ip = kGid}; }

std::unique_ptr<PortNotice> Open(const PortKey& key) {
  return PortNotice::Create(
      key, {.mac = {2, 0, 0, 0, 0, 1}, .mtu_bytes = 1'500, .gids = {kGid}, .is_active = true});
}

TEST(PortNoticeTest, AnotherProcessFindsThePort) {
  const auto notice = Open(Key());
  ASSERT_NE(notice, nullptr);
  const PortKey key = Key();
  const pid_t child = fork();
  if (child == 0) {
    const auto port = PortNotice::Find(key);
    const bool is_right = port && port->mac == transport::MacAddress{2, 0, 0, 0, 0, 1} &&
                          port->mtu_bytes == 1'500 && port->gids == std::vector{kGid} &&
                          port->is_active;
    _exit(is_right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(PortNoticeTest, FollowsAddressesAndState) {
  const auto notice = Open(Key());
  ASSERT_NE(notice, nullptr);
  notice->SetPort({kGid, kOther}, false);
  const auto port = PortNotice::Find(Key());
  ASSERT_TRUE(port);
  EXPECT_EQ(port->gids, (std::vector{kGid, kOther}));
  EXPECT_FALSE(port->is_active);
}

TEST(PortNoticeTest, AnotherPortIsNotFound) {
  const auto notice = Open(Key());
  ASSERT_NE(notice, nullptr);
  EXPECT_FALSE(PortNotice::Find({.devargs = Key().devargs + "x", .ip = kGid}));
  EXPECT_FALSE(PortNotice::Find({.devargs = Key().devargs, .ip = kOther}));
}

TEST(PortNoticeTest, EndsWithItsPort) {
  auto notice = Open(Key());
  ASSERT_NE(notice, nullptr);
  notice.reset();
  EXPECT_FALSE(PortNotice::Find(Key()));
}

TEST(PortNoticeTest, DescriptorOfAnotherFileIsNoNotice) {
  const auto notice = Open(Key());
  ASSERT_NE(notice, nullptr);
  const auto at = [&] { return PortNotice::Find(Key()).has_value(); };
  ASSERT_TRUE(at());
  // A program that closes all descriptors gives their numbers to other files.
  for (int fd = 3; fd < 64; ++fd) {
    char path[64], target[64] = {};
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const ssize_t bytes = readlink(path, target, sizeof target - 1);
    if (bytes > 0 && std::string(target).find("uroce-port") != std::string::npos) {
      ASSERT_EQ(dup2(STDERR_FILENO, fd), fd);
    }
  }
  EXPECT_FALSE(at());
}

TEST(PortNoticeTest, DevargsWithoutRoomAreNotShown) {
  EXPECT_EQ(Open({.devargs = std::string(512, 'a'), .ip = kGid}), nullptr);
}

}  // namespace
}  // namespace uroce::nic
