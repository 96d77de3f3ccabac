#include "dpdk_nic/port/udp/identification.h"

#include <gtest/gtest.h>

#include <random>

#include "transport/wire/crc32_shift.h"

namespace uroce::nic {
namespace {

using transport::Gid;

constexpr size_t kIpBytes[] = {44, 48, 60, 1'068, 1'084, 4'140, 4'188};

TEST(IdentificationTest, EveryIdentificationIsFound) {
  for (size_t ip_bytes : kIpBytes) {
    for (uint32_t id = 0; id <= 0xffff; id += 257) {
      const CoveredFields with_id = {.identification = static_cast<uint16_t>(id)};
      const uint32_t difference = IcrcChange({}, with_id, ip_bytes - 20);
      EXPECT_EQ(SolveIdentification(difference, ip_bytes), id) << ip_bytes;
    }
  }
}

// A CRC of 32 bits detects any burst of up to 32 flipped bits. Solving for the identification must
// not lose that.
TEST(IdentificationTest, FlippedBitsAreNotExplained) {
  std::mt19937 random(2);
  for (size_t ip_bytes : kIpBytes) {
    int explained = 0;
    for (size_t bit = 0; bit < (ip_bytes - 24) * 8; ++bit) {
      const size_t place = bit / 32 * 4;
      const uint32_t flipped = transport::AdvanceCrc32(1u << bit % 32, ip_bytes - 24 - place);
      if (SolveIdentification(flipped, ip_bytes)) ++explained;
    }
    // One error in 2^16 may pass.
    EXPECT_LE(explained, 2) << ip_bytes;
  }
}

TEST(IdentificationTest, ChangesCanBeTakenBack) {
  const CoveredFields a = {.identification = 7, .source_port = 0xc123};
  const CoveredFields b = {.identification = 0, .source_port = 4791};
  EXPECT_EQ(IcrcChange(a, b, 100), IcrcChange(b, a, 100));
  EXPECT_NE(IcrcChange(a, b, 100), 0u);
  EXPECT_EQ(IcrcChange(a, a, 100), 0u);
}

TEST(PeerIdentificationsTest, PeerThatCountsIsBelievedAlways) {
  PeerIdentifications peers;
  const Gid rxe = Gid::FromIpv4({10, 0, 0, 2});
  uint16_t identification = 65'000;
  for (int packet = 0; packet < 200'000; ++packet) {
    ASSERT_TRUE(peers.Accept(rxe, identification++)) << packet;
  }
}

TEST(PeerIdentificationsTest, PeerWithASocketIsHeldToIts64) {
  PeerIdentifications peers;
  const Gid peer = Gid::FromIpv4({10, 0, 0, 2});
  EXPECT_TRUE(peers.Accept(peer, 40'000)) << "nothing is known of it yet";
  for (int packet = 0; packet < PeerIdentifications::kSmallInARow; ++packet) {
    EXPECT_TRUE(peers.Accept(peer, static_cast<uint16_t>(packet % 64)));
  }
  EXPECT_FALSE(peers.Accept(peer, 64));
  EXPECT_FALSE(peers.Accept(peer, 40'000));
  EXPECT_TRUE(peers.Accept(peer, 63));
  EXPECT_TRUE(peers.Accept(Gid::FromIpv4({10, 0, 1, 2}), 40'000)) << "another peer";
}

TEST(PeerIdentificationsTest, AddressThatAnotherHostTookIsBelievedAgain) {
  PeerIdentifications peers;
  const Gid peer = Gid::FromIpv4({10, 0, 0, 2});
  for (int packet = 0; packet < PeerIdentifications::kSmallInARow; ++packet) peers.Accept(peer, 0);
  for (int packet = 1; packet < PeerIdentifications::kLargeInARow; ++packet) {
    EXPECT_FALSE(peers.Accept(peer, 5'000));
  }
  EXPECT_TRUE(peers.Accept(peer, 5'000));
  EXPECT_TRUE(peers.Accept(peer, 5'001));
}

}  // namespace
}  // namespace uroce::nic
