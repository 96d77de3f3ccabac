// Models of programs over the drive policies, in virtual time: two hosts that send messages to each
// other.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "dpdk_nic/engine/drive_policy/limits.h"
#include "tests/dpdk_nic/engine/drive_simulation/host.h"
#include "tests/dpdk_nic/engine/drive_simulation/machine.h"

namespace uroce::nic::simulation {
namespace {

using transport::Microseconds;
using transport::Milliseconds;

constexpr Duration kLoopCost{50};  // a turn of a program's own loop

// Receives message number `next` by polling its completion queue.
Task<void> SpinOnCq(Thread& self, Host& host, PollPolicy& pause, uint64_t next) {
  while (host.messages().received < next) co_await host.Poll(self, pause);
}

// The same by looking at its memory, as ib_write_lat does: the engine is not called.
Task<void> SpinOnMemory(Thread& self, Host& host, uint64_t next) {
  while (host.messages().received < next) co_await self.Work(kLoopCost);
}

class DriveSimulationTest : public testing::Test {
 protected:
  // Two hosts on a machine of their own each, or on one machine. Each process has two threads.
  void UseProcessors(size_t processors, size_t of_client, size_t of_server) {
    machine_ = std::make_unique<Machine>(processors);
    client_ = std::make_unique<Host>(*machine_, of_client);
    server_ = std::make_unique<Host>(*machine_, of_server);
    client_->Connect(*server_);
    server_->Connect(*client_);
    began_ = machine_->now();
  }
  void SetUp() override { UseProcessors(4, 1, 3); }

  void Run(Duration span) { machine_->RunUntil(machine_->now() + span); }
  // The share of one processor, in thousandths.
  int64_t Thousandths(const Thread& thread) const {
    return thread.used().ns * 1'000 / (machine_->now() - began_).ns;
  }
  int64_t RoundTripsA(Duration span) const {
    const auto round_trips = static_cast<int64_t>(client_->messages().received);
    return round_trips * span.ns / (machine_->now() - began_).ns;
  }

  std::unique_ptr<Machine> machine_;
  std::unique_ptr<Host> client_;
  std::unique_ptr<Host> server_;
  Time began_;
};

// One message to and fro at a time; each side waits by `wait(self, host, number)`.
template <class Wait>
void StartPingPong(Machine& machine, Host& client, Host& server, size_t of_client, size_t of_server,
                   Wait wait) {
  machine.Start(of_client, [&client, wait](Thread& self) -> Task<void> {
    for (uint64_t next = 1;; ++next) {
      co_await client.Post(self);
      co_await wait(self, client, next);
    }
  });
  machine.Start(of_server, [&server, wait](Thread& self) -> Task<void> {
    for (uint64_t next = 1;; ++next) {
      co_await wait(self, server, next);
      co_await server.Post(self);
    }
  });
}

auto BySpinningOnCq() {
  return [pause = std::make_shared<std::map<Host*, PollPolicy>>()](Thread& self, Host& host,
                                                                   uint64_t next) -> Task<void> {
    return SpinOnCq(self, host, (*pause)[&host], next);
  };
}

// A round trip is two flights, two flushes and four passes: 16 us.
TEST_F(DriveSimulationTest, ProgramThatSpinsOnItsQueueDrivesAndTheProgressThreadStandsBy) {
  StartPingPong(*machine_, *client_, *server_, 0, 2, BySpinningOnCq());
  Run(Milliseconds(100));
  EXPECT_GT(RoundTripsA(Milliseconds(1)), 50);
  EXPECT_LT(Thousandths(client_->progress_thread()), 60) << "looks once a millisecond";
  EXPECT_LT(server_->longest_unread(), Microseconds(20));
}

TEST_F(DriveSimulationTest, ProgramThatSpinsOnMemoryIsServedByTheProgressThread) {
  StartPingPong(*machine_, *client_, *server_, 0, 2,
                [](Thread& self, Host& host, uint64_t next) -> Task<void> {
                  return SpinOnMemory(self, host, next);
                });
  Run(Milliseconds(100));
  EXPECT_GT(RoundTripsA(Milliseconds(1)), 40);
  EXPECT_LT(server_->longest_unread(), Milliseconds(2));
}

// It polls between its rounds, so that it seems to drive; doubts keep what is lost small.
TEST_F(DriveSimulationTest, ProgramThatPollsForAWhileAndThenSpinsOnMemoryLosesLittle) {
  const auto alternate = [pause = std::make_shared<std::map<Host*, PollPolicy>>()](
                             Thread& self, Host& host, uint64_t next) -> Task<void> {
    for (int polls = 0; polls < 12 && next % 4 == 0; ++polls) {
      co_await host.Poll(self, (*pause)[&host]);
    }
    co_await SpinOnMemory(self, host, next);
  };
  StartPingPong(*machine_, *client_, *server_, 0, 2, alternate);
  Run(Milliseconds(300));
  EXPECT_GT(RoundTripsA(Milliseconds(1)), 40);
  EXPECT_LE(server_->longest_unread(), drive::kFirstLook * 3 + Machine::kWakeup * 4);
}

// An event costs two wakeups: of the progress thread and of the program.
TEST_F(DriveSimulationTest, ProgramThatSleepsOnItsEventChannelIsWoken) {
  StartPingPong(*machine_, *client_, *server_, 0, 2,
                [](Thread& self, Host& host, uint64_t next) -> Task<void> {
                  while (host.messages().received < next) co_await host.AwaitEvent(self);
                });
  Run(Milliseconds(100));
  EXPECT_GT(RoundTripsA(Milliseconds(1)), 10);
  EXPECT_LT(client_->longest_unread(), Microseconds(100));
}

TEST_F(DriveSimulationTest, IdleProcessesUseNoProcessor) {
  Run(Milliseconds(1'000));
  EXPECT_LT(client_->progress_thread().used(), Milliseconds(1));
}

// Answers must not pile up until the ACK timeout, and 64 frames leave in one call.
TEST_F(DriveSimulationTest, ProgramThatPostsForLongReadsItsAnswers) {
  machine_->Start(0, [this](Thread& self) -> Task<void> {
    PollPolicy pause;
    for (int i = 0; i < 20'000; ++i) co_await client_->Post(self);
    while (client_->messages().completed < 20'000) co_await client_->Poll(self, pause);
  });
  Run(Milliseconds(100));
  EXPECT_EQ(client_->messages().completed, 20'000u);
  EXPECT_LT(client_->longest_unread(), Milliseconds(2));
}

TEST_F(DriveSimulationTest, ProgramThatPollsWhileItPostsSendsManyMessagesInACall) {
  machine_->Start(0, [this](Thread& self) -> Task<void> {
    PollPolicy pause;
    while (true) {
      while (client_->messages().posted < client_->messages().completed + 128) {
        co_await client_->Post(self);
      }
      co_await client_->Poll(self, pause);
    }
  });
  Run(Milliseconds(100));
  EXPECT_GT(client_->messages().completed, client_->flushes() * 16);
}

// It computes for long. What arrives meanwhile is the progress thread's.
TEST_F(DriveSimulationTest, ProgramThatPollsRarelyIsServedByTheProgressThread) {
  machine_->Start(0, [this](Thread& self) -> Task<void> {
    PollPolicy pause;
    while (true) {
      co_await self.Work(Milliseconds(5));
      for (int polls = 0; polls < 40; ++polls) co_await client_->Poll(self, pause);
    }
  });
  machine_->Start(2, [this](Thread& self) -> Task<void> {
    while (true) {
      co_await server_->Post(self);
      co_await self.SleepUntil(machine_->now() + Microseconds(200));
    }
  });
  Run(Milliseconds(500));
  EXPECT_GT(client_->messages().received, 2'000u);
  EXPECT_LT(client_->longest_unread(), Microseconds(300));
}

TEST_F(DriveSimulationTest, ProcessThatWasStoppedGoesOnWhereItWas) {
  Thread* server_program = nullptr;
  const auto wait = BySpinningOnCq();
  StartPingPong(*machine_, *client_, *server_, 0, 2,
                [&server_program, wait, server = server_.get()](Thread& self, Host& host,
                                                                uint64_t next) -> Task<void> {
                  if (&host == server) server_program = &self;
                  return wait(self, host, next);
                });
  Run(Milliseconds(20));
  machine_->Freeze(*server_program);
  machine_->Freeze(server_->progress_thread());
  Run(Milliseconds(500));
  const uint64_t before = client_->messages().received;
  machine_->Thaw(*server_program);
  machine_->Thaw(server_->progress_thread());
  Run(Milliseconds(20));
  EXPECT_GT(client_->messages().received, before + 500);
}

// Programs that spin on one processor take turns: a round trip takes microseconds, not slices.
TEST_F(DriveSimulationTest, TwoProcessesOnOneProcessorTakeTurns) {
  UseProcessors(1, 0, 0);
  StartPingPong(*machine_, *client_, *server_, 0, 0, BySpinningOnCq());
  Run(Milliseconds(500));
  EXPECT_GT(RoundTripsA(Milliseconds(1)), 20);
  EXPECT_LT(server_->longest_unread(), Machine::kSlice);
}

}  // namespace
}  // namespace uroce::nic::simulation
