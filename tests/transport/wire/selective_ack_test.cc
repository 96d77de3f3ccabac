#include "transport/wire/selective_ack.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

namespace uroce::transport {
namespace {

using Bytes = std::array<uint8_t, SelectiveAck::kMaxBytes>;

std::vector<uint32_t> Kept(std::span<const uint8_t> payload) {
  std::vector<uint32_t> kept;
  SelectiveAckView::Parse(payload)->ForEach([&](uint32_t distance) { kept.push_back(distance); });
  return kept;
}

TEST(SelectiveAckTest, BitsAreCutBehindTheLast) {
  Bytes bytes;
  SelectiveAck ack(bytes, 0x1234, 1'024);
  EXPECT_EQ(ack.length(), 4u);
  EXPECT_TRUE(ack.Add(1));
  EXPECT_EQ(ack.length(), 8u);
  EXPECT_TRUE(ack.Add(10));
  EXPECT_TRUE(ack.Add(32));
  EXPECT_EQ(ack.length(), 8u);
  const std::vector<uint8_t> expected = {0x12, 0x34, 0, 0, 0x80, 0x40, 0, 0x01};
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin(), bytes.begin() + 8), expected);
  EXPECT_TRUE(ack.Add(33));
  EXPECT_EQ(ack.length(), 12u);
  EXPECT_EQ(bytes[8], 0x80);
}

TEST(SelectiveAckTest, RoomAndDistancesHaveBounds) {
  Bytes bytes;
  SelectiveAck ack(bytes, 100'000, 1'024);
  EXPECT_FALSE(ack.Add(0));
  EXPECT_FALSE(ack.Add(SelectiveAck::kMaxBits + 1));
  EXPECT_EQ(ack.length(), 4u);
  EXPECT_TRUE(ack.Add(SelectiveAck::kMaxBits));
  EXPECT_EQ(ack.length(), SelectiveAck::kMaxBytes);
  EXPECT_EQ(SelectiveAckView::Parse(bytes)->room, 0xffffu);
  EXPECT_EQ(Kept(bytes), std::vector<uint32_t>{SelectiveAck::kMaxBits});
}

TEST(SelectiveAckTest, FitsIntoThePathMtu) {
  std::array<uint8_t, SelectiveAck::kMaxBytes> bytes;
  SelectiveAck ack(bytes, 1, 256);
  EXPECT_TRUE(ack.Add(252 * 8));
  EXPECT_FALSE(ack.Add(252 * 8 + 1));
  EXPECT_EQ(ack.length(), 256u);
}

TEST(SelectiveAckTest, WhatIsWrittenIsRead) {
  std::mt19937 random(7);
  const auto below = [&random](uint32_t end) { return static_cast<uint32_t>(random() % end); };
  for (uint32_t round = 0; round < 200; ++round) {
    Bytes bytes;
    SelectiveAck ack(bytes, round, 1'024);
    std::vector<uint32_t> kept;
    for (uint32_t distance = 1 + below(9); distance < 500; distance += 1 + below(40)) {
      ASSERT_TRUE(ack.Add(distance));
      kept.push_back(distance);
    }
    const auto payload = std::span(bytes).first(ack.length());
    EXPECT_EQ(SelectiveAckView::Parse(payload)->room, round);
    EXPECT_EQ(Kept(payload), kept);
  }
}

TEST(SelectiveAckTest, WrongLengthsAreRefused) {
  const std::vector<uint8_t> bytes(SelectiveAck::kMaxBytes + 4);
  for (size_t length = 0; length <= bytes.size(); ++length) {
    const bool is_right = length >= 4 && length % 4 == 0 && length <= SelectiveAck::kMaxBytes;
    EXPECT_EQ(SelectiveAckView::Parse(std::span(bytes).first(length)).has_value(), is_right);
  }
}

}  // namespace
}  // namespace uroce::transport
