#include "transport/qp/deadline_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <vector>

#include "transport/time.h"

namespace uroce::transport {
namespace {

// Records the times of its calls.
class Client : public DeadlineClient {
 public:
  void OnDeadline(Time now) override { called_at.push_back(now.ns); }
  std::vector<int64_t> called_at;
};

// A model of the queue: the deadline of each client that has one.
class Reference {
 public:
  void Set(size_t client, Time deadline) {
    deadlines_.erase(client);
    if (deadline != kNever) deadlines_[client] = deadline.ns;
  }
  // Removes and returns the clients that are due.
  std::vector<size_t> TakeDue(Time now) {
    std::vector<size_t> due;
    for (const auto& [client, deadline] : deadlines_) {
      if (deadline <= now.ns) due.push_back(client);
    }
    for (const size_t client : due) deadlines_.erase(client);
    return due;
  }
  int64_t Earliest() const {
    int64_t earliest = kNever.ns;
    for (const auto& [client, deadline] : deadlines_) earliest = std::min(earliest, deadline);
    return earliest;
  }

 private:
  std::map<size_t, int64_t> deadlines_;
};

class DeadlineQueueTest : public testing::Test {
 protected:
  static constexpr size_t kClients = 100;

  void Set(size_t client, Time deadline) {
    queue_.Set(clients_[client], deadline);
    reference_.Set(client, deadline);
  }
  void Remove(size_t client) {
    queue_.Remove(clients_[client]);
    reference_.Set(client, kNever);
  }
  // Advances the time, and expects calls of exactly the clients that are due.
  void RunDue(Time now) {
    queue_.RunDue(now);
    std::vector<size_t> called;
    for (size_t i = 0; i < kClients; ++i) {
      for (const int64_t at : clients_[i].called_at) {
        EXPECT_EQ(at, now.ns);
        called.push_back(i);
      }
      clients_[i].called_at.clear();
    }
    EXPECT_EQ(called, reference_.TakeDue(now));
  }

  DeadlineQueue queue_;
  std::array<Client, kClients> clients_;
  Reference reference_;
};

TEST_F(DeadlineQueueTest, CallsExactlyTheDueClients) {
  std::mt19937 random(1);
  const auto below = [&random](uint32_t bound) { return static_cast<uint32_t>(random()) % bound; };
  Time now{1};
  for (int step = 0; step < 50'000 && !HasFailure(); ++step) {
    const size_t client = below(kClients);
    switch (below(8)) {
      case 0:
        Remove(client);
        break;
      case 1:
        Set(client, kNever);
        break;
      case 2:
        now = Time{now.ns + int64_t{below(30)}};
        RunDue(now);
        break;
      default:
        Set(client, Time{now.ns + int64_t{below(500)}});
    }
    EXPECT_LE(queue_.Next().ns, reference_.Earliest()) << "step " << step;
  }
}

// The queue waits for a new or an advanced deadline at once. It notices a postponed deadline only
// when the old one comes.
TEST_F(DeadlineQueueTest, NextIsTheEarliest) {
  Set(0, Time{50});
  Set(1, Time{70});
  EXPECT_EQ(queue_.Next(), Time{50});
  Set(1, Time{20});
  EXPECT_EQ(queue_.Next(), Time{20});
  Set(1, Time{90});
  RunDue(Time{20});
  EXPECT_EQ(queue_.Next(), Time{50});
  Remove(0);
  EXPECT_EQ(queue_.Next(), Time{90});
  Remove(1);
  EXPECT_EQ(queue_.Next(), kNever);
}

// Every acknowledgement postpones a timer, which must not cost a heap operation each time: the
// queue keeps the old time.
TEST_F(DeadlineQueueTest, PostponementLeavesTheHeapAlone) {
  Set(0, Time{10});
  Set(0, Time{1'000});
  EXPECT_EQ(queue_.Next(), Time{10});
  RunDue(Time{10});
  EXPECT_EQ(queue_.Next(), Time{1'000});
}

}  // namespace
}  // namespace uroce::transport
