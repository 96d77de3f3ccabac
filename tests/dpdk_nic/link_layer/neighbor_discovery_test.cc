#include "dpdk_nic/link_layer/neighbor_discovery.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/transport/wire/wire_test_util.h"

namespace uroce::nic {
namespace {

using transport::Gid;
using transport::MacAddress;

constexpr MacAddress kAskerMac = {0x02, 0xc1, 0xe1, 0x54, 0x21, 0x01};
constexpr MacAddress kTargetMac = {0x02, 0xc1, 0xe1, 0x54, 0x21, 0x02};
constexpr Gid kAsker = Gid::LinkLocal(kAskerMac);
constexpr Gid kTarget = Gid::LinkLocal(kTargetMac);

// Recorded from two Linux kernels on a veth pair.
const std::vector<uint8_t> kLinuxSolicitation = transport::FromHex(
    "3333ff54210202c1e154210186dd6000000000203afffe8000000000000000c1e1fffe542101ff02"
    "00000000000000000001ff5421028700520100000000fe8000000000000000c1e1fffe5421020101"
    "02c1e1542101");
const std::vector<uint8_t> kLinuxAdvertisement = transport::FromHex(
    "02c1e154210102c1e154210286dd6000000000203afffe8000000000000000c1e1fffe542102fe80"
    "00000000000000c1e1fffe54210188000ec260000000fe8000000000000000c1e1fffe5421020201"
    "02c1e1542102");

NeighborMessage Solicitation() {
  return {.type = NeighborMessage::Type::kSolicitation,
          .source = kAsker,
          .destination = SolicitedNodeGid(kTarget),
          .target = kTarget,
          .link_layer_address = kAskerMac};
}

NeighborMessage Advertisement() {
  return {.type = NeighborMessage::Type::kAdvertisement,
          .source = kTarget,
          .destination = kAsker,
          .target = kTarget,
          .link_layer_address = kTargetMac,
          .is_solicited = true,
          .overrides = true};
}

std::vector<uint8_t> Emit(const NeighborMessage& message) {
  std::vector<uint8_t> frame(kMaxNeighborMessageBytes);
  frame.resize(EmitNeighborMessage(message, kAskerMac, kTargetMac, frame));
  return frame;
}

constexpr size_t kPayloadLengthOffset = 18;
constexpr size_t kHopLimitOffset = 21;
constexpr size_t kChecksumOffset = 56;
constexpr size_t kCodeOffset = 55;
constexpr size_t kOptionLengthOffset = 79;

// Changes one byte behind the addresses and mends the checksum (RFC 1624).
std::vector<uint8_t> WithByte(std::vector<uint8_t> frame, size_t offset, uint8_t value) {
  const int shift = offset % 2 == 0 ? 8 : 0;
  uint32_t checksum = frame[kChecksumOffset] << 8 | frame[kChecksumOffset + 1];
  checksum = (~checksum & 0xffff) + (~(uint32_t{frame[offset]} << shift) & 0xffff) +
             (uint32_t{value} << shift);
  while (checksum >> 16 != 0) checksum = (checksum & 0xffff) + (checksum >> 16);
  frame[offset] = value;
  frame[kChecksumOffset] = static_cast<uint8_t>(~checksum >> 8);
  frame[kChecksumOffset + 1] = static_cast<uint8_t>(~checksum);
  return frame;
}

TEST(NeighborDiscoveryTest, EmitsTheSolicitationOfLinux) {
  std::vector<uint8_t> frame(kMaxNeighborMessageBytes);
  const NeighborMessage message = Solicitation();
  EXPECT_EQ(EmitNeighborMessage(message, kAskerMac, Ipv6MulticastMac(message.destination), frame),
            kLinuxSolicitation.size());
  EXPECT_EQ(frame, kLinuxSolicitation);
}

TEST(NeighborDiscoveryTest, EmitsTheAdvertisementOfLinux) {
  std::vector<uint8_t> frame(kMaxNeighborMessageBytes);
  EXPECT_EQ(EmitNeighborMessage(Advertisement(), kTargetMac, kAskerMac, frame),
            kLinuxAdvertisement.size());
  EXPECT_EQ(frame, kLinuxAdvertisement);
}

TEST(NeighborDiscoveryTest, LinuxSolicitationAndAdvertisementAreParsed) {
  EXPECT_EQ(ParseNeighborMessage(kLinuxSolicitation), Solicitation());
  EXPECT_EQ(ParseNeighborMessage(kLinuxAdvertisement), Advertisement());
}

TEST(NeighborDiscoveryTest, EveryShorterFrameIsRefused) {
  for (size_t bytes = 0; bytes < kLinuxSolicitation.size(); ++bytes) {
    EXPECT_EQ(ParseNeighborMessage(std::span(kLinuxSolicitation).first(bytes)), std::nullopt);
  }
}

TEST(NeighborDiscoveryTest, EveryFlippedBitBehindTheEthernetHeaderMatters) {
  for (size_t bit = 14 * 8; bit < kLinuxAdvertisement.size() * 8; ++bit) {
    std::vector<uint8_t> frame = kLinuxAdvertisement;
    frame[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    // Traffic class and flow label mean nothing here, and no checksum covers them.
    const bool ignored = bit / 8 < kPayloadLengthOffset && !(bit / 8 == 14 && bit % 8 >= 4);
    EXPECT_EQ(ParseNeighborMessage(frame).has_value(), ignored) << "bit " << bit;
  }
}

// RFC 4861, 7.1.1: a router would have decremented it.
TEST(NeighborDiscoveryTest, HopLimitBelow255IsRefused) {
  std::vector<uint8_t> frame = kLinuxSolicitation;
  frame[kHopLimitOffset] = 254;  // not under the checksum
  EXPECT_EQ(ParseNeighborMessage(frame), std::nullopt);
}

TEST(NeighborDiscoveryTest, CodeOtherThanZeroIsRefused) {
  ASSERT_TRUE(ParseNeighborMessage(WithByte(kLinuxSolicitation, kCodeOffset, 0)).has_value());
  EXPECT_EQ(ParseNeighborMessage(WithByte(kLinuxSolicitation, kCodeOffset, 1)), std::nullopt);
}

TEST(NeighborDiscoveryTest, OptionsOfNoLengthOrBeyondTheEndAreRefused) {
  for (const uint8_t length : std::initializer_list<uint8_t>{0, 2, 255}) {
    EXPECT_EQ(ParseNeighborMessage(WithByte(kLinuxSolicitation, kOptionLengthOffset, length)),
              std::nullopt);
  }
}

TEST(NeighborDiscoveryTest, MulticastTargetIsRefused) {
  NeighborMessage message = Solicitation();
  message.target = kAllNodesGid;
  EXPECT_EQ(ParseNeighborMessage(Emit(message)), std::nullopt);
}

TEST(NeighborDiscoveryTest, SolicitedAdvertisementToAGroupIsRefused) {
  NeighborMessage message = Advertisement();
  message.destination = kAllNodesGid;
  EXPECT_EQ(ParseNeighborMessage(Emit(message)), std::nullopt);
  message.is_solicited = false;
  EXPECT_EQ(ParseNeighborMessage(Emit(message)), message);
}

TEST(NeighborDiscoveryTest, DuplicateAddressDetectionNamesNoLinkLayerAddress) {
  NeighborMessage message = Solicitation();
  message.source = Gid{};
  EXPECT_EQ(ParseNeighborMessage(Emit(message)), std::nullopt);
  message.link_layer_address.reset();
  EXPECT_EQ(ParseNeighborMessage(Emit(message)), message);
  message.destination = kTarget;  // must be the solicited-node group
  EXPECT_EQ(ParseNeighborMessage(Emit(message)), std::nullopt);
}

TEST(NeighborDiscoveryTest, GroupsAreThoseOfTheRfcs) {
  const Gid group = {{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0x54, 0x21, 0x02}};
  EXPECT_EQ(SolicitedNodeGid(kTarget), group);
  EXPECT_EQ(Ipv6MulticastMac(group), (MacAddress{0x33, 0x33, 0xff, 0x54, 0x21, 0x02}));
}

}  // namespace
}  // namespace uroce::nic
