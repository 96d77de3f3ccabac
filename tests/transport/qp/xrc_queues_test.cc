#include "transport/qp/xrc_queues.h"

#include <gtest/gtest.h>

#include <deque>

#include "transport/limits.h"
#include "transport/qp/shared_receive_queue.h"

namespace uroce::transport {
namespace {

class XrcQueuesTest : public testing::Test {
 protected:
  SharedReceiveQueue& NewQueue(XrcDomainId domain = XrcDomainId{1}) {
    return all_.emplace_back(
        SrqInitAttributes{.pd = {}, .max_work_requests = 1, .max_sges = 0, .xrc_domain = domain},
        events_);
  }

  EventQueue events_;
  std::deque<SharedReceiveQueue> all_;
  XrcQueues queues_{Srqn{0x100}, kMaxSrqs};
};

TEST_F(XrcQueuesTest, QueuesAreFoundInTheirDomain) {
  SharedReceiveQueue& one = NewQueue();
  SharedReceiveQueue& two = NewQueue(XrcDomainId{2});
  EXPECT_EQ(queues_.Add(one), Status::kOk);
  EXPECT_EQ(queues_.Add(two), Status::kOk);
  EXPECT_NE(one.srqn(), two.srqn());
  EXPECT_EQ(queues_.Find(XrcDomainId{1}, one.srqn()), &one);
  EXPECT_EQ(queues_.Find(XrcDomainId{2}, two.srqn()), &two);
  EXPECT_EQ(queues_.Find(XrcDomainId{2}, one.srqn()), nullptr);
  EXPECT_EQ(queues_.Find(XrcDomainId{1}, Srqn{two.srqn().value + 1}), nullptr);
  EXPECT_EQ(queues_.Find(XrcDomainId{1}, Srqn{0}), nullptr);
  EXPECT_EQ(queues_.Find(XrcDomainId{1}, Srqn{0xff'ffff}), nullptr);
}

TEST_F(XrcQueuesTest, NumbersComeBackAsLateAsPossible) {
  SharedReceiveQueue& first = NewQueue();
  SharedReceiveQueue& second = NewQueue();
  EXPECT_EQ(queues_.Add(first), Status::kOk);
  EXPECT_EQ(queues_.Add(second), Status::kOk);
  const Srqn firsts = first.srqn();
  const Srqn seconds = second.srqn();
  queues_.Remove(first);
  queues_.Remove(second);
  EXPECT_EQ(queues_.Find(XrcDomainId{1}, firsts), nullptr);
  for (uint32_t i = 2; i < kMaxSrqs; ++i) {
    SharedReceiveQueue& queue = NewQueue();
    EXPECT_EQ(queues_.Add(queue), Status::kOk);
    EXPECT_TRUE(queue.srqn() != firsts && queue.srqn() != seconds);
    EXPECT_LE(queue.srqn().value, 0xff'ffffu);
  }
  EXPECT_EQ(queues_.Add(first), Status::kOk);
  EXPECT_EQ(first.srqn(), firsts);
  EXPECT_EQ(queues_.Add(second), Status::kOk);
  EXPECT_EQ(second.srqn(), seconds);
  EXPECT_EQ(queues_.Add(NewQueue()), Status::kNoMemory);
}

}  // namespace
}  // namespace uroce::transport
