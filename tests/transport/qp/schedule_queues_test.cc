// The queues in which senders wait for their turn to transmit.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "transport/limits.h"
#include "transport/qp/deadline_queue.h"
#include "transport/qp/transmit_queue.h"

namespace uroce::transport {
namespace {

class Sender : public TransmitClient {
 public:
  size_t BuildFrame(Time, const FrameRoom& out) override {
    out[0] = static_cast<uint8_t>(number);
    return 1;
  }
  int number = 0;
};

class TransmitQueueTest : public testing::Test {
 protected:
  // The sender of the next frame; -1 if there is none.
  int NextSender(TransmitQueue& queue) {
    return queue.BuildFrame({}, frame_) == 0 ? -1 : frame_[0];
  }
  std::array<uint8_t, 1> frame_;
};

TEST_F(TransmitQueueTest, RemovalKeepsTheTurnsOfTheOtherSenders) {
  for (int leaver = 0; leaver < 4; ++leaver) {
    TransmitQueue queue;
    std::array<Sender, 4> senders;
    for (int i = 0; i < 4; ++i) {
      senders[static_cast<size_t>(i)].number = i;
      queue.Add(senders[static_cast<size_t>(i)]);
    }
    Sender& gone = senders[static_cast<size_t>(leaver)];
    queue.Remove(gone);
    queue.Remove(gone);  // no longer queued
    for (int i = 0; i < 4; ++i) {
      if (i == leaver) continue;
      EXPECT_EQ(NextSender(queue), i);
      queue.Remove(senders[static_cast<size_t>(i)]);
    }
    EXPECT_TRUE(queue.empty());
    queue.Add(gone);
    EXPECT_EQ(NextSender(queue), leaver);
  }
}

// Objects on a page each, so that a test can forbid access to single objects.
template <class T, size_t kCount>
class Pages {
 public:
  Pages()
      : memory_(static_cast<uint8_t*>(mmap(nullptr, kCount * kPageBytes, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    for (size_t i = 0; i < kCount; ++i) new (memory_ + i * kPageBytes) T;
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { munmap(memory_, kCount * kPageBytes); }

  T& operator[](size_t i) { return *std::launder(reinterpret_cast<T*>(memory_ + i * kPageBytes)); }
  // From now on an access to object `i` ends the test.
  void Forbid(size_t i) { mprotect(memory_ + i * kPageBytes, kPageBytes, PROT_NONE); }
  void Permit(size_t i) { mprotect(memory_ + i * kPageBytes, kPageBytes, PROT_READ | PROT_WRITE); }

 private:
  static constexpr size_t kPageBytes = 4'096;
  uint8_t* const memory_;
};

TEST_F(TransmitQueueTest, LeavingLooksAtTheNeighboursOnly) {
  Pages<Sender, 5> senders;
  TransmitQueue queue;
  for (size_t i = 0; i < 5; ++i) queue.Add(senders[i]);
  senders.Forbid(0);
  senders.Forbid(4);
  queue.Remove(senders[2]);
  senders.Permit(0);
  senders.Permit(4);
  for (size_t i : {0, 1, 3, 4}) queue.Remove(senders[i]);
  EXPECT_TRUE(queue.empty());
}

// Sends `frames` frames and notes each in a log.
class CountedSender : public TransmitClient {
 public:
  CountedSender(char name, uint32_t frames, std::string& log)
      : name_(name), frames_(frames), log_(log) {}

  size_t BuildFrame(Time, const FrameRoom&) override {
    if (frames_ == 0) return 0;
    --frames_;
    log_ += name_;
    return 1;
  }

 private:
  char name_;
  uint32_t frames_;
  std::string& log_;
};

class TurnsTest : public testing::Test {
 protected:
  void SendAll() {
    while (queue_.BuildFrame({}, {}) != 0) {
    }
  }
  static std::string Turn(char name, uint32_t frames = kTransmitQuantum) {
    return std::string(frames, name);
  }

  TransmitQueue queue_;
  std::string log_;
};

TEST_F(TurnsTest, SendersTakeTurnsOfOneQuantum) {
  CountedSender a('a', 3 * kTransmitQuantum, log_);
  CountedSender b('b', 3 * kTransmitQuantum, log_);
  queue_.Add(a);
  queue_.Add(b);
  SendAll();
  EXPECT_EQ(log_, Turn('a') + Turn('b') + Turn('a') + Turn('b') + Turn('a') + Turn('b'));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(TurnsTest, ATurnThatWasLeftEarlyDoesNotShortenTheNext) {
  CountedSender a('a', 3, log_);
  CountedSender b('b', kTransmitQuantum + 1, log_);
  CountedSender c('c', 1, log_);
  queue_.Add(a);
  queue_.Add(b);
  queue_.Add(c);
  SendAll();
  EXPECT_EQ(log_, Turn('a', 3) + Turn('b') + "c" + "b");
}

TEST_F(TurnsTest, RemovedSenderLosesItsTurn) {
  for (const char removed : {'a', 'b', 'c'}) {
    log_.clear();
    CountedSender a('a', 2, log_);
    CountedSender b('b', 2, log_);
    CountedSender c('c', 2, log_);
    for (CountedSender* sender : {&a, &b, &c}) queue_.Add(*sender);
    queue_.Remove(removed == 'a' ? a : removed == 'b' ? b : c);
    queue_.Remove(removed == 'a' ? a : removed == 'b' ? b : c);  // again: nothing to remove
    SendAll();
    std::string expected;
    for (const char name : {'a', 'b', 'c'}) {
      if (name != removed) expected += Turn(name, 2);
    }
    EXPECT_EQ(log_, expected) << removed;
  }
}

TEST_F(TurnsTest, LastSenderCanBeRemovedAndAddedAgain) {
  CountedSender a('a', 1, log_);
  CountedSender b('b', 1, log_);
  queue_.Add(a);
  queue_.Add(b);
  queue_.Remove(b);
  queue_.Add(b);
  SendAll();
  EXPECT_EQ(log_, "ab");
}

}  // namespace
}  // namespace uroce::transport
