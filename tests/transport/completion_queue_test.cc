#include "transport/completion_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "transport/limits.h"

namespace uroce::transport {
namespace {

using NotifyOn = CompletionQueue::NotifyOn;

Completion Success(uint64_t wr_id) {
  Completion completion;
  completion.wr_id = wr_id;
  return completion;
}

Completion Failure(uint64_t wr_id) {
  Completion completion = Success(wr_id);
  completion.status = CompletionStatus::kFlushed;
  return completion;
}

class CompletionQueueTest : public testing::Test {
 protected:
  std::vector<uint64_t> PollIds(CompletionQueue& queue, size_t at_most = 100) {
    std::vector<Completion> out(at_most);
    out.resize(queue.Poll(out));
    std::vector<uint64_t> ids;
    for (const Completion& completion : out) ids.push_back(completion.wr_id);
    return ids;
  }
  bool TakeEvent(EventType type) {
    const std::optional<Event> event = events_.Take();
    return event && event->type == type && event->context == &context_;
  }

  EventQueue events_;
  int context_ = 0;
};

using Ids = std::vector<uint64_t>;

TEST_F(CompletionQueueTest, OldestFirst) {
  CompletionQueue queue(5, events_, &context_);
  EXPECT_TRUE(queue.empty());
  for (uint64_t id = 1; id <= 5; ++id) queue.Push(Success(id), false);
  EXPECT_FALSE(queue.empty());
  EXPECT_EQ((Ids{1, 2}), PollIds(queue, 2));
  EXPECT_EQ((Ids{3, 4, 5}), PollIds(queue));
  EXPECT_EQ((Ids{}), PollIds(queue));
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.in_error());
}

TEST_F(CompletionQueueTest, RingIsReusedForEver) {
  CompletionQueue queue(3, events_, &context_);
  for (uint64_t id = 0; id < 1'000; ++id) {
    queue.Push(Success(2 * id), false);
    queue.Push(Success(2 * id + 1), false);
    ASSERT_EQ((Ids{2 * id, 2 * id + 1}), PollIds(queue));
  }
}

TEST_F(CompletionQueueTest, CompletionKeepsItsFields) {
  CompletionQueue queue(1, events_, &context_);
  Completion in = Failure(77);
  in.opcode = CompletionOpcode::kReceiveRdmaWithImmediate;
  in.flags = Completion::kHasImmediate;
  in.vendor_error = VendorError::kFlushedByUser;
  in.byte_length = 4096;
  in.immediate_or_rkey = 0x01020304;
  in.qpn = Qpn{5};
  in.source_qpn = Qpn{6};
  queue.Push(in, false);
  std::array<Completion, 1> out;
  ASSERT_EQ(1u, queue.Poll(out));
  EXPECT_EQ(77u, out[0].wr_id);
  EXPECT_EQ(CompletionStatus::kFlushed, out[0].status);
  EXPECT_EQ(CompletionOpcode::kReceiveRdmaWithImmediate, out[0].opcode);
  EXPECT_EQ(Completion::kHasImmediate, out[0].flags);
  EXPECT_EQ(VendorError::kFlushedByUser, out[0].vendor_error);
  EXPECT_EQ(4096u, out[0].byte_length);
  EXPECT_EQ(0x01020304u, out[0].immediate_or_rkey);
  EXPECT_EQ(Qpn{5}, out[0].qpn);
  EXPECT_EQ(Qpn{6}, out[0].source_qpn);
}

// IBA 11.6.3.2 CQ_ERR: the capacity is the requested one, not the ring's size.
TEST_F(CompletionQueueTest, OverrunIsAnErrorRaisedOnce) {
  CompletionQueue queue(3, events_, &context_);
  for (uint64_t id = 1; id <= 3; ++id) queue.Push(Success(id), false);
  EXPECT_FALSE(queue.in_error());
  queue.Push(Success(4), false);
  queue.Push(Success(5), false);
  EXPECT_TRUE(queue.in_error());
  EXPECT_TRUE(TakeEvent(EventType::kCqError));
  EXPECT_FALSE(events_.Take());
  // The completions in the queue stay; none is added after the gap.
  EXPECT_EQ((Ids{1, 2, 3}), PollIds(queue));
  queue.Push(Success(6), false);
  EXPECT_EQ((Ids{}), PollIds(queue));
  EXPECT_FALSE(events_.Take());
}

TEST_F(CompletionQueueTest, NotArmedRaisesNothing) {
  CompletionQueue queue(4, events_, &context_);
  queue.Push(Success(1), true);
  EXPECT_FALSE(events_.Take());
}

TEST_F(CompletionQueueTest, QueueThatIgnoresOverrunLosesWhatFindsNoRoom) {
  CompletionQueue queue(2, events_, &context_);
  queue.IgnoreOverrun();
  for (uint64_t id = 1; id <= 4; ++id) EXPECT_TRUE(queue.Push(Success(id), false));
  EXPECT_FALSE(queue.in_error());
  EXPECT_FALSE(events_.Take());
  EXPECT_EQ((Ids{1, 2}), PollIds(queue));
  EXPECT_TRUE(queue.Push(Success(5), false));
  EXPECT_EQ((Ids{5}), PollIds(queue));
}

TEST_F(CompletionQueueTest, ArmedForAnyRaisesOnce) {
  CompletionQueue queue(4, events_, &context_);
  queue.Arm(NotifyOn::kAny);
  queue.Push(Success(1), false);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
  queue.Push(Success(2), false);
  EXPECT_FALSE(events_.Take());
}

TEST_F(CompletionQueueTest, ArmedQueuesAreCountedUntilTheirEvent) {
  CompletionQueue queue(5, events_, &context_);
  CompletionQueue other(5, events_, &context_);
  queue.Arm(NotifyOn::kSolicited);
  queue.Arm(NotifyOn::kAny);
  other.Arm(NotifyOn::kAny);
  EXPECT_EQ(events_.armed, 2u);
  queue.Push(Success(1), false);
  EXPECT_EQ(events_.armed, 1u);
  queue.Push(Success(2), false);
  EXPECT_EQ(events_.armed, 1u);
  other.Retire();
  EXPECT_EQ(events_.armed, 0u);
}

TEST_F(CompletionQueueTest, ArmingAnnouncesCompletionsPushedWhileNotArmed) {
  CompletionQueue queue(4, events_, &context_);
  queue.Push(Success(1), false);
  queue.Arm(NotifyOn::kAny);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
  // The event used the arming up.
  queue.Push(Success(2), false);
  EXPECT_FALSE(events_.Take());
}

TEST_F(CompletionQueueTest, PolledCompletionsAreNotAnnounced) {
  CompletionQueue queue(4, events_, &context_);
  queue.Push(Success(1), true);
  PollIds(queue);
  queue.Arm(NotifyOn::kAny);
  EXPECT_FALSE(events_.Take());
  queue.Push(Success(2), false);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
}

// perftest takes the event, arms, and then polls.
TEST_F(CompletionQueueTest, AnnouncedCompletionsAreNotAnnouncedAgain) {
  CompletionQueue queue(8, events_, &context_);
  queue.Arm(NotifyOn::kAny);
  queue.Push(Success(1), true);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
  queue.Arm(NotifyOn::kAny);
  EXPECT_FALSE(events_.Take());
  PollIds(queue);
  EXPECT_FALSE(events_.Take());

  // A completion that comes before the program polls is announced, too.
  queue.Push(Success(2), false);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
  queue.Push(Success(3), false);
  queue.Arm(NotifyOn::kAny);
  EXPECT_FALSE(events_.Take());
  EXPECT_EQ(PollIds(queue), (Ids{2, 3}));
  EXPECT_FALSE(queue.LeavesAnnounced());
  EXPECT_FALSE(events_.Take());
  // The queue is armed still.
  queue.Push(Success(4), false);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
}

// UCX polls until the queue is empty, arms and sleeps.
TEST_F(CompletionQueueTest, CompletionThatCameAfterThePollIsAnnouncedByTheNextArming) {
  CompletionQueue queue(8, events_, &context_);
  queue.Arm(NotifyOn::kAny);
  queue.Push(Success(1), false);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
  PollIds(queue);
  queue.Push(Success(2), false);
  queue.Arm(NotifyOn::kAny);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
}

// The event is about a completion that was polled before it was raised: it tells nothing about the
// completions that come later, even if no poll has taken anything since.
TEST_F(CompletionQueueTest, EventOfAnEmptyQueueAnnouncesNothing) {
  DeadlineQueue deadlines;
  QueueClock clock{deadlines};
  deadlines.Reserve(1);
  CompletionQueue queue(8, events_, &context_, &clock);
  queue.SetModeration({.count = 2, .period = Microseconds(5)});
  queue.Arm(NotifyOn::kAny);
  queue.Push(Success(1), false);
  PollIds(queue);
  deadlines.RunDue(Time{6'000});
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
  queue.SetModeration({});
  queue.Push(Success(2), false);
  queue.Arm(NotifyOn::kAny);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
  queue.Retire();
}

// A program that polls only a part and arms again gets an event for the rest.
TEST_F(CompletionQueueTest, UnpolledCompletionsAreAnnouncedByTheNextArming) {
  CompletionQueue queue(8, events_, &context_);
  for (uint64_t id = 1; id <= 6; ++id) queue.Push(Success(id), true);
  for (int left = 6; left > 0; left -= 2) {
    queue.Arm(left == 4 ? NotifyOn::kSolicited : NotifyOn::kAny);
    EXPECT_TRUE(TakeEvent(EventType::kCompletion)) << left;
    EXPECT_EQ(2u, PollIds(queue, 2).size());
  }
  queue.Arm(NotifyOn::kAny);
  EXPECT_FALSE(events_.Take());
}

TEST_F(CompletionQueueTest, ArmingForSolicitedAnnouncesSolicitedOnly) {
  CompletionQueue queue(8, events_, &context_);
  queue.Push(Success(1), false);
  queue.Arm(NotifyOn::kSolicited);
  EXPECT_FALSE(events_.Take());
  queue.Arm(NotifyOn::kAny);  // now it counts as left over
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
  PollIds(queue, 1);

  queue.Push(Success(2), true);
  queue.Push(Success(3), false);
  queue.Arm(NotifyOn::kSolicited);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
  PollIds(queue, 1);
  queue.Push(Failure(4), false);
  queue.Arm(NotifyOn::kSolicited);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));

  queue.Push(Success(5), true);
  PollIds(queue);
  queue.Push(Success(6), false);
  queue.Arm(NotifyOn::kSolicited);
  EXPECT_FALSE(events_.Take());
}

Completion Of(Qpn qpn, uint64_t wr_id) {
  Completion completion = Success(wr_id);
  completion.qpn = qpn;
  return completion;
}

constexpr Qpn kGone{5};
constexpr Qpn kOther{6};

TEST_F(CompletionQueueTest, PurgeDropsCompletionsOfTheQueuePairAndKeepsTheOrder) {
  CompletionQueue queue(5, events_, &context_);
  queue.Push(Of(kGone, 1), false);
  PollIds(queue);  // so that the ring does not start at its beginning
  for (const auto& [qpn, id] : {std::pair{kOther, 2}, {kGone, 3}, {kOther, 4}, {kGone, 5}}) {
    queue.Push(Of(qpn, static_cast<uint64_t>(id)), false);
  }
  queue.Purge(kGone);
  // Purge has freed the room.
  for (uint64_t id = 6; id <= 8; ++id) EXPECT_TRUE(queue.Push(Of(kGone, id), false));
  EXPECT_FALSE(queue.Push(Of(kGone, 9), false));
  EXPECT_EQ((Ids{2, 4, 6, 7, 8}), PollIds(queue));
  queue.Purge(kGone);
  EXPECT_TRUE(queue.empty());
}

TEST_F(CompletionQueueTest, PurgeLosesNoEventOfOtherQueuePairs) {
  CompletionQueue queue(8, events_, &context_);
  queue.Arm(NotifyOn::kAny);
  queue.Push(Of(kGone, 1), true);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
  queue.Push(Of(kOther, 2), true);
  queue.Push(Of(kGone, 3), true);
  queue.Push(Of(kOther, 4), false);
  queue.Purge(kGone);
  // Completion 2 had no event, whatever was before it.
  queue.Arm(NotifyOn::kSolicited);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
  EXPECT_EQ((Ids{2, 4}), PollIds(queue));

  // An announced completion stays announced.
  queue.Arm(NotifyOn::kAny);
  queue.Push(Of(kGone, 5), false);
  queue.Push(Of(kOther, 6), false);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
  queue.Purge(kGone);
  queue.Arm(NotifyOn::kAny);  // announces 6
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
  queue.Purge(kGone);
  queue.Arm(NotifyOn::kAny);
  EXPECT_FALSE(events_.Take());
}

TEST_F(CompletionQueueTest, PurgedCompletionsAnnounceNothing) {
  CompletionQueue queue(8, events_, &context_);
  queue.Push(Of(kGone, 1), true);
  queue.Push(Of(kOther, 2), false);
  queue.Purge(kGone);
  queue.Arm(NotifyOn::kSolicited);
  EXPECT_FALSE(events_.Take());
  queue.Purge(kOther);
  queue.Arm(NotifyOn::kAny);
  EXPECT_FALSE(events_.Take());
  // The queue is still armed.
  queue.Push(Of(kOther, 3), false);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
}

// An event that was raised for purged completions is not taken back: a program that wakes up and
// finds nothing arms again.
TEST_F(CompletionQueueTest, PurgeLeavesRaisedEventsAlone) {
  CompletionQueue queue(8, events_, &context_);
  queue.Arm(NotifyOn::kAny);
  queue.Push(Of(kGone, 1), false);
  queue.Purge(kGone);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
}

TEST_F(CompletionQueueTest, ArmedForSolicitedWaitsForOneOrForAnError) {
  CompletionQueue queue(8, events_, &context_);
  queue.Arm(NotifyOn::kSolicited);
  queue.Push(Success(1), false);
  EXPECT_FALSE(events_.Take());
  queue.Push(Success(2), true);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));

  queue.Arm(NotifyOn::kSolicited);
  queue.Push(Failure(3), false);  // IBA 11.4.2.2
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
}

// IBA C11-31.
TEST_F(CompletionQueueTest, SolicitedDoesNotWeakenAny) {
  CompletionQueue queue(8, events_, &context_);
  queue.Arm(NotifyOn::kAny);
  queue.Arm(NotifyOn::kSolicited);
  queue.Push(Success(1), false);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));

  queue.Arm(NotifyOn::kSolicited);
  queue.Arm(NotifyOn::kAny);
  queue.Push(Success(2), false);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
}

TEST_F(CompletionQueueTest, ResizeKeepsQueuedCompletions) {
  CompletionQueue queue(4, events_, &context_);
  for (uint64_t id = 1; id <= 3; ++id) queue.Push(Success(id), false);
  EXPECT_EQ((Ids{1}), PollIds(queue, 1));  // so that the ring does not start at its beginning
  queue.Push(Success(4), false);
  queue.Push(Success(5), false);

  EXPECT_EQ(Status::kInvalidArgument, queue.Resize(3));  // four are in the queue
  EXPECT_EQ(4u, queue.capacity());
  EXPECT_EQ(Status::kOk, queue.Resize(6));
  EXPECT_EQ(6u, queue.capacity());
  queue.Push(Success(6), false);
  queue.Push(Success(7), false);
  EXPECT_FALSE(queue.in_error());
  EXPECT_EQ((Ids{2, 3, 4, 5, 6, 7}), PollIds(queue));

  queue.Push(Success(8), false);
  EXPECT_EQ(Status::kOk, queue.Resize(1));
  queue.Push(Success(9), false);
  EXPECT_TRUE(queue.in_error());
  EXPECT_EQ((Ids{8}), PollIds(queue));
}

TEST_F(CompletionQueueTest, ResizeToNothingOrTooMuchIsRefused) {
  CompletionQueue queue(4, events_, &context_);
  EXPECT_EQ(Status::kInvalidArgument, queue.Resize(0));
  EXPECT_EQ(Status::kInvalidArgument, queue.Resize(kMaxCqEntries + 1));
  EXPECT_EQ(4u, queue.capacity());
}

TEST_F(CompletionQueueTest, ResizeDoesNotAnnounceAgain) {
  CompletionQueue queue(4, events_, &context_);
  queue.Push(Success(1), false);
  PollIds(queue);
  queue.Arm(NotifyOn::kAny);
  queue.Push(Success(2), true);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
  ASSERT_EQ(Status::kOk, queue.Resize(8));
  queue.Arm(NotifyOn::kAny);
  EXPECT_FALSE(events_.Take());
}

TEST_F(CompletionQueueTest, ResizeKeepsTheArming) {
  CompletionQueue queue(4, events_, &context_);
  queue.Arm(NotifyOn::kAny);
  ASSERT_EQ(Status::kOk, queue.Resize(8));
  queue.Push(Success(1), false);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
}

TEST_F(CompletionQueueTest, MovedQueueRegistersWithTheOtherEndpoint) {
  DeadlineQueue deadlines;
  QueueClock clock{deadlines};
  EventQueue events;
  DeadlineQueue other_deadlines;
  QueueClock other_clock{other_deadlines};
  other_deadlines.Reserve(1);
  CompletionQueue queue(4, events, &context_, &clock, /*timed=*/true);
  queue.SetModeration({.count = 2, .period = Microseconds(5)});
  queue.Arm(NotifyOn::kAny);
  queue.MoveTo(events_, other_clock);
  EXPECT_EQ(clock.users, 0u);
  EXPECT_EQ(other_clock.users, 2u);
  EXPECT_EQ(events.armed, 0u);
  EXPECT_EQ(events_.armed, 1u);

  other_clock.now = Time{1'000};
  queue.Push(Success(1), false);
  EXPECT_EQ(other_deadlines.Next(), Time{6'000});
  queue.Push(Success(2), false);
  EXPECT_TRUE(TakeEvent(EventType::kCompletion));
  EXPECT_TRUE(events.empty());
  Completion out;
  Time time;
  ASSERT_TRUE(queue.PollOne(out, time));
  EXPECT_EQ(time, Time{1'000});
  queue.Retire();
  EXPECT_EQ(other_clock.users, 0u);
}

// One thread produces while another consumes: no completion is lost, torn or out of order.
TEST_F(CompletionQueueTest, PollRunsBesidePush) {
  constexpr uint64_t kCompletions = 200'000;
  CompletionQueue queue(64, events_, &context_);
  std::atomic<uint64_t> polled{0};
  std::thread producer([&] {
    for (uint64_t id = 0; id < kCompletions; ++id) {
      while (id - polled.load(std::memory_order_acquire) >= 64) std::this_thread::yield();
      Completion completion = Success(id);
      completion.byte_length = static_cast<uint32_t>(~id);
      queue.Push(completion, false);
    }
  });
  uint64_t expected = 0;
  bool intact = true;
  while (expected < kCompletions) {
    std::array<Completion, 7> out;
    const uint32_t count = queue.Poll(out);
    for (uint32_t i = 0; i < count; ++i, ++expected) {
      intact &= out[i].wr_id == expected && out[i].byte_length == static_cast<uint32_t>(~expected);
    }
    polled.store(expected, std::memory_order_release);
    if (count == 0) std::this_thread::yield();
  }
  producer.join();
  EXPECT_TRUE(intact);
  EXPECT_FALSE(queue.in_error());
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace uroce::transport
