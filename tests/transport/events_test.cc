#include "transport/events.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

class EventQueueTest : public testing::Test {
 protected:
  void ExpectNext(const EventSource& source, EventType type) {
    const std::optional<Event> event = events_.Take();
    ASSERT_TRUE(event);
    EXPECT_EQ(source.context(), event->context);
    EXPECT_EQ(type, event->type);
  }

  EventQueue events_;
  int contexts_[3] = {};
  EventSource first_{&contexts_[0]};
  EventSource second_{&contexts_[1]};
  EventSource third_{&contexts_[2]};
};

TEST_F(EventQueueTest, EmptyGivesNothing) {
  EXPECT_TRUE(events_.empty());
  EXPECT_FALSE(events_.Take());
}

TEST_F(EventQueueTest, SourcesInTheOrderOfTheirFirstEvent) {
  events_.Raise(second_, EventType::kCompletion);
  events_.Raise(first_, EventType::kQpFatal);
  events_.Raise(second_, EventType::kCqError);
  ExpectNext(second_, EventType::kCqError);
  ExpectNext(second_, EventType::kCompletion);
  ExpectNext(first_, EventType::kQpFatal);
  EXPECT_TRUE(events_.empty());
}

TEST_F(EventQueueTest, EventRaisedTwiceBeforeItIsTakenIsTakenOnce) {
  events_.Raise(first_, EventType::kCompletion);
  events_.Raise(first_, EventType::kCompletion);
  ExpectNext(first_, EventType::kCompletion);
  EXPECT_FALSE(events_.Take());
}

TEST_F(EventQueueTest, CanBeRaisedAgainAfterItWasTaken) {
  for (int round = 0; round < 3; ++round) {
    events_.Raise(first_, EventType::kCompletion);
    ExpectNext(first_, EventType::kCompletion);
    EXPECT_TRUE(events_.empty());
  }
}

// Objects can share a source: when the first is destroyed, pending events get the context of
// another.
TEST_F(EventQueueTest, PendingEventGetsTheNewContext) {
  int other = 0;
  events_.Raise(first_, EventType::kCommunicationEstablished);
  first_.set_context(&other);
  const auto event = events_.Take();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->context, &other);
}

TEST_F(EventQueueTest, ForgottenSourceIsGoneWhereverItStood) {
  for (EventSource* forgotten : {&first_, &second_, &third_}) {
    for (EventSource* source : {&first_, &second_, &third_}) {
      events_.Raise(*source, EventType::kCommunicationEstablished);
      events_.Raise(*source, EventType::kLastWqeReached);
    }
    events_.Forget(*forgotten);
    events_.Forget(*forgotten);  // again: nothing to forget
    for (EventSource* source : {&first_, &second_, &third_}) {
      if (source == forgotten) continue;
      ExpectNext(*source, EventType::kCommunicationEstablished);
      ExpectNext(*source, EventType::kLastWqeReached);
    }
    EXPECT_FALSE(events_.Take());
  }
}

TEST_F(EventQueueTest, ForgottenSourceCanQueueAgainAtTheEnd) {
  events_.Raise(first_, EventType::kQpFatal);
  events_.Raise(second_, EventType::kQpFatal);
  events_.Forget(first_);
  events_.Raise(first_, EventType::kQpAccessError);
  ExpectNext(second_, EventType::kQpFatal);
  ExpectNext(first_, EventType::kQpAccessError);
  EXPECT_TRUE(events_.empty());
}

}  // namespace
}  // namespace uroce::transport
