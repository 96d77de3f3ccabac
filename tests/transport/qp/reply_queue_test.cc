#include "transport/qp/reply_queue.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

TEST(ReplyQueueTest, ResultsAreFoundByPsn) {
  ReplyQueue queue;
  queue.Configure(3);
  for (uint32_t i = 0; i < 3; ++i) queue.RememberAtomic(Psn(10 + i), 100 + i);
  for (uint32_t i = 0; i < 3; ++i) {
    ASSERT_NE(queue.FindAtomic(Psn(10 + i)), nullptr);
    EXPECT_EQ(*queue.FindAtomic(Psn(10 + i)), 100 + i);
  }
  EXPECT_EQ(queue.FindAtomic(Psn(13)), nullptr);
  EXPECT_EQ(queue.FindAtomic(Psn(0)), nullptr);
}

TEST(ReplyQueueTest, TheOldestResultMakesRoom) {
  ReplyQueue queue;
  queue.Configure(2);
  for (uint32_t i = 0; i < 3; ++i) queue.RememberAtomic(Psn(10 + i), 100 + i);
  EXPECT_EQ(queue.FindAtomic(Psn(10)), nullptr);
  EXPECT_EQ(*queue.FindAtomic(Psn(11)), 101u);
  EXPECT_EQ(*queue.FindAtomic(Psn(12)), 102u);
}

// PSNs recur after 2^24 packets. With few atomics among many other requests the result from the
// previous round is still there; it must not answer the new atomic.
TEST(ReplyQueueTest, OfTwoResultsWithOnePsnTheNewerIsFound) {
  for (uint32_t others_between = 0; others_between < 3; ++others_between) {
    ReplyQueue queue;
    queue.Configure(4);
    queue.RememberAtomic(Psn(7), 1);
    for (uint32_t i = 0; i < others_between; ++i) queue.RememberAtomic(Psn(1'000 + i), 5);
    queue.RememberAtomic(Psn(7), 2);
    ASSERT_NE(queue.FindAtomic(Psn(7)), nullptr);
    EXPECT_EQ(*queue.FindAtomic(Psn(7)), 2u) << others_between;
  }
}

TEST(ReplyQueueTest, ConfigureForgets) {
  ReplyQueue queue;
  queue.Configure(2);
  queue.RememberAtomic(Psn(7), 1);
  queue.Push({.first_psn = Psn(8), .next_psn = Psn(8), .end_psn = Psn(9)});
  queue.Configure(2);
  EXPECT_TRUE(queue.empty());
  EXPECT_TRUE(queue.HasRoom());
  EXPECT_EQ(queue.FindAtomic(Psn(7)), nullptr);
}

Reply MakeReply(uint32_t first, uint32_t end) {
  Reply reply;
  reply.first_psn = reply.next_psn = Psn(first);
  reply.end_psn = Psn(end);
  return reply;
}
Reply MakeReplay(uint32_t first, uint32_t end) {
  Reply replay = MakeReply(first, end);
  replay.is_replay = true;
  return replay;
}

// IBA C9-110.
TEST(ReplyQueueTest, ReplaysGoBeforeRepliesWithLaterPsns) {
  ReplyQueue queue;
  queue.Configure(2);
  queue.Push(MakeReply(20, 30));
  EXPECT_TRUE(queue.PushReplay(MakeReplay(10, 12)));
  EXPECT_EQ(queue.Front().first_psn, Psn(10));
  queue.PopFront();
  EXPECT_EQ(queue.Front().first_psn, Psn(20));
  queue.PopFront();
  EXPECT_TRUE(queue.empty());
}

// A duplicate of a request that is still being answered is the same original, which frees its room
// once it has been answered.
TEST(ReplyQueueTest, ReplayOfAWaitingReplyLeavesTheReplyAnOriginal) {
  ReplyQueue queue;
  queue.Configure(1);
  queue.Push(MakeReply(20, 22));
  ASSERT_TRUE(queue.PushReplay(MakeReplay(20, 22)));
  queue.PopFront();
  EXPECT_TRUE(queue.empty());
  EXPECT_TRUE(queue.HasRoom());
}

TEST(ReplyQueueTest, AfterGrowingThereIsRoomBeforeTheOldestResultGoes) {
  ReplyQueue queue;
  queue.Configure(2);
  for (uint32_t i = 0; i < 3; ++i) queue.RememberAtomic(Psn(10 + i), 100 + i);
  queue.Resize(4);
  for (uint32_t i = 3; i < 5; ++i) queue.RememberAtomic(Psn(10 + i), 100 + i);
  for (uint32_t i = 1; i < 5; ++i) {
    ASSERT_NE(queue.FindAtomic(Psn(10 + i)), nullptr) << i;
    EXPECT_EQ(*queue.FindAtomic(Psn(10 + i)), 100 + i);
  }
  queue.RememberAtomic(Psn(15), 105);
  EXPECT_EQ(queue.FindAtomic(Psn(11)), nullptr);
}

// Replays take no room of originals, and there are never more replays than room for originals.
TEST(ReplyQueueTest, ReplaysAreBounded) {
  ReplyQueue queue;
  queue.Configure(2);
  queue.Push(MakeReply(100, 101));
  EXPECT_TRUE(queue.HasRoom());
  queue.Push(MakeReply(101, 102));
  EXPECT_FALSE(queue.HasRoom());
  for (uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(queue.PushReplay(MakeReplay(10 + i, 11 + i)), i < 2);
  }
  queue.PopFront();
  queue.PopFront();
  EXPECT_FALSE(queue.HasRoom()) << "replays went, originals wait";
  queue.PopFront();
  EXPECT_TRUE(queue.HasRoom());
}

// A duplicate that comes while its original is still being answered restarts the answer instead of
// getting a second one.
TEST(ReplyQueueTest, ReplayOfAReplyBeingSentRestartsTheReply) {
  ReplyQueue queue;
  queue.Configure(1);
  queue.Push(MakeReply(10, 20));
  queue.Front().next_psn = Psn(15);
  EXPECT_TRUE(queue.PushReplay(MakeReplay(12, 20)));
  EXPECT_EQ(queue.Front().next_psn, Psn(12));
  EXPECT_FALSE(queue.HasRoom()) << "it is still the original";
  queue.PopFront();
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace uroce::transport
