// The packets that the kernel makes of a UdpPort's frames, read from the interface by a packet
// socket, in a network namespace of the test's own.
#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/port/udp/udp_port.h"
#include "tests/dpdk_nic/port/dpdk/veth_pair.h"
#include "tests/dpdk_nic/port/udp/udp_frames.h"
#include "transport/wire/byte_order.h"

namespace uroce::nic {
namespace {

using transport::DropReason;
using transport::Gid;

constexpr std::chrono::seconds kPatience(120);
constexpr uint32_t kMtuBytes = 4'200;

// Reads the RoCEv2 frames that leave on the interface "near".
class Wire {
 public:
  Wire() : fd_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL))) {
    sockaddr_ll near{};
    near.sll_family = AF_PACKET;
    near.sll_protocol = htons(ETH_P_ALL);
    near.sll_ifindex = static_cast<int>(if_nametoindex("near"));
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&near), sizeof near), 0);
  }

  // The next `count` frames.
  std::vector<std::vector<uint8_t>> Read(size_t count) {
    std::vector<std::vector<uint8_t>> frames;
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    while (frames.size() < count) {
      pollfd poller = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
      poll(&poller, 1, 1'000);
      std::array<uint8_t, 65'536> bytes;
      sockaddr_ll from{};
      socklen_t from_bytes = sizeof from;
      const ssize_t read = recvfrom(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT,
                                    reinterpret_cast<sockaddr*>(&from), &from_bytes);
      const bool leaves = read > 0 && from.sll_pkttype == PACKET_OUTGOING;
      if (leaves && IsRoce(std::span(bytes).first(static_cast<size_t>(read)))) {
        frames.emplace_back(bytes.begin(), bytes.begin() + read);
      }
      if (std::chrono::steady_clock::now() > give_up) {
        ADD_FAILURE() << "only " << frames.size() << " of " << count;
        break;
      }
    }
    return frames;
  }

 private:
  static bool IsRoce(std::span<const uint8_t> frame) {
    transport::Packet packet;
    const DropReason reason = ParseFrame(frame, packet);
    return reason == DropReason::kNone || reason == DropReason::kBadIcrc;
  }

  UniqueFd fd_;
};

class UdpWireTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const VethPair* const pair = new VethPair(kMtuBytes);
    problem_ = &pair->problem();
    // Makes a packet socket see packets after the kernel has segmented them, not before.
    if (problem_->empty()) VethPair::Run("ip link set near gso_max_segs 1");
  }
  void SetUp() override {
    if (!problem_->empty()) GTEST_SKIP() << *problem_;
  }

  static std::unique_ptr<UdpPort> Open(const Gid& address) {
    auto port = UdpPort::Open({address}, 0);
    EXPECT_TRUE(port.ok()) << (port.ok() ? "" : port.error());
    return port.ok() ? std::move(port).value() : nullptr;
  }
  // Checks all other fields of the frames, and returns the identifications of the IPv4 packets, in
  // order.
  static std::vector<uint16_t> CheckFrames(const std::vector<std::vector<uint8_t>>& frames,
                                           const std::vector<UdpFrameSpec>& specs) {
    std::vector<uint16_t> identifications;
    for (size_t i = 0; i < frames.size() && i < specs.size(); ++i) {
      transport::Packet packet;
      EXPECT_EQ(ParseFrame(frames[i], packet), DropReason::kNone) << "of frame " << i;
      EXPECT_EQ(packet.psn.value(), specs[i].psn);
      EXPECT_EQ(packet.payload.size(), specs[i].payload_bytes);
      EXPECT_EQ(packet.flow.traffic_class, specs[i].traffic_class);
      EXPECT_EQ(packet.flow.source_port, 4'791);
      if (specs[i].source.IsIpv4Mapped()) {
        identifications.push_back(transport::Load16(&frames[i][18]));
        EXPECT_EQ(frames[i][20], 0x40) << "must not be fragmented";
      }
    }
    return identifications;
  }

  static const std::string* problem_;
};

const std::string* UdpWireTest::problem_ = nullptr;

TEST_F(UdpWireTest, SingleFramesHaveRightIcrcs) {
  for (const auto& [near, far] : {std::pair(kNear, kFar), std::pair(kNear6, kFar6)}) {
    Wire wire;
    const auto port = Open(near);
    std::vector<UdpFrameSpec> specs;
    for (uint32_t psn = 0; psn < 3; ++psn) {
      specs.push_back({near, far, psn, /*payload_bytes=*/1 + psn * 2'000, /*traffic_class=*/0x6a});
      Send(port.get(), {specs.back()});
    }
    const auto frames = wire.Read(specs.size());
    for (const uint16_t identification : CheckFrames(frames, specs)) EXPECT_EQ(identification, 0);
  }
}

// Expect: each frame once, with the hop limit that it was given, to the group's Ethernet address.
TEST_F(UdpWireTest, FramesToAGroupHaveRightIcrcsAndHopLimits) {
  const Gid group = Gid::FromIpv4({239, 1, 2, 3});
  const Gid group6 = {{0xff, 0x1e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};
  for (const auto& [near, to] : {std::pair(kNear, group), std::pair(kNear6, group6)}) {
    Wire wire;
    const auto port = Open(near);
    ASSERT_EQ(port->JoinGroup(to), PacketPort::PathState::kReady);
    std::vector<UdpFrameSpec> specs;
    for (uint32_t psn = 0; psn < 10; ++psn) {
      specs.push_back({.source = near,
                       .destination = to,
                       .psn = psn,
                       .payload_bytes = 1'024,
                       .traffic_class = 0x6a,
                       .hop_limit = static_cast<uint8_t>(psn < 5 ? 1 : 7)});
    }
    Send(port.get(), specs);
    const auto frames = wire.Read(specs.size());
    ASSERT_EQ(frames.size(), specs.size());
    for (size_t i = 0; i < frames.size(); ++i) {
      const bool is_ipv4 = near == kNear;
      EXPECT_EQ(frames[i][is_ipv4 ? 22 : 21], specs[i].hop_limit);
      EXPECT_EQ(frames[i][0], is_ipv4 ? 0x01 : 0x33);
    }
    const auto identifications = CheckFrames(frames, specs);
    for (size_t i = 0; i < identifications.size(); ++i) EXPECT_EQ(identifications[i], i % 5);
  }
}

// A message of several packets: the first is the longest, and the last the shortest.
TEST_F(UdpWireTest, FramesOfOneCallHaveRightIcrcs) {
  for (const auto& [near, far] : {std::pair(kNear, kFar), std::pair(kNear6, kFar6)}) {
    for (const uint32_t middle_bytes : {256u, 1'024u, 4'080u}) {
      Wire wire;
      const auto port = Open(near);
      std::vector<UdpFrameSpec> specs;
      for (uint32_t psn = 0; psn < 16; ++psn) {
        const uint32_t bytes = psn == 0 ? middle_bytes + 16 : psn == 15 ? 7 : middle_bytes;
        specs.push_back({near, far, psn, bytes, /*traffic_class=*/2});
      }
      Send(port.get(), specs);
      const auto identifications = CheckFrames(wire.Read(specs.size()), specs);
      if (!near.IsIpv4Mapped()) continue;
      // The first frame and a shorter one leave by one call, then all others by another.
      EXPECT_EQ(identifications,
                (std::vector<uint16_t>{0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}));
    }
  }
}

}  // namespace
}  // namespace uroce::nic
