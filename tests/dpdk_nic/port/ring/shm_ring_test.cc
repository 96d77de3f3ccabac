#include "dpdk_nic/port/ring/shm_ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "dpdk_nic/port/ring/ring_memory.h"

namespace uroce::nic {
namespace {

// Both ends of one ring, each with a mapping of its own as two processes have.
class ShmRingTest : public ::testing::Test {
 protected:
  ShmRingTest()
      : memory_(RingMemory::Create()),
        peer_memory_(RingMemory::Open(UniqueFd(dup(memory_->fd())))),
        producer_(memory_->ring(0)),
        consumer_(peer_memory_->ring(0)) {}

  bool Send(std::span<const uint8_t> frame) {
    const std::span<uint8_t> room = producer_.Acquire();
    if (room.empty()) return false;
    std::copy(frame.begin(), frame.end(), room.begin());
    producer_.Commit(frame.size());
    return true;
  }
  bool Send(uint8_t value, size_t frame_bytes = 62) {
    return Send(std::vector<uint8_t>(frame_bytes, value));
  }
  std::vector<uint8_t> Take() {
    const std::span<const uint8_t> frame = consumer_.Receive();
    std::vector<uint8_t> copy(frame.begin(), frame.end());
    if (!copy.empty()) consumer_.Release();
    return copy;
  }
  // Writes a slot word as a hostile peer could.
  void WriteWord(uint64_t position, uint16_t bits) {
    memcpy(memory_->ring(0).slot(position), &bits, sizeof bits);
  }

  std::unique_ptr<RingMemory> memory_;
  std::unique_ptr<RingMemory> peer_memory_;
  FrameProducer producer_;
  FrameConsumer consumer_;
};

TEST_F(ShmRingTest, NothingCommittedNothingReceived) {
  EXPECT_TRUE(consumer_.Receive().empty());
  ASSERT_FALSE(producer_.Acquire().empty());
  producer_.Acquire()[0] = 1;  // acquired, even written, but not committed
  EXPECT_TRUE(consumer_.Receive().empty());
}

TEST_F(ShmRingTest, AcquireAgainGivesTheSameRoom) {
  const auto first = producer_.Acquire();
  EXPECT_EQ(first.data(), producer_.Acquire().data());
  EXPECT_GE(first.size(), 4'224u);
}

TEST_F(ShmRingTest, FramesOfEverySizeArriveInOrderOverManyLaps) {
  std::mt19937 random(1);
  for (uint32_t i = 0; i < 10 * kSlots; ++i) {
    std::vector<uint8_t> frame(1 + random() % 4'224);
    std::iota(frame.begin(), frame.end(), static_cast<uint8_t>(i));
    ASSERT_TRUE(Send(frame));
    ASSERT_EQ(Take(), frame) << "frame " << i;
  }
}

TEST_F(ShmRingTest, FullRingTakesNothingUntilTheConsumerReleases) {
  for (uint32_t i = 0; i < kSlots; ++i) ASSERT_TRUE(Send(static_cast<uint8_t>(i)));
  EXPECT_FALSE(Send(0));
  EXPECT_FALSE(producer_.broken());

  EXPECT_EQ(Take()[0], 0);
  consumer_.PublishPosition();
  EXPECT_TRUE(Send(77));
  EXPECT_FALSE(Send(0));
  for (uint32_t i = 1; i < kSlots; ++i) ASSERT_EQ(Take()[0], static_cast<uint8_t>(i));
  EXPECT_EQ(Take()[0], 77);
  EXPECT_TRUE(Take().empty());
}

// Consecutive frames are never in neighbouring slots, which a hardware prefetcher would follow.
TEST_F(ShmRingTest, EachFrameOfALapHasASlotOfItsOwnFarFromTheOneBefore) {
  const Ring ring = memory_->ring(0);
  std::set<const uint8_t*> slots;
  for (uint64_t position = 0; position < kSlots; ++position) {
    slots.insert(ring.slot(position));
    EXPECT_GT(std::abs(ring.slot(position + 1) - ring.slot(position)), ptrdiff_t{16 * kSlotBytes});
  }
  EXPECT_EQ(slots.size(), kSlots);
  EXPECT_EQ(*slots.begin(), ring.slots);
  EXPECT_EQ(*slots.rbegin(), ring.slots + (kSlots - 1) * kSlotBytes);
  EXPECT_EQ(ring.slot(kSlots), ring.slot(0)) << "the next lap";
}

TEST_F(ShmRingTest, SmallFramesTakeOneCacheLine) {
  Send(1);
  Send(2);
  EXPECT_EQ(consumer_.Receive().data(), peer_memory_->ring(0).slot(0) + 2);
}

TEST_F(ShmRingTest, PayloadOfLargeFramesIsAligned) {
  constexpr size_t kHeaderBytes = 16;  // of a bare frame
  Send(1, 4'000);
  Take();
  Send(2, 4'000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(consumer_.Receive().data() + kHeaderBytes) % 64, 0u);
}

TEST_F(ShmRingTest, WriteOf64BytesFillsTwoCacheLines) {
  constexpr size_t kFrameBytes = 16 + 16 + 64;  // mark and BTH, RETH, payload
  Send(1, kFrameBytes);
  Take();
  Send(2, kFrameBytes);
  const auto begin = reinterpret_cast<uintptr_t>(consumer_.Receive().data());
  EXPECT_EQ((begin + kFrameBytes - 1) / 64 - begin / 64, 1u);
}

TEST_F(ShmRingTest, LengthBeyondTheSlotIsRefused) {
  WriteWord(0, SlotWord(kSlotBytes - 1, SlotWord::kNearOffset, 0).bits());
  EXPECT_TRUE(consumer_.Receive().empty());
  EXPECT_TRUE(consumer_.broken());
}

TEST_F(ShmRingTest, EmptyFrameIsRefused) {
  WriteWord(0, SlotWord(0, SlotWord::kNearOffset, 0).bits());
  EXPECT_TRUE(consumer_.Receive().empty());
  EXPECT_TRUE(consumer_.broken());
}

TEST_F(ShmRingTest, NoWordMakesTheConsumerReadBeyondTheSlot) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    WriteWord(0, static_cast<uint16_t>(bits));
    FrameConsumer consumer(peer_memory_->ring(0));
    const auto frame = consumer.Receive();
    if (frame.empty()) continue;
    ASSERT_LE(frame.data() + frame.size(), peer_memory_->ring(0).slot(0) + kSlotBytes) << bits;
  }
}

TEST_F(ShmRingTest, ConsumerPositionThatMakesNoSenseBreaksTheProducer) {
  for (const uint64_t position : {uint64_t{kSlots + 1}, ~uint64_t{0}, uint64_t{1} << 63}) {
    FrameProducer producer(memory_->ring(1));
    peer_memory_->ring(1).control->consumer_position.store(position);
    for (uint32_t i = 0; i < kSlots; ++i) {
      ASSERT_FALSE(producer.Acquire().empty());
      producer.Commit(64);
    }
    EXPECT_TRUE(producer.Acquire().empty());
    EXPECT_TRUE(producer.broken()) << position;
  }
}

TEST_F(ShmRingTest, OnlyASleeperIsWokenAndOnlyOnce) {
  Send(1);
  EXPECT_FALSE(producer_.ConsumerNeedsWake());
  Take();
  ASSERT_TRUE(consumer_.BeginSleep());
  EXPECT_FALSE(producer_.ConsumerNeedsWake()) << "nothing was committed since";
  Send(2);
  EXPECT_TRUE(producer_.ConsumerNeedsWake());
  Send(3);
  EXPECT_FALSE(producer_.ConsumerNeedsWake());
}

TEST_F(ShmRingTest, ConsumerDoesNotFallAsleepOverAFrame) {
  Send(1);
  EXPECT_FALSE(consumer_.BeginSleep());
  Send(2);
  EXPECT_FALSE(producer_.ConsumerNeedsWake()) << "it said that it stays awake";
}

TEST(RingMemoryTest, CannotBeShrunkOrGrown) {
  const auto memory = RingMemory::Create();
  ASSERT_NE(memory, nullptr);
  EXPECT_NE(ftruncate(memory->fd(), 4'096), 0);
  EXPECT_NE(ftruncate(memory->fd(), 1 << 30), 0);
}

off_t RightSize() { return lseek(RingMemory::Create()->fd(), 0, SEEK_END); }

UniqueFd MakeMemory(bool is_allocated, int seals, off_t bytes = RightSize()) {
  UniqueFd memory(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(is_allocated ? posix_fallocate(memory.get(), 0, bytes) : ftruncate(memory.get(), bytes),
            0);
  EXPECT_EQ(fcntl(memory.get(), F_ADD_SEALS, seals), 0);
  return memory;
}

off_t BytesOnLoan(int fd) {
  struct stat status;
  EXPECT_EQ(fstat(fd, &status), 0);
  return status.st_blocks;
}

TEST(RingMemoryTest, OpenAcceptsMemoryOfACreator) {
  EXPECT_NE(RingMemory::Open(MakeMemory(true, F_SEAL_SHRINK | F_SEAL_GROW)), nullptr);
}

TEST(RingMemoryTest, OpenRefusesMemoryThatCouldShrinkOrGrow) {
  for (const int seals : {0, F_SEAL_SHRINK, F_SEAL_GROW}) {
    errno = 0;
    EXPECT_EQ(RingMemory::Open(MakeMemory(true, seals)), nullptr) << seals;
    EXPECT_EQ(errno, EPROTO) << seals;
  }
}

TEST(RingMemoryTest, OpenRefusesUnallocatedMemoryWithoutFillingIt) {
  UniqueFd sparse = MakeMemory(false, F_SEAL_SHRINK | F_SEAL_GROW);
  const UniqueFd same(fcntl(sparse.get(), F_DUPFD_CLOEXEC, 0));
  errno = 0;
  EXPECT_EQ(RingMemory::Open(std::move(sparse)), nullptr);
  EXPECT_EQ(errno, EPROTO);
  EXPECT_EQ(BytesOnLoan(same.get()), 0);
}

TEST(RingMemoryTest, OpenRefusesMemoryThatCannotBeSealed) {
  EXPECT_EQ(RingMemory::Open(MakeMemory(true, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)), nullptr);
}

TEST(RingMemoryTest, OpenedMemoryIsSealedAgainstHoles) {
  const auto memory = RingMemory::Create();
  const UniqueFd same(fcntl(memory->fd(), F_DUPFD_CLOEXEC, 0));
  EXPECT_FALSE(memory->IsSealed());
  const auto opened = RingMemory::Open(UniqueFd(fcntl(memory->fd(), F_DUPFD_CLOEXEC, 0)));
  ASSERT_NE(opened, nullptr);
  EXPECT_TRUE(memory->IsSealed());
  const off_t before = BytesOnLoan(same.get());

  const int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  EXPECT_NE(fallocate(same.get(), punch, 0, 1 << 20), 0);
  EXPECT_EQ(errno, EPERM);
  uint8_t* const page = memory->ring(0).slots;
  EXPECT_NE(madvise(page, 4'096, MADV_REMOVE), 0);
  EXPECT_NE(write(same.get(), "x", 1), 1);
  EXPECT_EQ(BytesOnLoan(same.get()), before);
  page[0] = 7;
  EXPECT_EQ(opened->ring(0).slots[0], 7) << "the mappings stay writable";
}

TEST(RingMemoryTest, MemoryThatWasOpenedCannotBeOpenedAgain) {
  const auto memory = RingMemory::Create();
  const auto opened = RingMemory::Open(UniqueFd(fcntl(memory->fd(), F_DUPFD_CLOEXEC, 0)));
  ASSERT_NE(opened, nullptr);
  EXPECT_EQ(RingMemory::Open(UniqueFd(fcntl(memory->fd(), F_DUPFD_CLOEXEC, 0))), nullptr);
  EXPECT_EQ(errno, EPERM);
}

TEST(RingMemoryTest, HoleMakesMemoryIncomplete) {
  const auto memory = RingMemory::Create();
  EXPECT_TRUE(memory->IsWhole());
  ASSERT_EQ(fallocate(memory->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4'096), 0);
  EXPECT_FALSE(memory->IsWhole());
}

TEST(RingMemoryTest, OpenRefusesAWrongSize) {
  for (const off_t bytes : {off_t{4'096}, RightSize() - 1, RightSize() + 1, 2 * RightSize()}) {
    errno = 0;
    EXPECT_EQ(RingMemory::Open(MakeMemory(true, F_SEAL_SHRINK | F_SEAL_GROW, bytes)), nullptr)
        << bytes;
    EXPECT_EQ(errno, EPROTO) << bytes;
  }
}

TEST(RingMemoryTest, OpenRefusesNonMemfdDescriptor) {
  EXPECT_EQ(RingMemory::Open(UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC))), nullptr);
  EXPECT_EQ(RingMemory::Open(UniqueFd()), nullptr);
}

}  // namespace
}  // namespace uroce::nic
