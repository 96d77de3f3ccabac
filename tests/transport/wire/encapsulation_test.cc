#include "transport/wire/encapsulation.h"

#include <gtest/gtest.h>

#include <vector>

#include "transport/wire/frame_builder.h"
#include "transport/wire/opcode.h"

namespace uroce::transport {
namespace {

std::vector<uint8_t> GoodFrame() {
  const FrameBuilder builder({2, 0, 0, 0, 0, 1}, Gid::FromIpv4({10, 0, 0, 1}),
                             {.destination_gid = Gid::FromIpv4({10, 0, 0, 2})}, 0xc123);
  TransportHeaders headers;
  headers.opcode = *ParseOpcode(kRcSendOnly);
  std::vector<uint8_t> frame(kMaxFrameBytes);
  frame.resize(builder.Emit(headers, {}, frame));
  return frame;
}

bool IsPacket(std::span<const uint8_t> frame) {
  std::vector<uint8_t> bytes(kMaxFrameBytes);
  Flow flow;
  flow.destination = Gid::FromIpv4({10, 0, 0, 3});
  FrameRoom room(bytes);
  room.flow = &flow;
  CopyFrame(frame, room);
  return !flow.destination.IsZero();
}

TEST(CopyFrameTest, FrameThatIsNoWholePacketHasNoDestination) {
  const std::vector<uint8_t> good = GoodFrame();
  ASSERT_TRUE(IsPacket(good));
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_FALSE(IsPacket(std::span(good).first(bytes))) << bytes;
  }
  for (size_t byte = 12; byte < 34; ++byte) {  // the checksum of the IP header notices
    std::vector<uint8_t> damaged = good;
    damaged[byte] ^= 4;
    EXPECT_FALSE(IsPacket(damaged)) << byte;
  }
  for (size_t byte : {36u, 37u, 38u, 39u}) {  // destination port and length
    std::vector<uint8_t> damaged = good;
    damaged[byte] ^= 4;
    EXPECT_FALSE(IsPacket(damaged)) << byte;
  }
  std::vector<uint8_t> longer = good;
  longer.push_back(0);
  EXPECT_FALSE(IsPacket(longer));
  std::vector<uint8_t> arp(60, 0);
  arp[12] = 8;
  arp[13] = 6;
  EXPECT_FALSE(IsPacket(arp));
}

TEST(CopyFrameTest, EthernetRoomTakesAnyFrame) {
  const std::vector<uint8_t> arp(60, 6);
  std::vector<uint8_t> bytes(60);
  CopyFrame(arp, FrameRoom(bytes));
  EXPECT_EQ(bytes, arp);
}

}  // namespace
}  // namespace uroce::transport
