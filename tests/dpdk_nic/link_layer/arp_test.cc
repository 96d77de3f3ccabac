#include "dpdk_nic/link_layer/arp.h"

#include <gtest/gtest.h>

#include <vector>

namespace uroce::nic {
namespace {

constexpr ArpPacket kRequest = {
    .operation = ArpPacket::Operation::kRequest,
    .sender_mac = {0x02, 0, 0, 0, 0, 0x0a},
    .sender_ip = {192, 0, 2, 1},
    .target_mac = {},
    .target_ip = {192, 0, 2, 2},
};

// As Linux sends it: "who has 192.0.2.2, tell 192.0.2.1".
const std::vector<uint8_t> kRequestBytes = {
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0x00, 0x00, 0x00, 0x00, 0x0a, 0x08, 0x06,  //
    0x00, 0x01, 0x08, 0x00, 0x06, 0x04, 0x00, 0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x0a,  //
    0xc0, 0x00, 0x02, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xc0, 0x00, 0x02, 0x02,
};

TEST(ArpTest, EmitsTheBytesOfRfc826) {
  std::vector<uint8_t> frame(kArpFrameBytes);
  EXPECT_EQ(EmitArp(kRequest, kBroadcastMac, frame), kArpFrameBytes);
  EXPECT_EQ(frame, kRequestBytes);
}

TEST(ArpTest, EmittedRequestIsParsed) { EXPECT_EQ(ParseArp(kRequestBytes), kRequest); }

TEST(ArpTest, EthernetPaddingIsIgnored) {
  std::vector<uint8_t> frame = kRequestBytes;
  frame.resize(60, 0xee);
  EXPECT_EQ(ParseArp(frame), kRequest);
}

TEST(ArpTest, EveryShorterFrameIsRefused) {
  for (size_t bytes = 0; bytes < kArpFrameBytes; ++bytes) {
    EXPECT_EQ(ParseArp(std::span(kRequestBytes).first(bytes)), std::nullopt) << bytes;
  }
}

TEST(ArpTest, OtherProtocolsLengthsAndOperationsAreRefused) {
  // Ethertype, hardware, protocol, both lengths, operation.
  for (size_t offset : {12, 13, 14, 15, 16, 17, 18, 19, 20}) {
    std::vector<uint8_t> frame = kRequestBytes;
    frame[offset] ^= 0x40;
    EXPECT_EQ(ParseArp(frame), std::nullopt) << offset;
  }
  std::vector<uint8_t> frame = kRequestBytes;
  frame[21] = 3;  // reverse ARP
  EXPECT_EQ(ParseArp(frame), std::nullopt);
}

}  // namespace
}  // namespace uroce::nic
