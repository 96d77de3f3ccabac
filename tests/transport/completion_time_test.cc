// How completion queues use the time: timestamps, and events that are held back.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <span>

#include "transport/completion_queue.h"
#include "transport/events.h"
#include "transport/qp/deadline_queue.h"

namespace uroce::transport {
namespace {

// Queues with a clock: `Push(id, ns)` adds a completion at that time.
class TimedQueueTest : public testing::Test {
 protected:
  static Completion Success(uint64_t wr_id) {
    Completion completion;
    completion.wr_id = wr_id;
    return completion;
  }
  void PushAt(CompletionQueue& queue, uint64_t id, int64_t ns) {
    clock_.now = {ns};
    queue.Push(Success(id), false);
  }
  // 0: the queue is empty.
  int64_t PollTime(CompletionQueue& queue) {
    Completion completion;
    Time time{};
    queue.PollOne(completion, time);
    return time.ns;
  }
  void ArmAt(CompletionQueue& queue, int64_t ns) {
    clock_.now = {ns};
    queue.Arm(CompletionQueue::NotifyOn::kAny);
  }
  bool RaisesEvent() {
    const std::optional<Event> event = events_.Take();
    return event && event->type == EventType::kCompletion && event->context == &context_;
  }

  EventQueue events_;
  int context_ = 0;
  DeadlineQueue deadlines_;
  QueueClock clock_{deadlines_};
};

TEST_F(TimedQueueTest, EachCompletionHasItsTime) {
  CompletionQueue queue(4, events_, &context_, &clock_, /*timed=*/true);
  EXPECT_EQ(clock_.users, 1u);
  for (int64_t id = 1; id <= 6; ++id) {
    PushAt(queue, static_cast<uint64_t>(id), 100 * id);
    clock_.now = {9'999};
    EXPECT_EQ(PollTime(queue), 100 * id);
  }
  EXPECT_EQ(PollTime(queue), 0);
  queue.Retire();
  EXPECT_EQ(clock_.users, 0u);
}

TEST_F(TimedQueueTest, UntimedQueueKeepsNoTimes) {
  CompletionQueue queue(4, events_, &context_, &clock_);
  EXPECT_EQ(clock_.users, 0u);
  PushAt(queue, 1, 100);
  Completion completion;
  Time time{77};
  EXPECT_TRUE(queue.PollOne(completion, time));
  EXPECT_EQ(completion.wr_id, 1u);
  EXPECT_EQ(time.ns, 77);
}

TEST_F(TimedQueueTest, PurgeKeepsTimesWithTheirCompletions) {
  CompletionQueue queue(4, events_, &context_, &clock_, /*timed=*/true);
  for (int64_t id = 1; id <= 4; ++id) {
    clock_.now = {100 * id};
    Completion completion = Success(static_cast<uint64_t>(id));
    completion.qpn = Qpn{id % 2 == 0 ? 2u : 1u};
    queue.Push(completion, false);
  }
  queue.Purge(Qpn{1});
  EXPECT_EQ(PollTime(queue), 200);
  EXPECT_EQ(PollTime(queue), 400);
}

TEST_F(TimedQueueTest, TimesGoToTheNewRoom) {
  CompletionQueue queue(4, events_, &context_, &clock_, /*timed=*/true);
  for (int64_t id = 1; id <= 4; ++id) PushAt(queue, static_cast<uint64_t>(id), 100 * id);
  EXPECT_EQ(PollTime(queue), 100);
  ASSERT_EQ(queue.Resize(16), Status::kOk);
  PushAt(queue, 5, 500);
  for (const int64_t time : {200, 300, 400, 500}) EXPECT_EQ(PollTime(queue), time);
}

class ModeratedQueueTest : public TimedQueueTest {
 protected:
  // Adds the first of three completions at 10; its event is held back for 1,000.
  void HoldBackEvent() {
    queue_.SetModeration({.count = 3, .period = {1'000}});
    ArmAt(queue_, 0);
    PushAt(queue_, 1, 10);
  }

  CompletionQueue queue_{16, events_, &context_, &clock_};
};

TEST_F(ModeratedQueueTest, EventComesWithTheLastOfACount) {
  queue_.SetModeration({.count = 3, .period = {1'000}});
  EXPECT_EQ(clock_.users, 1u);
  ArmAt(queue_, 0);
  PushAt(queue_, 1, 10);
  PushAt(queue_, 2, 20);
  EXPECT_TRUE(events_.empty());
  PushAt(queue_, 3, 30);
  EXPECT_TRUE(RaisesEvent());
  // The deadline was cancelled.
  deadlines_.RunDue({10'000});
  EXPECT_TRUE(events_.empty());
  EXPECT_EQ(deadlines_.Next(), kNever);
}

TEST_F(ModeratedQueueTest, EventComesWhenTheFirstHasWaitedForAPeriod) {
  HoldBackEvent();
  PushAt(queue_, 2, 900);
  EXPECT_EQ(deadlines_.Next(), Time{1'010});
  deadlines_.RunDue({1'009});
  EXPECT_TRUE(events_.empty());
  deadlines_.RunDue({1'010});
  EXPECT_TRUE(RaisesEvent());
  // Only once: the queue is not armed any more.
  PushAt(queue_, 3, 1'020);
  deadlines_.RunDue({10'000});
  EXPECT_TRUE(events_.empty());
}

TEST_F(ModeratedQueueTest, CountAloneWaitsForeverAndPeriodAloneForAnyNumber) {
  queue_.SetModeration({.count = 2, .period = {}});
  ArmAt(queue_, 0);
  PushAt(queue_, 1, 10);
  EXPECT_EQ(deadlines_.Next(), kNever);
  PushAt(queue_, 2, 20);
  EXPECT_TRUE(RaisesEvent());

  queue_.SetModeration({.count = 0, .period = {1'000}});
  std::array<Completion, 4> polled;
  EXPECT_EQ(queue_.Poll(polled), 2u);
  ArmAt(queue_, 30);
  for (uint64_t id = 3; id <= 8; ++id) PushAt(queue_, id, 40);
  EXPECT_TRUE(events_.empty());
  deadlines_.RunDue({1'040});
  EXPECT_TRUE(RaisesEvent());
}

TEST_F(ModeratedQueueTest, PeriodOfAnEventThatCameIsNotThatOfTheNext) {
  queue_.SetModeration({.count = 2, .period = {1'000}});
  ArmAt(queue_, 0);
  PushAt(queue_, 1, 10);
  PushAt(queue_, 2, 20);
  EXPECT_TRUE(RaisesEvent());
  std::array<Completion, 4> polled;
  EXPECT_EQ(queue_.Poll(polled), 2u);

  queue_.SetModeration({.count = 2, .period = {}});
  ArmAt(queue_, 30);
  PushAt(queue_, 3, 40);
  deadlines_.RunDue({1'010});
  EXPECT_TRUE(events_.empty());
}

TEST_F(ModeratedQueueTest, CompletionsThatWereThereCountWhenTheQueueIsArmed) {
  queue_.SetModeration({.count = 3, .period = {1'000}});
  PushAt(queue_, 1, 10);
  PushAt(queue_, 2, 20);
  ArmAt(queue_, 50);
  EXPECT_TRUE(events_.empty());
  EXPECT_EQ(deadlines_.Next(), Time{1'050});
  ArmAt(queue_, 60);  // arming again counts no completion twice
  EXPECT_TRUE(events_.empty());
  PushAt(queue_, 3, 70);
  EXPECT_TRUE(RaisesEvent());
  // The event has announced all three, as the program has not polled since. The fourth waits.
  ArmAt(queue_, 80);
  PushAt(queue_, 4, 90);
  EXPECT_TRUE(events_.empty());
  deadlines_.RunDue({1'090});
  EXPECT_TRUE(RaisesEvent());
}

TEST_F(ModeratedQueueTest, EventThatIsHeldBackIsRaisedByAChange) {
  HoldBackEvent();
  queue_.SetModeration({});
  EXPECT_TRUE(RaisesEvent());
  EXPECT_EQ(clock_.users, 0u);
  ArmAt(queue_, 20);
  PushAt(queue_, 2, 30);
  EXPECT_TRUE(RaisesEvent());
}

TEST_F(ModeratedQueueTest, EventThatIsHeldBackSurvivesAPurge) {
  HoldBackEvent();
  queue_.Purge(Qpn{5});
  EXPECT_TRUE(RaisesEvent());
  Completion completion;
  EXPECT_EQ(queue_.Poll(std::span(&completion, 1)), 1u);
  EXPECT_EQ(completion.wr_id, 1u);
}

TEST_F(ModeratedQueueTest, RetiredQueueHasNoDeadline) {
  HoldBackEvent();
  queue_.Retire();
  EXPECT_EQ(deadlines_.Next(), kNever);
  EXPECT_EQ(clock_.users, 0u);
  EXPECT_TRUE(events_.empty());
}

TEST_F(ModeratedQueueTest, CountOfOneDisablesModeration) {
  queue_.SetModeration({.count = 1, .period = {1'000}});
  EXPECT_EQ(clock_.users, 0u);
  ArmAt(queue_, 0);
  PushAt(queue_, 1, 10);
  EXPECT_TRUE(RaisesEvent());
}

}  // namespace
}  // namespace uroce::transport
