#include "transport/recovery/reorder_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace uroce::transport {
namespace {

constexpr uint32_t kPayload = 64;

std::vector<uint8_t> PayloadFor(Psn psn, size_t bytes = kPayload) {
  std::vector<uint8_t> payload(bytes);
  std::iota(payload.begin(), payload.end(), static_cast<uint8_t>(psn.value()));
  return payload;
}

bool Hold(ReorderBuffer& buffer, Psn psn, Time now = {}) {
  const std::vector<uint8_t> payload = PayloadFor(psn);
  Packet packet;
  packet.psn = psn;
  packet.payload = payload;
  return buffer.Hold(packet, now);
}

std::vector<uint32_t> TakeAll(ReorderBuffer& buffer) {
  std::vector<uint32_t> psns;
  for (; !buffer.empty(); buffer.PopFront()) {
    Packet packet;
    buffer.ReadFront(packet);
    EXPECT_EQ(packet.psn, buffer.front_psn());
    EXPECT_TRUE(std::ranges::equal(packet.payload, PayloadFor(packet.psn)));
    psns.push_back(packet.psn.value());
  }
  return psns;
}

TEST(ReorderBufferTest, PacketsComeOutByPsnWhateverTheirOrderWas) {
  ReorderPool pool(64, kPayload);
  ReorderBuffer buffer(pool);
  for (const uint32_t psn : {5u, 9u, 7u, 0u, 0xfffffeu, 6u}) EXPECT_TRUE(Hold(buffer, Psn(psn)));
  EXPECT_EQ(buffer.size(), 6u);
  EXPECT_EQ(TakeAll(buffer), (std::vector<uint32_t>{0xfffffe, 0, 5, 6, 7, 9}));
  EXPECT_EQ(pool.free_cells(), 64u);
}

TEST(ReorderBufferTest, PacketIsHeldOnceWithTheTimeOfItsFirstArrival) {
  ReorderPool pool(64, kPayload);
  ReorderBuffer buffer(pool);
  EXPECT_TRUE(Hold(buffer, Psn(3), {10}));
  EXPECT_FALSE(Hold(buffer, Psn(3), {20}));
  EXPECT_TRUE(Hold(buffer, Psn(2), {30}));
  EXPECT_FALSE(Hold(buffer, Psn(3), {40}));
  EXPECT_EQ(buffer.front_arrival(), Time{30});
  buffer.PopFront();
  EXPECT_EQ(buffer.front_arrival(), Time{10});
}

TEST(ReorderBufferTest, QueuePairHoldsAsManyPacketsAsCellsAreFree) {
  ReorderPool pool(6, kPayload);
  ReorderBuffer first(pool);
  ReorderBuffer second(pool);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(Hold(first, Psn(i)));
  EXPECT_FALSE(Hold(first, Psn(3)));
  EXPECT_TRUE(Hold(second, Psn(0)));
  EXPECT_TRUE(Hold(second, Psn(1)));
  EXPECT_FALSE(Hold(second, Psn(2)));
  first.Clear();
  EXPECT_TRUE(Hold(second, Psn(2)));
}

TEST(ReorderBufferTest, WhateverArrivesWithinTheRoomIsHeld) {
  ReorderPool pool(21, kPayload);
  ReorderBuffer buffer(pool);
  EXPECT_EQ(buffer.RoomFrom(Psn(100)), 1u + 10);
  for (uint32_t i = 0; i < 5; ++i) EXPECT_TRUE(Hold(buffer, Psn(103 + i)));
  const uint32_t room = buffer.RoomFrom(Psn(100));
  EXPECT_EQ(room, 8u + 5);
  for (uint32_t i = 8; i < room; ++i) EXPECT_TRUE(Hold(buffer, Psn(100 + i)));
}

TEST(ReorderBufferTest, EachPacketIsVisitedInOrder) {
  ReorderPool pool(64, kPayload);
  ReorderBuffer buffer(pool);
  for (const uint32_t psn : {5u, 9u, 7u}) EXPECT_TRUE(Hold(buffer, Psn(psn)));
  std::vector<uint32_t> psns;
  buffer.ForEach([&](Psn psn) { psns.push_back(psn.value()); });
  EXPECT_EQ(psns, (std::vector<uint32_t>{5, 7, 9}));
}

TEST(ReorderBufferTest, LongerPacketsThanThePortCarriesAreNotHeld) {
  ReorderPool pool(6, kPayload);
  ReorderBuffer buffer(pool);
  const std::vector<uint8_t> payload = PayloadFor(Psn(1), kPayload + 1);
  Packet packet;
  packet.payload = payload;
  EXPECT_FALSE(buffer.Hold(packet, {}));
}

TEST(ReorderBufferTest, EmptyPoolHoldsNothing) {
  ReorderPool pool(0, kPayload);
  ReorderBuffer buffer(pool);
  EXPECT_FALSE(Hold(buffer, Psn(1)));
  EXPECT_TRUE(buffer.empty());
}

TEST(ReorderBufferTest, PacketsBeforeAPsnAreForgotten) {
  ReorderPool pool(64, kPayload);
  ReorderBuffer buffer(pool);
  for (const uint32_t psn : {2u, 3u, 5u}) EXPECT_TRUE(Hold(buffer, Psn(psn)));
  buffer.DropBefore(Psn(3));
  EXPECT_EQ(TakeAll(buffer), (std::vector<uint32_t>{3, 5}));
  buffer.DropBefore(Psn(9));
}

TEST(ReorderBufferTest, CellsComeBackWhenTheQueuePairGoes) {
  ReorderPool pool(8, kPayload);
  {
    ReorderBuffer buffer(pool);
    EXPECT_TRUE(Hold(buffer, Psn(1)));
    EXPECT_TRUE(Hold(buffer, Psn(2)));
    EXPECT_EQ(pool.free_cells(), 6u);
  }
  EXPECT_EQ(pool.free_cells(), 8u);
}

TEST(ReorderBufferTest, ManyBuffersInAnyOrder) {
  std::mt19937 random(1);
  ReorderPool pool(4'000, kPayload);
  std::vector<std::unique_ptr<ReorderBuffer>> buffers;
  for (int i = 0; i < 4; ++i) buffers.push_back(std::make_unique<ReorderBuffer>(pool));
  for (int round = 0; round < 20; ++round) {
    std::vector<uint32_t> psns(100);
    std::iota(psns.begin(), psns.end(), 1'000u);
    for (const auto& buffer : buffers) {
      std::ranges::shuffle(psns, random);
      for (const uint32_t psn : psns) EXPECT_TRUE(Hold(*buffer, Psn(psn)));
    }
    std::ranges::sort(psns);
    for (const auto& buffer : buffers) EXPECT_EQ(TakeAll(*buffer), psns);
    EXPECT_EQ(pool.free_cells(), 4'000u);
  }
}

}  // namespace
}  // namespace uroce::transport
