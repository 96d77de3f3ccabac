#include "transport/memory/sge_cursor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace uroce::transport {
namespace {

constexpr PdId kPd{1};
constexpr uint64_t kIova = 0x7000'0000;
using Result = SgeCursor::Result;

class SgeCursorTest : public testing::Test {
 protected:
  SgeCursorTest() {
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<uint8_t>(i * 31 + i / 256);
  }

  LKey Register(uint32_t access) {
    return memory_
        .Register({.pd = kPd,
                   .iova = kIova,
                   .host_address = bytes_.data(),
                   .length = bytes_.size(),
                   .access = AccessFlags(access)})
        .value();
  }
  ScatterGatherEntry Entry(uint64_t offset, uint32_t length) {
    return {.address = kIova + offset, .length = length, .lkey = key_};
  }
  // The bytes that Gather finds; nullopt if it fails.
  std::optional<std::vector<uint8_t>> Gathered(SgeCursor& cursor, uint64_t offset, size_t length) {
    std::array<PayloadPiece, kMaxSges> pieces;
    const std::optional<size_t> count = cursor.Gather(memory_, kPd, offset, length, pieces);
    if (!count) return std::nullopt;
    std::vector<uint8_t> found;
    for (size_t i = 0; i < *count; ++i) {
      EXPECT_NE(0u, pieces[i].length);
      found.insert(found.end(), pieces[i].data, pieces[i].data + pieces[i].length);
    }
    return found;
  }
  // The bytes of the whole list.
  std::vector<uint8_t> Flat(const std::vector<ScatterGatherEntry>& list) {
    std::vector<uint8_t> flat;
    for (const ScatterGatherEntry& entry : list) {
      const auto begin = bytes_.begin() + static_cast<long>(entry.address - kIova);
      flat.insert(flat.end(), begin, begin + entry.length);
    }
    return flat;
  }
  // Up to kMaxSges entries without overlap; some of them empty.
  std::vector<ScatterGatherEntry> RandomList(std::mt19937& random) {
    std::vector<ScatterGatherEntry> list(random() % (kMaxSges + 1));
    uint64_t at = 0;
    for (ScatterGatherEntry& entry : list) {
      at += random() % 50;
      entry = Entry(at, random() % 3 == 0 ? 0 : static_cast<uint32_t>(random() % 200));
      at += entry.length;
    }
    std::shuffle(list.begin(), list.end(), random);
    return list;
  }

  std::vector<uint8_t> bytes_ = std::vector<uint8_t>(16'384);
  MemoryTable memory_;
  LKey key_ = Register(AccessFlags::kLocalWrite);
  LKey read_only_key_ = Register(0);
};

TEST_F(SgeCursorTest, TotalBytesDoesNotOverflow) {
  EXPECT_EQ(0u, TotalBytes({}));
  const std::vector<ScatterGatherEntry> list(kMaxSges, Entry(0, UINT32_MAX));
  EXPECT_EQ(uint64_t{kMaxSges} * UINT32_MAX, TotalBytes(list));
}

TEST_F(SgeCursorTest, GatherInSequence) {
  const std::vector<ScatterGatherEntry> list = {Entry(0, 0),   Entry(100, 30), Entry(500, 0),
                                                Entry(50, 20), Entry(9, 1),    Entry(0, 0)};
  const std::vector<uint8_t> flat = Flat(list);
  for (size_t step = 1; step <= flat.size(); ++step) {
    SgeCursor cursor(list);
    std::vector<uint8_t> all;
    for (size_t at = 0; at < flat.size(); at += step) {
      const auto part = Gathered(cursor, at, std::min(step, flat.size() - at));
      ASSERT_TRUE(part);
      all.insert(all.end(), part->begin(), part->end());
    }
    EXPECT_EQ(flat, all);
  }
}

TEST_F(SgeCursorTest, AnyOffsetInAnyOrderOfRandomLists) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const std::vector<ScatterGatherEntry> list = RandomList(random);
    const std::vector<uint8_t> flat = Flat(list);
    ASSERT_EQ(flat.size(), TotalBytes(list));
    SgeCursor cursor(list);
    for (int i = 0; i < 50; ++i) {
      const size_t offset = random() % (flat.size() + 1);
      const size_t length = random() % (flat.size() - offset + 1);
      const auto begin = flat.begin() + static_cast<long>(offset);
      ASSERT_EQ(std::vector<uint8_t>(begin, begin + static_cast<long>(length)),
                Gathered(cursor, offset, length));
    }
  }
}

// A peer's raw frame may be longer than what lies at the address of a null region.
TEST_F(SgeCursorTest, PartsInANullRegionAreLostAndReadAsZeros) {
  constexpr uint32_t kLong = 2 * MemoryTable::kNullBytes;
  const LKey null_key = *memory_.RegisterNull(kPd);
  const std::vector<ScatterGatherEntry> list = {
      Entry(0, 10), {0x7777, kLong, null_key}, Entry(100, 10)};
  const std::vector<uint8_t> message(kLong + 20, 0x5a);
  std::ranges::fill(bytes_, 0);
  SgeCursor cursor(list);
  EXPECT_EQ(SgeCursor::Result::kOk, cursor.Scatter(memory_, kPd, 0, message));
  EXPECT_EQ(20, std::ranges::count(bytes_, 0x5a));
  uint8_t* const lost = memory_.LocalAddress(kPd, null_key, 0, 1, AccessFlags::kLocalWrite);
  EXPECT_TRUE(std::all_of(lost, lost + MemoryTable::kNullBytes, [](uint8_t b) { return b == 0; }));

  const auto gathered = Gathered(cursor, 5, MemoryTable::kNullBytes);
  ASSERT_TRUE(gathered);
  EXPECT_EQ(5, std::ranges::count(*gathered, 0x5a));
  EXPECT_EQ(MemoryTable::kNullBytes - 5, std::ranges::count(*gathered, 0));
}

TEST_F(SgeCursorTest, ScatterAtAnyOffsetOfRandomLists) {
  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    const std::vector<ScatterGatherEntry> list = RandomList(random);
    std::vector<uint8_t> flat = Flat(list);
    SgeCursor cursor(list);
    for (int i = 0; i < 20; ++i) {
      const size_t offset = random() % (flat.size() + 1);
      std::vector<uint8_t> bytes(random() % (flat.size() - offset + 1));
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
      std::ranges::copy(bytes, flat.begin() + static_cast<long>(offset));
      const std::vector<uint8_t> before = bytes_;
      ASSERT_EQ(Result::kOk, cursor.Scatter(memory_, kPd, offset, bytes));
      ASSERT_EQ(flat, Flat(list));
      // Only bytes of the list were written.
      size_t changed = 0;
      for (size_t at = 0; at < bytes_.size(); ++at) changed += bytes_[at] != before[at] ? 1u : 0u;
      ASSERT_LE(changed, bytes.size());
    }
  }
}

TEST_F(SgeCursorTest, NothingNeedsNoEntryAndNoKey) {
  SgeCursor empty;
  EXPECT_EQ(std::vector<uint8_t>(), Gathered(empty, 0, 0));
  EXPECT_EQ(Result::kOk, empty.Scatter(memory_, kPd, 0, {}));
  const std::vector<ScatterGatherEntry> list = {{.address = 1, .length = 0, .lkey = LKey{0xbad}},
                                                Entry(3, 4)};
  SgeCursor cursor(list);
  EXPECT_EQ(Flat({Entry(3, 4)}), Gathered(cursor, 0, 4));
}

TEST_F(SgeCursorTest, BeyondTheListIsTooShortAndWritesNothing) {
  const std::vector<ScatterGatherEntry> list = {Entry(0, 10), Entry(20, 10)};
  const std::vector<uint8_t> before = bytes_;
  const std::vector<uint8_t> received(21, 0xee);
  SgeCursor cursor(list);
  EXPECT_EQ(Result::kTooShort, cursor.Scatter(memory_, kPd, 0, received));
  EXPECT_EQ(Result::kTooShort, cursor.Scatter(memory_, kPd, 20, {received.data(), 1}));
  EXPECT_EQ(Result::kTooShort, cursor.Scatter(memory_, kPd, UINT64_MAX, {received.data(), 1}));
  EXPECT_EQ(std::nullopt, Gathered(cursor, 0, 21));
  EXPECT_EQ(before, bytes_);
  EXPECT_EQ(Result::kOk, cursor.Scatter(memory_, kPd, 0, {received.data(), 20}));
}

// The region is longer than the entry.
TEST_F(SgeCursorTest, OnlyEntryIsNotReadBeyondItsEnd) {
  const std::vector<ScatterGatherEntry> list = {Entry(0, 20)};
  SgeCursor cursor(list);
  EXPECT_EQ(Flat(list), Gathered(cursor, 0, 20));
  EXPECT_EQ(std::nullopt, Gathered(cursor, 0, 21));
  EXPECT_EQ(std::nullopt, Gathered(cursor, 19, 2));
  EXPECT_EQ(std::nullopt, Gathered(cursor, 20, 1));
}

TEST_F(SgeCursorTest, EveryTouchedEntryIsChecked) {
  const std::vector<uint8_t> received(30, 0xee);
  const std::vector<ScatterGatherEntry> wrong_entries = {
      {.address = kIova, .length = 10, .lkey = LKey{0xbad00}},
      {.address = kIova - 1, .length = 10, .lkey = key_},
      {.address = kIova + bytes_.size() - 9, .length = 10, .lkey = key_},
      {.address = UINT64_MAX - 4, .length = 10, .lkey = key_},
  };
  for (const ScatterGatherEntry& wrong : wrong_entries) {
    const std::vector<ScatterGatherEntry> list = {Entry(0, 10), wrong, Entry(20, 10)};
    const std::vector<uint8_t> before = bytes_;
    SgeCursor cursor(list);
    EXPECT_EQ(Result::kProtectionError, cursor.Scatter(memory_, kPd, 0, received));
    EXPECT_EQ(std::nullopt, Gathered(cursor, 0, 30));
    EXPECT_EQ(before, bytes_);
    // The other entries are usable as long as the wrong one is not reached.
    EXPECT_EQ(Result::kOk, cursor.Scatter(memory_, kPd, 0, {received.data(), 10}));
    EXPECT_TRUE(Gathered(cursor, 20, 10));
  }
}

TEST_F(SgeCursorTest, ScatterNeedsLocalWriteAndGatherDoesNot) {
  const std::vector<ScatterGatherEntry> list = {
      {.address = kIova, .length = 10, .lkey = read_only_key_}};
  SgeCursor cursor(list);
  EXPECT_EQ(Flat({Entry(0, 10)}), Gathered(cursor, 0, 10));
  EXPECT_EQ(Result::kProtectionError,
            cursor.Scatter(memory_, kPd, 0, std::vector<uint8_t>(10, 0xee)));
}

TEST_F(SgeCursorTest, RegionDeregisteredInTheMiddleOfAMessageIsNoticed) {
  const std::vector<ScatterGatherEntry> list = {Entry(0, 100)};
  SgeCursor cursor(list);
  EXPECT_TRUE(Gathered(cursor, 0, 50));
  ASSERT_EQ(Status::kOk, memory_.Deregister(key_));
  EXPECT_EQ(std::nullopt, Gathered(cursor, 50, 50));
}

}  // namespace
}  // namespace uroce::transport
