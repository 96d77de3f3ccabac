// Completions that a poll leaves behind in an armed queue.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "transport/completion_queue.h"

namespace uroce::transport {
namespace {

using NotifyOn = CompletionQueue::NotifyOn;

Completion Success(uint64_t wr_id) {
  Completion completion;
  completion.wr_id = wr_id;
  return completion;
}

class LeftoverTest : public testing::Test {
 protected:
  LeftoverTest() { deadlines_.Reserve(1); }
  ~LeftoverTest() override { queue_.Retire(); }

  // An event announces four completions, and the program takes it and arms.
  void AnnounceFourAndArm(NotifyOn on) {
    queue_.Arm(NotifyOn::kAny);
    for (uint64_t id = 1; id <= 4; ++id) queue_.Push(Success(id), id == 3);
    EXPECT_TRUE(TakeEvent(EventType::kCompletion));
    queue_.Arm(on);
    EXPECT_FALSE(queue_.empty());
    EXPECT_FALSE(events_.Take());
  }
  // As the verbs do. Returns whether leftovers are watched from now on.
  bool Poll(size_t count, Time now) {
    std::vector<Completion> out(count);
    queue_.Poll(out);
    if (!queue_.LeavesAnnounced()) return false;
    queue_.WatchLeftovers(now);
    return true;
  }
  bool HasEventAt(Time now) {
    deadlines_.RunDue(now);
    return TakeEvent(EventType::kCompletion);
  }

  bool TakeEvent(EventType type) {
    const std::optional<Event> event = events_.Take();
    return event && event->type == type && event->context == &context_;
  }

  static constexpr Duration kPatience = CompletionQueue::kPatience;
  EventQueue events_;
  int context_ = 0;
  DeadlineQueue deadlines_;
  QueueClock clock_{deadlines_};
  CompletionQueue queue_{8, events_, &context_, &clock_};
};

// perftest takes the event, arms, polls 16 and waits for the next event.
TEST_F(LeftoverTest, ProgramThatPollsAPartGetsAnEventForTheRest) {
  AnnounceFourAndArm(NotifyOn::kAny);
  const Time polled{1'000};
  EXPECT_TRUE(Poll(2, polled));
  EXPECT_FALSE(events_.Take());
  EXPECT_TRUE(HasEventAt(polled + kPatience));
  EXPECT_EQ(events_.armed, 0u);
  // The same once more.
  queue_.Arm(NotifyOn::kAny);
  EXPECT_FALSE(events_.Take());
  EXPECT_TRUE(Poll(1, polled + kPatience));
  EXPECT_TRUE(HasEventAt(polled + kPatience * 2));
}

TEST_F(LeftoverTest, ProgramThatPollsOneByOneGetsNoEvent) {
  AnnounceFourAndArm(NotifyOn::kAny);
  Time now{1'000};
  EXPECT_TRUE(Poll(1, now));
  for (int more = 0; more < 3; ++more) {
    now = now + kPatience;
    EXPECT_FALSE(Poll(1, now));  // they are watched already
    EXPECT_FALSE(HasEventAt(now));
  }
  EXPECT_FALSE(HasEventAt(now + kPatience));
  EXPECT_EQ(deadlines_.Next(), kNever);
  queue_.Push(Success(5), false);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
}

TEST_F(LeftoverTest, EventOfALaterCompletionIsTheEventForTheLeftovers) {
  AnnounceFourAndArm(NotifyOn::kAny);
  EXPECT_TRUE(Poll(2, Time{1'000}));
  queue_.Push(Success(5), false);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
  EXPECT_FALSE(HasEventAt(Time{1'000} + kPatience));
}

TEST_F(LeftoverTest, ArmedForSolicitedOnlySolicitedOnesCount) {
  AnnounceFourAndArm(NotifyOn::kSolicited);
  EXPECT_TRUE(Poll(2, Time{1'000}));
  EXPECT_TRUE(HasEventAt(Time{1'000} + kPatience));
  queue_.Arm(NotifyOn::kSolicited);
  EXPECT_FALSE(Poll(1, Time{2'000}));  // the solicited one
}

TEST_F(LeftoverTest, PurgedLeftoversNeedNoEvent) {
  AnnounceFourAndArm(NotifyOn::kAny);
  EXPECT_TRUE(Poll(2, Time{1'000}));
  queue_.Purge(Success(0).qpn);
  EXPECT_TRUE(queue_.empty());
  EXPECT_FALSE(HasEventAt(Time{1'000} + kPatience));
}

}  // namespace
}  // namespace uroce::transport
