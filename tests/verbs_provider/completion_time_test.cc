// Completion timestamps, the device's clock, and completion queues that hold their events back.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <time.h>

#include <cerrno>
#include <cstdint>

#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

constexpr uint64_t kBothTimes =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

uint64_t WallClock() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

class CompletionTimeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ibv_cq_init_attr_ex attr = {};
    attr.cqe = 16;
    attr.wc_flags = kBothTimes;
    extended = ibv_create_cq_ex(host.context.get(), &attr);
    ASSERT_NE(extended, nullptr);
    cq.reset(ibv_cq_ex_to_cq(extended));
    send_cq = host.CreateCq(16);
    ibv_qp_init_attr basic = RcAttributes(send_cq.get(), cq.get());
    a.reset(ibv_create_qp(host.pd.get(), &basic));
    b.reset(ibv_create_qp(host.pd.get(), &basic));
    ASSERT_NE(a, nullptr);
    ASSERT_NE(b, nullptr);
    ConnectLoopback(a.get(), b.get());
  }

  uint64_t DeviceClock() {
    ibv_values_ex values = {};
    values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    EXPECT_EQ(ibv_query_rt_values_ex(host.context.get(), &values), 0);
    EXPECT_EQ(values.comp_mask, uint32_t{IBV_VALUES_MASK_RAW_CLOCK});
    EXPECT_EQ(values.raw_clock.tv_sec, 0);
    return static_cast<uint64_t>(values.raw_clock.tv_nsec);
  }
  void SendOne() {
    ASSERT_EQ(PostReceive(b.get(), host.Sge(4096, 64), 1), 0);
    ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8)).Post(a.get()), 0);
    ASSERT_EQ(WaitForCompletion(send_cq.get()).status, IBV_WC_SUCCESS);
  }

  Host host;
  ibv_cq_ex* extended = nullptr;
  Cq cq, send_cq;
  Qp a, b;
};

TEST_F(CompletionTimeTest, TimestampsLieBetweenReadingsOfTheClock) {
  uint64_t previous = 0;
  for (int round = 0; round < 3; ++round) {
    const uint64_t wall_before = WallClock();
    const uint64_t before = DeviceClock();
    SendOne();
    const uint64_t after = DeviceClock();
    ibv_poll_cq_attr attr = {};
    ASSERT_EQ(ibv_start_poll(extended, &attr), 0);
    const uint64_t time = ibv_wc_read_completion_ts(extended);
    EXPECT_GE(time, before);
    EXPECT_LE(time, after);
    EXPECT_GT(time, previous);
    previous = time;
    // The engine's clock may be a microsecond off the system's.
    const uint64_t wall_time = ibv_wc_read_completion_wallclock_ns(extended);
    EXPECT_GE(wall_time + 10'000, wall_before);
    EXPECT_LE(wall_time, WallClock() + 10'000);
    ibv_end_poll(extended);
  }
}

TEST_F(CompletionTimeTest, WallClockTimesStayAndNeverGoBack) {
  constexpr int kRounds = 500;
  uint64_t last = 0;
  for (int round = 0; round < kRounds; ++round) {
    SendOne();
    SendOne();
    ibv_poll_cq_attr attr = {};
    ASSERT_EQ(ibv_start_poll(extended, &attr), 0);
    do {
      const uint64_t time = ibv_wc_read_completion_wallclock_ns(extended);
      ASSERT_GE(time, last);
      ASSERT_EQ(ibv_wc_read_completion_wallclock_ns(extended), time);
      last = time;
    } while (ibv_next_poll(extended) == 0);
    ibv_end_poll(extended);
  }
}

// No pass of the engine runs, so the verb itself has to read the time.
TEST_F(CompletionTimeTest, RequestsThatAVerbFlushesHaveItsTime) {
  ASSERT_EQ(PostReceive(b.get(), host.Sge(4096, 64), 1), 0);
  const uint64_t before = DeviceClock();
  ASSERT_EQ(Modify(b.get(), IBV_QPS_ERR), 0);
  const uint64_t after = DeviceClock();
  ibv_poll_cq_attr attr = {};
  ASSERT_EQ(ibv_start_poll(extended, &attr), 0);
  EXPECT_EQ(extended->status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_GE(ibv_wc_read_completion_ts(extended), before);
  EXPECT_LE(ibv_wc_read_completion_ts(extended), after);
  ibv_end_poll(extended);
}

TEST_F(CompletionTimeTest, UnknownValuesAreInvalid) {
  ibv_values_ex values = {};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK << 1;
  EXPECT_EQ(ibv_query_rt_values_ex(host.context.get(), &values), EINVAL);
}

// `a` sends to `b`, whose completion queue raises an event for three completions or after 20 ms.
class ModerationTest : public ::testing::Test {
 protected:
  static constexpr uint16_t kPeriod_us = 20'000;

  void SetUp() override {
    channel.reset(ibv_create_comp_channel(host.context.get()));
    ASSERT_NE(channel, nullptr);
    send_cq = host.CreateCq(16);
    receive_cq = host.CreateCq(16, channel.get());
    ibv_qp_init_attr attr = RcAttributes(send_cq.get(), receive_cq.get());
    a.reset(ibv_create_qp(host.pd.get(), &attr));
    b.reset(ibv_create_qp(host.pd.get(), &attr));
    ConnectLoopback(a.get(), b.get());
    ASSERT_EQ(Moderate(3, kPeriod_us), 0);
    ASSERT_EQ(ibv_req_notify_cq(receive_cq.get(), 0), 0);
  }

  int Moderate(uint16_t count, uint16_t period) {
    ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
                               .moderate = {.cq_count = count, .cq_period = period}};
    return ibv_modify_cq(receive_cq.get(), &attr);
  }
  void SendOne() {
    ASSERT_EQ(PostReceive(b.get(), host.Sge(4096, 64), 1), 0);
    ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8)).Post(a.get()), 0);
    ASSERT_EQ(WaitForCompletion(send_cq.get()).status, IBV_WC_SUCCESS);
  }
  bool ChannelBecomesReadable(int timeout_ms) {
    pollfd fd = {.fd = channel->fd, .events = POLLIN, .revents = 0};
    return poll(&fd, 1, timeout_ms) == 1;
  }
  void TakeEvent() {
    ibv_cq* of = nullptr;
    void* context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel.get(), &of, &context), 0);
    EXPECT_EQ(of, receive_cq.get());
    ibv_ack_cq_events(of, 1);
  }

  Host host;
  Channel channel;
  Cq send_cq, receive_cq;
  Qp a, b;
};

TEST_F(ModerationTest, ManyCompletionsAreOneEvent) {
  ASSERT_EQ(Moderate(3, UINT16_MAX), 0);
  for (int count = 0; count < 3; ++count) SendOne();
  EXPECT_TRUE(ChannelBecomesReadable(0));
  TakeEvent();
  EXPECT_FALSE(ChannelBecomesReadable(0));
}

TEST_F(ModerationTest, FewCompletionsAreAnEventAfterThePeriod) {
  timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  SendOne();
  EXPECT_TRUE(ChannelBecomesReadable(10'000));
  clock_gettime(CLOCK_MONOTONIC, &end);
  const int64_t elapsed_us =
      (end.tv_sec - start.tv_sec) * 1'000'000 + (end.tv_nsec - start.tv_nsec) / 1'000;
  EXPECT_GE(elapsed_us, int64_t{kPeriod_us});
  TakeEvent();
}

TEST_F(ModerationTest, DisablingModerationRaisesTheHeldBackEvent) {
  ASSERT_EQ(Moderate(3, UINT16_MAX), 0);
  SendOne();
  ASSERT_EQ(Moderate(0, 0), 0);
  EXPECT_TRUE(ChannelBecomesReadable(0));
  TakeEvent();
}

TEST_F(ModerationTest, OtherAttributesAreInvalid) {
  ibv_modify_cq_attr attr = {.attr_mask = 0, .moderate = {.cq_count = 2, .cq_period = 2}};
  EXPECT_EQ(ibv_modify_cq(receive_cq.get(), &attr), EINVAL);
  attr.attr_mask = IBV_CQ_ATTR_MODERATE << 1;
  EXPECT_EQ(ibv_modify_cq(receive_cq.get(), &attr), EINVAL);
}

}  // namespace
}  // namespace uroce::verbs::testing
