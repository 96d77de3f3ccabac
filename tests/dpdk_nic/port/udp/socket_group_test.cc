// Sockets that share port 4791, and the kernel's program that steers datagrams to them, in a
// network namespace of the test's own.
#include "dpdk_nic/port/udp/socket_group.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/port/udp/steering_program.h"
#include "dpdk_nic/port/udp/udp_address.h"
#include "tests/dpdk_nic/port/dpdk/veth_pair.h"
#include "transport/limits.h"
#include "transport/route.h"

namespace uroce::nic {
namespace {

using transport::Gid;
using transport::Time;
using Use = UdpSocket::Use;

constexpr uint16_t kRocePort = 4'791;
constexpr Time kNow{1'000'000'000};
constexpr Time kLater = kNow + SocketGroup::kClosingTime;

const Gid kNear = Gid::FromIpv4({10, 77, 0, 1});
const Gid kNear6 = {{0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

constexpr uint32_t QpnOf(uint32_t block, uint32_t number = 5) {
  return block * transport::kMaxQps + number;
}

// A BTH with the destination `qpn`, and no more than its ICRC.
std::vector<uint8_t> DatagramTo(uint32_t qpn) {
  std::vector<uint8_t> datagram(16);
  for (int byte = 0; byte < 3; ++byte) {
    datagram[5 + static_cast<size_t>(byte)] = static_cast<uint8_t>(qpn >> (16 - 8 * byte));
  }
  return datagram;
}

// Takes all datagrams from a socket. Returns their number.
int Take(int fd) {
  char bytes[64];
  int count = 0;
  while (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) >= 0) ++count;
  return count;
}

class SocketGroupTest : public testing::TestWithParam<bool> {
 protected:
  static void SetUpTestSuite() {
    pair_ = new VethPair(1'500);
    if (pair_->problem().empty()) VethPair::Run("ip link set lo up");
  }
  void SetUp() override {
    if (!pair_->problem().empty()) GTEST_SKIP() << pair_->problem();
    auto own = UdpSocket::Open({.gid = Wildcard()}, Use::kFirstOfGroup);
    ASSERT_TRUE(own.ok()) << own.error();
    own_ = std::make_unique<UdpSocket>(std::move(own).value());
    group_ = std::make_unique<SocketGroup>(*own_);
  }

  static bool is_ipv6() { return GetParam(); }
  static Gid Wildcard() { return is_ipv6() ? Gid{} : Gid::FromIpv4({}); }

  void Add(uint32_t block) {
    sockets_[block] = group_->Add(kNow, block);
    ASSERT_GE(sockets_[block], 0);
  }
  // Sends from a new socket of this host each time, so that a hash of the addresses would spread
  // the datagrams.
  void Send(const std::vector<uint8_t>& datagram) const {
    const UniqueFd fd(socket(is_ipv6() ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const SocketAddress to = SocketAddress::Make(is_ipv6() ? kNear6 : kNear, kRocePort, 0);
    EXPECT_EQ(sendto(fd.get(), datagram.data(), datagram.size(), 0, to.get(), to.bytes),
              static_cast<ssize_t>(datagram.size()));
  }
  // Sends eight datagrams, and expects all at the socket of `to_block`; 0: at the first socket of
  // the group.
  void ExpectSteering(const std::vector<uint8_t>& datagram, uint32_t to_block) {
    for (int i = 0; i < 8; ++i) Send(datagram);
    EXPECT_EQ(Take(to_block == 0 ? own_->fd() : sockets_[to_block]), 8) << to_block;
    EXPECT_EQ(Take(own_->fd()), 0);
    for (const auto& [block, fd] : sockets_) EXPECT_EQ(Take(fd), 0) << block;
  }
  void Remove(uint32_t block) {
    group_->Remove(kNow, block);
    sockets_.erase(block);
  }

  static const VethPair* pair_;
  std::unique_ptr<UdpSocket> own_;
  std::unique_ptr<SocketGroup> group_;
  std::map<uint32_t, int> sockets_;  // of the group, by block
};

const VethPair* SocketGroupTest::pair_ = nullptr;

INSTANTIATE_TEST_SUITE_P(IpVersions, SocketGroupTest, testing::Bool(),
                         [](const auto& each) { return each.param ? "Ipv6" : "Ipv4"; });

TEST_P(SocketGroupTest, DatagramsGoToTheSocketOfTheirBlock) {
  for (const uint32_t block : {7u, 3u, 1'022u}) Add(block);
  for (const uint32_t block : {3u, 7u, 1'022u}) {
    ExpectSteering(DatagramTo(QpnOf(block, 0)), block);
    ExpectSteering(DatagramTo(QpnOf(block, transport::kMaxQps - 1)), block);
  }
}

TEST_P(SocketGroupTest, DatagramWithoutABlockGoesToTheFirstSocket) {
  ExpectSteering(DatagramTo(QpnOf(7)), 0);
  Add(7);
  ExpectSteering(DatagramTo(1), 0);  // connection management
  ExpectSteering(DatagramTo(QpnOf(6)), 0);
  ExpectSteering(DatagramTo(QpnOf(8)), 0);
  ExpectSteering(DatagramTo(0xffffff), 0);
  ExpectSteering({0x04, 0, 0xff, 0xff, 0, 0x01}, 0);  // ends within the QPN
  ExpectSteering({0x04}, 0);
}

TEST_P(SocketGroupTest, RemovedBlockGoesToTheFirstSocketAndOtherBlocksStay) {
  for (const uint32_t block : {3u, 7u, 9u, 11u}) Add(block);
  Remove(3);
  ExpectSteering(DatagramTo(QpnOf(3)), 0);
  ExpectSteering(DatagramTo(QpnOf(11)), 11);
  EXPECT_EQ(group_->size(), 5u) << "the process may still have it open";
  group_->Serve(kLater);
  EXPECT_EQ(group_->size(), 4u);
  // The last socket now has another index in the kernel.
  for (const uint32_t block : {7u, 9u, 11u}) ExpectSteering(DatagramTo(QpnOf(block)), block);
  Remove(11);
  Remove(7);
  group_->Serve(kLater);
  ExpectSteering(DatagramTo(QpnOf(9)), 9);
  Add(12);
  ExpectSteering(DatagramTo(QpnOf(12)), 12);
  ExpectSteering(DatagramTo(QpnOf(9)), 9);
  ExpectSteering(DatagramTo(QpnOf(7)), 0);
}

TEST_P(SocketGroupTest, ReaddedBlockGetsANewSocket) {
  Add(7);
  const int first = sockets_[7];
  Add(7);
  EXPECT_NE(sockets_[7], first);
  ExpectSteering(DatagramTo(QpnOf(7)), 7);
  EXPECT_EQ(Take(first), 0);
  group_->Serve(kLater);
  EXPECT_EQ(group_->size(), 2u);
  ExpectSteering(DatagramTo(QpnOf(7)), 7);
}

TEST_P(SocketGroupTest, ManyBlocksAreFound) {
  for (uint32_t i = 0; i < 60; ++i) Add(1 + i * 17);
  for (const auto& [block, fd] : std::map(sockets_)) {
    ExpectSteering(DatagramTo(QpnOf(block)), block);
    ExpectSteering(DatagramTo(QpnOf(block + 1)), 0);
  }
}

// Sockets of the same user, such as those of another fabric, could otherwise join the group.
TEST_P(SocketGroupTest, PortIsOfOneGroup) {
  Add(7);
  EXPECT_FALSE(UdpSocket::Open({.gid = Wildcard()}, Use::kFirstOfGroup).ok());
  EXPECT_FALSE(UdpSocket::Open({.gid = Wildcard()}, Use::kAll).ok());
  group_.reset();
  own_.reset();
  EXPECT_TRUE(UdpSocket::Open({.gid = Wildcard()}, Use::kFirstOfGroup).ok());
}

// A process that has the sockets of the group, stopped and left behind by its uroced.
class LeftBehind {
 public:
  LeftBehind(const char* name, const std::vector<int>& closed) : pid_(fork()) {
    if (pid_ != 0) {
      int status = 0;
      EXPECT_EQ(waitpid(pid_, &status, WUNTRACED), pid_);
      return;
    }
    for (const int fd : closed) close(fd);
    prctl(PR_SET_NAME, name);
    raise(SIGSTOP);
    _exit(0);
  }
  ~LeftBehind() { End(); }
  void End() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, -1), nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

TEST_P(SocketGroupTest, GroupThatAUrocedHasLeftBehindIsJoined) {
  Add(7);
  LeftBehind stopped("left-behind", {own_->fd()});
  const int closed = sockets_[7];
  group_.reset();
  own_.reset();
  sockets_.clear();
  EXPECT_EQ(fcntl(closed, F_GETFD), -1);
  EXPECT_FALSE(UdpSocket::Open({.gid = Wildcard()}, Use::kFirstOfGroup).ok());
  auto own = UdpSocket::Open({.gid = Wildcard()}, Use::kOrphanedGroup);
  ASSERT_TRUE(own.ok()) << own.error();
  EXPECT_EQ(own.value().sockets_before(), 1u);
  own_ = std::make_unique<UdpSocket>(std::move(own).value());
  group_ = std::make_unique<SocketGroup>(*own_);
  for (const uint32_t block : {3u, 9u}) Add(block);
  const auto expect_steering = [&] {
    for (const uint32_t block : {3u, 9u}) ExpectSteering(DatagramTo(QpnOf(block)), block);
    ExpectSteering(DatagramTo(QpnOf(7)), 0);
  };
  expect_steering();
  group_->Serve(kNow + SocketGroup::kLookAgain);
  expect_steering();
  stopped.End();
  Add(11);
  group_->Serve(kNow + SocketGroup::kLookAgain * 2);
  EXPECT_EQ(group_->size(), 4u);
  expect_steering();
  ExpectSteering(DatagramTo(QpnOf(11)), 11);
}

// Which of two sockets is closed does not show in the kernel.
TEST_P(SocketGroupTest, BlockThatMayBeAtTheIndexOfAStoppedProcessGoesToTheFirstSocket) {
  Add(7);
  Add(8);
  LeftBehind one("left-behind", {own_->fd(), sockets_[8]});
  LeftBehind other("left-behind", {own_->fd(), sockets_[7]});
  group_.reset();
  own_.reset();
  sockets_.clear();
  own_ = std::make_unique<UdpSocket>(
      UdpSocket::Open({.gid = Wildcard()}, Use::kOrphanedGroup).value());
  group_ = std::make_unique<SocketGroup>(*own_);
  for (const uint32_t block : {3u, 9u}) Add(block);
  other.End();
  group_->Serve(kNow);
  ExpectSteering(DatagramTo(QpnOf(3)), 3);
  ExpectSteering(DatagramTo(QpnOf(9)), 0);
}

TEST_P(SocketGroupTest, GroupOfAUrocedThatLivesIsNotJoined) {
  Add(7);
  const auto beside_its_own = UdpSocket::Open({.gid = Wildcard()}, Use::kOrphanedGroup);
  EXPECT_FALSE(beside_its_own.ok());
  std::string own_name;
  std::ifstream("/proc/self/comm") >> own_name;
  const LeftBehind uroced(own_name.c_str(), {});
  group_.reset();
  own_.reset();
  const auto beside_another = UdpSocket::Open({.gid = Wildcard()}, Use::kOrphanedGroup);
  ASSERT_FALSE(beside_another.ok());
  const std::string who = "process " + std::to_string(uroced.pid()) + " (" + own_name + ")";
  EXPECT_NE(beside_another.error().find(who + ", which is stopped"), std::string::npos)
      << beside_another.error();
}

// A fabric's maximum of blocks: the kernel takes no program with more than 4,096 instructions.
TEST_P(SocketGroupTest, ProgramForAllBlocksIsTaken) {
  std::vector<SteeredBlock> blocks;
  for (uint32_t block = 1; block < transport::kQpnBlocks - 1; ++block) {
    blocks.push_back({block, block % 2});
  }
  auto filters = MakeSteeringProgram(blocks);
  const sock_fprog program = {.len = static_cast<unsigned short>(filters.size()),
                              .filter = filters.data()};
  ASSERT_EQ(setsockopt(own_->fd(), SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program),
            0);
  const UdpSocket second = UdpSocket::Open({.gid = Wildcard()}, Use::kMemberOfGroup).value();
  sockets_[1] = second.fd();
  for (uint32_t block = 1; block < transport::kQpnBlocks - 1; block += 50) {
    ExpectSteering(DatagramTo(QpnOf(block)), block % 2);
  }
  sockets_.clear();
}

}  // namespace
}  // namespace uroce::nic
