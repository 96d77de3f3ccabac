#include "transport/qp/transmit_queue.h"

#include <gtest/gtest.h>

#include <string>

#include "transport/limits.h"

namespace uroce::transport {
namespace {

// Has so many frames and notes each in a log.
class Sender : public TransmitClient {
 public:
  Sender(char name, uint32_t frames, std::string& log) : name_(name), frames_(frames), log_(log) {}

  size_t BuildFrame(Time, std::span<uint8_t>) override {
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

class TransmitQueueTest : public testing::Test {
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

TEST_F(TransmitQueueTest, SendersTakeTurnsOfOneQuantum) {
  Sender a('a', 3 * kTransmitQuantum, log_);
  Sender b('b', 3 * kTransmitQuantum, log_);
  queue_.Add(a);
  queue_.Add(b);
  SendAll();
  EXPECT_EQ(log_, Turn('a') + Turn('b') + Turn('a') + Turn('b') + Turn('a') + Turn('b'));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(TransmitQueueTest, ATurnThatWasLeftEarlyDoesNotShortenTheNext) {
  Sender a('a', 3, log_);
  Sender b('b', kTransmitQuantum + 1, log_);
  Sender c('c', 1, log_);
  queue_.Add(a);
  queue_.Add(b);
  queue_.Add(c);
  SendAll();
  EXPECT_EQ(log_, Turn('a', 3) + Turn('b') + "c" + "b");
}

TEST_F(TransmitQueueTest, RemovedSenderLosesItsTurn) {
  for (const char removed : {'a', 'b', 'c'}) {
    log_.clear();
    Sender a('a', 2, log_);
    Sender b('b', 2, log_);
    Sender c('c', 2, log_);
    for (Sender* sender : {&a, &b, &c}) queue_.Add(*sender);
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

TEST_F(TransmitQueueTest, TheLastOneCanBeRemovedAndAnotherAdded) {
  Sender a('a', 1, log_);
  Sender b('b', 1, log_);
  queue_.Add(a);
  queue_.Add(b);
  queue_.Remove(b);
  queue_.Add(b);
  SendAll();
  EXPECT_EQ(log_, "ab");
}

}  // namespace
}  // namespace uroce::transport
