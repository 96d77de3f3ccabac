#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstring>
#include <functional>

#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {

// The fixture for tests in which queue pairs of one device talk to each other. Senders use the
// lower half of the buffer, receivers the upper one.
class LoopbackTest : public ::testing::Test {
 protected:
  static constexpr size_t kUpper = 32'768;

  bool Arrived(size_t from, size_t to, size_t length) const {
    return std::memcmp(host.buffer.data() + from, host.buffer.data() + to, length) == 0;
  }
  void ExpectNothingReceived() {
    ibv_wc wc;
    EXPECT_EQ(ibv_poll_cq(receive_cq.get(), 1, &wc), 0);
  }
  ibv_gid OwnGid(uint8_t index = 1) {
    ibv_gid gid = {};
    EXPECT_EQ(ibv_query_gid(host.context.get(), 1, index, &gid), 0);
    return gid;
  }

  Host host;
  Cq cq = host.CreateCq(64), receive_cq = host.CreateCq(64);
};

// `a` sends to `b`, whose completions are announced by events.
struct AnnouncedPair {
  explicit AnnouncedPair(Host& host);

  Channel channel;
  Cq send_cq, receive_cq;
  Qp a, b;
};

// Expects that `destroy` waits until the application has acknowledged the object's events.
void ExpectWaitsForAcknowledgement(const std::function<int()>& destroy,
                                   const std::function<void()>& acknowledge);

}  // namespace uroce::verbs::testing
