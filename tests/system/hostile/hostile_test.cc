// A victim and bystanders go on while a process of the same fabric attacks: no byte is wrong, no
// request fails, newcomers get in. The test runs itself again as the hostile process. It does not
// measure time: hostile_rates measures how fast the victim still is.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/status_messages.h"
#include "dpdk_nic/port/fabric/fabric_query.h"
#include "tests/dpdk_nic/engine/engine_host.h"
#include "tests/dpdk_nic/port/fabric/test_fabric.h"
#include "tests/system/hostile/hostile_process.h"

namespace uroce::nic {
namespace {

using transport::CompletionStatus;
using transport::SendOpcode;
using transport::Status;

constexpr transport::Duration kTimeout = transport::Milliseconds(120'000);

// Writes bytes that differ each time, and compares every one.
void Exchange(EngineHost& from, EngineHost& to) {
  static uint32_t seed = 0;
  constexpr size_t kBytes = 50'000;
  std::vector<uint8_t>& source = from.memory();
  uint32_t value = ++seed * 2'654'435'761u;
  for (size_t i = 0; i < kBytes; ++i) {
    value = value * 1'664'525 + 1'013'904'223;
    source[i] = static_cast<uint8_t>(value >> 24);
  }
  from.Publish();
  ASSERT_EQ(from.Post(SendOpcode::kRdmaWrite, 0, kBytes), Status::kOk);
  const auto completions = from.Poll(1);
  ASSERT_EQ(completions.size(), 1u);
  ASSERT_EQ(completions[0].status, CompletionStatus::kSuccess);
  const bool is_equal = memcmp(from.memory().data(), to.memory().data(), kBytes) == 0;
  to.Publish();
  ASSERT_TRUE(is_equal) << "a byte is wrong";
}

// Two connected ends on existing engines.
struct Connection {
  Connection(EngineHost& one, EngineHost& other) : a(one.engine()), b(other.engine()) {
    ConnectBoth(a, b, EngineHost::kLongTimeout);
  }
  void Run() {
    ASSERT_NO_FATAL_FAILURE(Exchange(a, b));
    ASSERT_NO_FATAL_FAILURE(Exchange(b, a));
  }
  EngineHost a;
  EngineHost b;
};

class HostileTest : public ::testing::Test {
 protected:
  control::Block victims_block() { return transport::BlockOf(victim_.info().qpn); }

  void RunTraffic() {
    ASSERT_NO_FATAL_FAILURE(with_victim_.Run());
    ASSERT_NO_FATAL_FAILURE(with_others_.Run());
  }
  void LetNewcomerIn() {
    EngineHost newcomer(TestFabric());
    ASSERT_NO_FATAL_FAILURE(Connection(newcomer, first_).Run());
    ASSERT_NO_FATAL_FAILURE(Connection(newcomer, victim_).Run());
  }
  // Runs traffic under the attack until `has_struck` sees an effect of it.
  void Survive(const std::string& attack, const std::function<bool()>& has_struck) {
    const bool is_slow = attack == "deaths" || attack == "sockets";
    // Makes the uplinks, over which datagrams come.
    for (EngineHost* host : {&victim_, &first_, &second_}) {
      ASSERT_EQ(host->engine().PreparePath({}, kTimeout), PacketPort::PathState::kReady);
    }
    RunTraffic();
    {
      HostileProcess hostile(attack, TestFabric(), victims_block());
      for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(hostile.AwaitRounds(is_slow ? 2 : 20));
        ASSERT_NO_FATAL_FAILURE(RunTraffic());
      }
      ASSERT_NO_FATAL_FAILURE(LetNewcomerIn());
      while (!has_struck()) {
        ASSERT_TRUE(hostile.AwaitRounds(1));
        ASSERT_NO_FATAL_FAILURE(RunTraffic());
      }
    }
    RunTraffic();
    LetNewcomerIn();
  }
  uint64_t malformed() { return victim_.engine().port_counters().receive_malformed; }
  static control::StatusDaemon uroced() { return QueryFabric(TestFabric()).value(); }

  EngineHost victim_{TestFabric()};
  EngineHost first_{TestFabric()};
  EngineHost second_{TestFabric()};
  Connection with_victim_{victim_, first_};
  Connection with_others_{first_, second_};
};

class AttackTest : public HostileTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(AttackTest, OtherProcessesGoOn) {
  const std::string attack = GetParam();
  const control::StatusDaemon before = uroced();
  Survive(attack, [&] {
    if (attack == "garbage" || attack == "sockets") return malformed() > 0;
    if (attack == "uplink")
      return uroced().counters.dropped_malformed > before.counters.dropped_malformed;
    if (attack != "contacts") return true;
    const control::StatusDaemon now = uroced();
    return now.counters.frames_between_processes > before.counters.frames_between_processes &&
           now.counters.dropped_no_room > before.counters.dropped_no_room;
  });
}
INSTANTIATE_TEST_SUITE_P(Attacks, AttackTest,
                         ::testing::Values("offers", "sockets", "holes", "garbage", "uplink",
                                           "unauthenticated", "deaf", "contacts", "deaths"),
                         [](const auto& attack) { return std::string(attack.param); });

// The victim's standard error is full, and the device wants to log the attack.
TEST_F(HostileTest, FullStandardErrorBlocksNoThread) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  ASSERT_EQ(fcntl(writer.get(), F_SETFL, O_NONBLOCK), 0);
  const std::string line(4'096, '.');
  while (write(writer.get(), line.data(), line.size()) > 0) {
  }
  while (write(writer.get(), ".", 1) > 0) {
  }
  ASSERT_EQ(fcntl(writer.get(), F_SETFL, 0), 0);
  const UniqueFd standard_error(dup(STDERR_FILENO));
  ASSERT_EQ(dup2(writer.get(), STDERR_FILENO), STDERR_FILENO);
  Survive("garbage", [this] { return malformed() > 0; });
  dup2(standard_error.get(), STDERR_FILENO);
}

}  // namespace
}  // namespace uroce::nic

int main(int argc, char** argv) {
  uroce::nic::HostileProcess::RunIfAsked(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
