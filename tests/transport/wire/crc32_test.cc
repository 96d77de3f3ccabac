#include "transport/wire/crc32.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/transport/fault_handler.h"
#include "transport/wire/crc32_kernels.h"

namespace uroce::transport {
namespace {

// The definition, one bit at a time: every kernel is compared with it.
uint32_t Reference(uint32_t state, const uint8_t* data, size_t length) {
  for (size_t i = 0; i < length; ++i) {
    state ^= data[i];
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) * 0xedb8'8320u);
  }
  return state;
}

std::vector<uint8_t> RandomBytes(size_t length) {
  std::mt19937 random(7);
  std::vector<uint8_t> bytes(length);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// Two pages, the second of which is inaccessible: bytes before `end()` can be used, a single byte
// beyond is a crash.
class GuardedPage {
 public:
  GuardedPage()
      : page_bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))),
        base_(static_cast<uint8_t*>(mmap(nullptr, 2 * page_bytes_, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    mprotect(end(), page_bytes_, PROT_NONE);
  }
  ~GuardedPage() { munmap(base_, 2 * page_bytes_); }
  GuardedPage(const GuardedPage&) = delete;
  GuardedPage& operator=(const GuardedPage&) = delete;
  uint8_t* end() const { return base_ + page_bytes_; }

 private:
  size_t page_bytes_;
  uint8_t* base_;
};

class Crc32Test : public testing::TestWithParam<const Crc32Kernel*> {
 protected:
  void SetUp() override {
    if (GetParam() == nullptr) GTEST_SKIP() << "not on this processor";
  }
  const Crc32Kernel& kernel() const { return *GetParam(); }
  uint32_t CopyAndUpdate(uint32_t state, uint8_t* to, const uint8_t* from, size_t length) const {
    EXPECT_TRUE(kernel().copy_and_update(state, to, from, length));
    return state;
  }
};

TEST_P(Crc32Test, KnownVectors) {
  const auto checksum = [&](std::string_view text) {
    return ~kernel().update(kCrc32Initial, reinterpret_cast<const uint8_t*>(text.data()),
                            text.size());
  };
  EXPECT_EQ(0x0000'0000u, checksum(""));
  EXPECT_EQ(0xe8b7'be43u, checksum("a"));
  EXPECT_EQ(0xcbf4'3926u, checksum("123456789"));  // the check value of CRC-32/ISO-HDLC
  EXPECT_EQ(0x414f'a339u, checksum("The quick brown fox jumps over the lazy dog"));
  EXPECT_EQ(0x190a'55adu, checksum(std::string(32, '\0')));
  EXPECT_EQ(0xff6c'ab0bu, checksum(std::string(32, '\xff')));
}

TEST_P(Crc32Test, EveryLengthAndAlignmentAgreesWithTheDefinition) {
  const std::vector<uint8_t> data = RandomBytes(700);
  for (size_t alignment = 0; alignment < 64; ++alignment) {
    uint32_t expected = 0x1234'5678;
    for (size_t length = 0; length <= 600; ++length) {
      const uint8_t* start = data.data() + alignment;
      ASSERT_EQ(expected, kernel().update(0x1234'5678, start, length))
          << length << " bytes at " << alignment;
      expected = Reference(expected, start + length, 1);
    }
  }
}

TEST_P(Crc32Test, CopyWritesExactlyTheBytesItWasGiven) {
  const std::vector<uint8_t> data = RandomBytes(700);
  constexpr uint8_t kUntouched = 0xa5;
  for (size_t alignment = 0; alignment < 64; alignment += 3) {
    for (size_t length = 0; length <= 600; ++length) {
      const uint8_t* source = data.data() + (alignment * 7) % 64;
      std::vector<uint8_t> destination(800, kUntouched);
      uint8_t* start = destination.data() + alignment;
      ASSERT_EQ(kernel().update(7, source, length), CopyAndUpdate(7, start, source, length));
      ASSERT_EQ(0, std::memcmp(source, start, length));
      for (size_t i = 0; i < alignment; ++i) ASSERT_EQ(kUntouched, destination[i]);
      for (size_t i = alignment + length; i < 800; ++i) ASSERT_EQ(kUntouched, destination[i]);
    }
  }
}

TEST_P(Crc32Test, MaskSetsBitsOfTheFirstBytesOnly) {
  const std::vector<uint8_t> data = RandomBytes(700);
  std::mt19937 random(11);
  Crc32Mask mask;
  for (uint8_t& byte : mask) byte = static_cast<uint8_t>(random());
  for (size_t alignment = 0; alignment < 64; alignment += 7) {
    std::vector<uint8_t> masked(data.begin() + static_cast<long>(alignment), data.end());
    for (size_t i = 0; i < mask.size(); ++i) masked[i] |= mask[i];
    for (size_t length = 0; length <= 600; ++length) {
      ASSERT_EQ(kernel().update(5, masked.data(), length),
                kernel().update_masked(5, data.data() + alignment, length, mask))
          << length << " bytes at " << alignment;
    }
  }
}

TEST_P(Crc32Test, MemoryBeyondTheEndIsNotTouched) {
  const GuardedPage source;
  const GuardedPage destination;
  for (size_t length = 0; length <= 600; ++length) {
    uint8_t* from = source.end() - length;
    std::memset(from, static_cast<int>(length), length);
    const uint32_t expected = Reference(3, from, length);
    ASSERT_EQ(expected, kernel().update(3, from, length));
    ASSERT_EQ(expected, CopyAndUpdate(3, destination.end() - length, from, length));
    ASSERT_EQ(expected, kernel().update_masked(3, from, length, Crc32Mask{}));
  }
}

// Wherever in the source the inaccessible memory begins.
TEST_P(Crc32Test, CopyOfMemoryThatHasGoneFails) {
  const FaultHandler handler;
  const GuardedPage source;
  std::vector<uint8_t> destination(5000);
  for (size_t length = 1; length <= 600; ++length) {
    for (size_t missing = 1; missing <= length; missing += missing < 4 ? 1 : length / 4 + 1) {
      uint32_t state = 3;
      ASSERT_FALSE(kernel().copy_and_update(state, destination.data(),
                                            source.end() - length + missing, length))
          << missing << " bytes of " << length;
    }
  }
}

TEST_P(Crc32Test, PiecesChain) {
  const std::vector<uint8_t> data = RandomBytes(5000);
  const uint32_t expected = Reference(kCrc32Initial, data.data(), data.size());
  std::mt19937 random(9);
  for (int round = 0; round < 300; ++round) {
    std::vector<uint8_t> copy(data.size());
    uint32_t state = kCrc32Initial;
    for (size_t at = 0; at < data.size();) {
      const size_t limit = round % 2 == 0 ? 1500 : 20;
      const size_t length = std::min<size_t>(random() % limit, data.size() - at);
      state = CopyAndUpdate(state, copy.data() + at, data.data() + at, length);
      at += length;
    }
    ASSERT_EQ(expected, state);
    ASSERT_EQ(data, copy);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Crc32Test,
                         testing::Values(&PortableCrc32Kernel(), PclmulCrc32Kernel(),
                                         Avx512Crc32Kernel(), &BestCrc32Kernel()),
                         [](const auto& kernel) {
                           const std::string index = std::to_string(kernel.index);
                           return kernel.param == nullptr ? "absent" + index
                                                          : std::string(kernel.param->name) + index;
                         });

}  // namespace
}  // namespace uroce::transport
