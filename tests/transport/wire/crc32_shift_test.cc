#include "transport/wire/crc32_shift.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "transport/wire/crc32.h"

namespace uroce::transport {
namespace {

uint32_t Checksum(const std::vector<uint8_t>& message) {
  return ~Crc32Update(kCrc32Initial, message.data(), message.size());
}

TEST(Crc32ShiftTest, ChangedBytesChangeTheChecksumAsForetold) {
  std::mt19937 random(1);
  for (size_t length : {4u, 8u, 60u, 1'052u, 4'188u, 4'352u}) {
    std::vector<uint8_t> message(length);
    for (uint8_t& byte : message) byte = static_cast<uint8_t>(random());
    const uint32_t before = Checksum(message);
    for (size_t place = 0; place < length; place += 4 * (1 + random() % 64)) {
      const auto difference = static_cast<uint32_t>(random());
      std::vector<uint8_t> changed = message;
      for (size_t i = 0; i < 4; ++i) {
        changed[place + i] = static_cast<uint8_t>(changed[place + i] ^ difference >> (8 * i));
      }
      const uint32_t change = before ^ Checksum(changed);
      EXPECT_EQ(AdvanceCrc32(difference, length - place), change) << length << " " << place;
      EXPECT_EQ(RewindCrc32(change, length - place), difference) << length << " " << place;
    }
  }
}

TEST(Crc32ShiftTest, NothingStaysNothing) {
  EXPECT_EQ(AdvanceCrc32(0, 100), 0u);
  EXPECT_EQ(RewindCrc32(0, 100), 0u);
}

}  // namespace
}  // namespace uroce::transport
