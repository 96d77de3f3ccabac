// A process that joins multicast groups without end must not keep out other processes of its user
// or other users.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "dpdk_nic/control/control_address.h"
#include "dpdk_nic/control/group_shares.h"
#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/control/server.h"
#include "tests/dpdk_nic/control/control_test_support.h"
#include "tests/dpdk_nic/control/server_host.h"

namespace uroce::nic::control {
namespace {

using transport::Gid;

constexpr size_t kRoom = 16;
constexpr size_t kOfProcess = GroupShares::ProcessLimit(kRoom);
constexpr size_t kOfUser = GroupShares::UserLimit(kRoom);

Gid Group(size_t number) { return Gid::FromIpv4({239, 1, 1, static_cast<uint8_t>(number)}); }

ErrnoValue Join(Peer& peer, size_t group) {
  peer.Say(JoinGroup{Group(group)});
  return peer.HearAmongOthers<GroupAnswer>().error;
}

class GroupLimitsTest : public testing::Test {
 protected:
  GroupLimitsTest() {
    host_.frame_switch().SetMaxGroups(kRoom);
    hostile_.emplace(host_.fabric());
    hostile_->Attach();
  }
  // Asks for 2 * kRoom groups, from `first` on. Returns how many `peer` could join.
  static size_t JoinWithoutEnd(Peer& peer, size_t first) {
    size_t joined = 0;
    for (size_t i = 0; i < 2 * kRoom; ++i) joined += Join(peer, first + i) == 0 ? 1 : 0;
    return joined;
  }
  // The error that a process of another user gets.
  int JoinAsAnotherUser(size_t group) {
    const pid_t child = host_.Fork([&] {
      if (setresuid(kNobodyUid, kNobodyUid, kNobodyUid) != 0) return 98;
      auto connection = ConnectToFabric(host_.fabric());
      if (!connection) return 99;
      Peer peer(std::move(connection->socket));
      peer.Attach();
      return static_cast<int>(Join(peer, group));
    });
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  ServerHost host_;
  std::optional<Peer> hostile_;
};

TEST_F(GroupLimitsTest, ProcessAtItsLimitLeavesGroupsForOtherProcesses) {
  EXPECT_EQ(JoinWithoutEnd(*hostile_, 0), kOfProcess);
  Peer other(host_.fabric());
  other.Attach();
  for (size_t i = 0; i < kOfProcess; ++i) EXPECT_EQ(Join(other, 100 + i), 0);
  EXPECT_EQ(Join(other, 200), ENOSPC);
  EXPECT_EQ(Join(*hostile_, 0), 0) << "it is a member";
}

TEST_F(GroupLimitsTest, UserKeepsOutNoOther) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  std::optional<Peer> accomplices[3];
  size_t joined = JoinWithoutEnd(*hostile_, 0);
  for (std::optional<Peer>& accomplice : accomplices) {
    accomplice.emplace(host_.fabric());
    accomplice->Attach();
    joined += JoinWithoutEnd(*accomplice, joined);
  }
  EXPECT_EQ(joined, kOfUser);
  EXPECT_EQ(JoinAsAnotherUser(200), 0);
}

TEST_F(GroupLimitsTest, GroupsThatWereLeftCanBeJoinedAgain) {
  EXPECT_EQ(JoinWithoutEnd(*hostile_, 0), kOfProcess);
  hostile_->Say(LeaveGroup{Group(0)});
  EXPECT_EQ(Join(*hostile_, 100), 0);
  EXPECT_EQ(Join(*hostile_, 101), ENOSPC);
}

TEST_F(GroupLimitsTest, ProcessThatEndsGivesItsGroupsBack) {
  Peer second(host_.fabric()), third(host_.fabric());
  second.Attach();
  third.Attach();
  EXPECT_EQ(JoinWithoutEnd(*hostile_, 0), kOfProcess);
  EXPECT_EQ(JoinWithoutEnd(second, 50), kOfProcess);
  EXPECT_EQ(Join(third, 100), ENOSPC) << "of their user";
  EXPECT_EQ(Join(third, 0), 0) << "its user has it already";
  hostile_.reset();
  while (host_.CountClients() != 2) usleep(1'000);
  EXPECT_EQ(Join(third, 100), 0);
}

TEST_F(GroupLimitsTest, JoinThatTheSwitchRefusesCountsForNothing) {
  host_.frame_switch().AnswerWith(EBUSY);
  EXPECT_EQ(JoinWithoutEnd(*hostile_, 0), 0u);
  host_.frame_switch().AnswerWith(0);
  EXPECT_EQ(JoinWithoutEnd(*hostile_, 100), kOfProcess) << "of other groups";
}

// Expect: one sentence, however often the process tries, to this process and to the log only.
TEST_F(GroupLimitsTest, GroupLimitIsReportedOnceToProcessAndLog) {
  Peer other(host_.fabric());
  other.Attach();
  ASSERT_EQ(Join(other, kOfProcess), 0);  // a member of the group refused to the hostile process
  const std::string who =
      "process " + std::to_string(getpid()) + " of user " + std::to_string(geteuid());
  const std::string sentence =
      who + " cannot join another multicast group: it has 4 already; leave some";
  for (size_t i = 0; i < kOfProcess; ++i) ASSERT_EQ(Join(*hostile_, i), 0);
  hostile_->Say(JoinGroup{Group(kOfProcess)});
  EXPECT_EQ(hostile_->Hear<Notice>().sentence.data(), sentence);
  EXPECT_EQ(hostile_->Hear<GroupAnswer>().error, ENOSPC);
  hostile_->Say(JoinGroup{Group(kOfProcess + 1)});
  EXPECT_EQ(hostile_->Hear<GroupAnswer>().error, ENOSPC) << "and no other sentence";
  EXPECT_EQ(host_.Log(), sentence + "\n");
  EXPECT_TRUE(other.HearsNothingNow());

  Peer second(host_.fabric());
  second.Attach();
  EXPECT_EQ(JoinWithoutEnd(second, 50), kOfProcess - 1);
  EXPECT_NE(host_.Log().find(who + " cannot join another multicast group: the processes of its "
                                   "user have 8 already; leave some\n"),
            std::string::npos);
}

}  // namespace
}  // namespace uroce::nic::control
