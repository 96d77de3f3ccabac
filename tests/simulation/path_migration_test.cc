// Connections with two paths, on a wire that loses, delays and reorders. Each path in turn goes
// silent, or an end gives it up. No request under way may be lost, damaged or done twice.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tests/simulation/random.h"
#include "tests/transport/connected_pair.h"
#include "transport/wire/frame_parser.h"

namespace uroce::transport::simulation {
namespace {

using M = QpAttributeMask;

constexpr uint64_t kSeeds = 1'500;
constexpr int kPaths = 2;
constexpr int kOutstanding = 8;             // requests of an end
constexpr uint32_t kSlotBytes = 4'096;      // of memory that a request works on
constexpr size_t kTargets = 64 * 4'096;     // where the peer's WRITEs go
constexpr size_t kCounter = 1'000 * 1'024;  // for the peer's FETCH_ADDs
constexpr int kMaxSteps = 400'000;

EndpointConfig ConfigOf(uint8_t number) {
  const MacAddress mac{2, 0, 0, 0, 0, number};
  return {.mac = mac,
          .gids = {Gid::LinkLocal(mac), Gid::FromIpv4({10, 0, 0, number}),
                   Gid::FromIpv4({10, 0, 1, number})},
          .probes = true};
}

// An end of the connection, and the program that uses it.
struct End {
  explicit End(uint8_t number) : host(ConfigOf(number)) {}

  TestHost host;
  End* peer = nullptr;
  int path = 0;  // the latest path it was told to use
  int posted = 0;
  int completed = 0;
  uint64_t adds = 0;  // of completed FETCH_ADDs
  int migrations = 0;
  bool failed = false;
  std::map<uint64_t, uint32_t> bytes;  // by wr_id: bytes that both ends must share
};

class Migrations {
 public:
  explicit Migrations(uint64_t seed) : random_(seed) {
    ends_[0].peer = &ends_[1];
    ends_[1].peer = &ends_[0];
    loss_percent_ = static_cast<uint32_t>(random_.Below(5));
    for (End& end : ends_) {
      const EndpointConfig& to = end.peer->host.endpoint.config();
      end.host.Connect(to.gids[1], to.mac, end.peer->host.qp->qpn(), 1, Mtu::k1024);
    }
  }

  // Makes `rounds` migrations. Returns what went wrong, or an empty string.
  std::string Run(int rounds) {
    for (int round = 1; round <= rounds; ++round) {
      for (End& end : ends_) Rearm(end);
      if (!RunUntil([this] { return IsArmed(ends_[0]) && IsArmed(ends_[1]); })) return Say("arm");
      PassTime(random_.Below(300));
      GiveUpPath();
      const auto all_migrated = [this, round] {
        return ends_[0].migrations == round && ends_[1].migrations == round;
      };
      if (!RunUntil(all_migrated)) return Say("migrate");
      is_silent_ = {};
    }
    posts_ = false;
    const auto all_done = [this] {
      return ends_[0].completed == ends_[0].posted && ends_[1].completed == ends_[1].posted;
    };
    if (!RunUntil(all_done)) return Say("complete");
    for (End& end : ends_) {
      uint64_t counter;
      std::memcpy(&counter, &end.peer->host.memory[kCounter], sizeof counter);
      if (counter != end.adds) return Say("count atomics");
      if (end.host.qp->Query().migration_state != MigrationState::kMigrated) return Say("settle");
      if (end.migrations != rounds) return Say("migrate once a round");
    }
    return {};
  }
  uint64_t failovers() const { return failovers_; }

 private:
  struct Frame {
    int to;
    std::vector<uint8_t> bytes;
  };

  std::string Say(const char* what) const {
    std::string text = std::string("did not ") + what;
    for (const End& end : ends_) {
      text += "; state " + std::to_string(static_cast<int>(end.host.qp->state())) + " migration " +
              std::to_string(static_cast<int>(end.host.qp->Query().migration_state)) + ", " +
              std::to_string(end.completed) + " of " + std::to_string(end.posted) + ", " +
              std::to_string(end.migrations) + " migrations";
    }
    return text;
  }
  static bool IsArmed(const End& end) {
    return end.host.qp->Query().migration_state == MigrationState::kArmed;
  }
  bool HasFailed() const { return ends_[0].failed || ends_[1].failed; }

  void Rearm(End& end) {
    end.path = 1 - end.path;
    QpAttributes a;
    const EndpointConfig& to = end.peer->host.endpoint.config();
    const auto gid_index = static_cast<uint8_t>(1 + end.path);
    a.alternate_address = {.destination_gid = to.gids[gid_index],
                           .destination_mac = to.mac,
                           .source_gid_index = gid_index};
    a.alternate_port_num = 1;
    a.alternate_timeout = 14;
    a.migration_state = MigrationState::kRearm;
    EXPECT_EQ(end.host.qp->Modify(a, M::kAlternatePath | M::kMigrationState), Status::kOk);
  }
  void MigrateByRequest(End& end) {
    QpAttributes a;
    a.migration_state = MigrationState::kMigrated;
    EXPECT_EQ(end.host.qp->Modify(a, M::kMigrationState), Status::kOk);
  }
  void GiveUpPath() {
    const int choice = static_cast<int>(random_.Below(4));
    if (choice == 0) {
      is_silent_[1 - ends_[0].path] = true;
      ++failovers_;
      return;
    }
    if (choice != 1) MigrateByRequest(ends_[0]);
    if (choice != 2) MigrateByRequest(ends_[1]);
  }

  // Runs until `condition` holds. False if it never does.
  template <class Condition>
  bool RunUntil(Condition condition) {
    for (int step = 0; step < kMaxSteps && !HasFailed(); ++step) {
      if (condition()) return true;
      Step();
    }
    return condition() && !HasFailed();
  }
  void PassTime(uint64_t steps) {
    for (uint64_t step = 0; step < steps; ++step) Step();
  }

  void Step() {
    for (int i = 0; i < 2; ++i) {
      Post(ends_[i]);
      Send(i);
    }
    Time next =
        std::min(ends_[0].host.endpoint.NextDeadline(), ends_[1].host.endpoint.NextDeadline());
    if (!wire_.empty()) next = std::min(next, wire_.begin()->first);
    if (next == kNever) return;
    now_ = std::max(now_, next);
    while (!wire_.empty() && wire_.begin()->first <= now_) {
      const Frame frame = std::move(wire_.extract(wire_.begin()).mapped());
      ends_[frame.to].host.endpoint.OnFrame(now_, frame.bytes);
    }
    for (End& end : ends_) {
      end.host.endpoint.OnDeadline(now_);
      Poll(end);
      while (const auto event = end.host.endpoint.TakeEvent()) {
        end.migrations += event->type == EventType::kPathMigrated;
        end.failed |= event->type == EventType::kPathMigrationError;
      }
    }
  }

  void Send(int from) {
    std::array<uint8_t, kMaxFrameBytes> buffer;
    Endpoint& endpoint = ends_[from].host.endpoint;
    while (const size_t bytes = endpoint.PollTransmit(now_, Route::kWire, FrameRoom(buffer))) {
      const std::span frame = std::span(buffer).first(bytes);
      Packet packet;
      ASSERT_EQ(ParseFrame(frame, packet), DropReason::kNone);
      const int path = packet.flow.destination.bytes[14];
      if (is_silent_[path] || random_.Percent(loss_percent_)) continue;
      const Duration delay = Microseconds(static_cast<int64_t>(5 + random_.Below(10)));
      wire_.emplace(now_ + delay, Frame{1 - from, {frame.begin(), frame.end()}});
    }
  }

  // WRITEs, READs of memory written before, and FETCH_ADDs.
  void Post(End& end) {
    while (posts_ && end.posted - end.completed < kOutstanding) {
      const auto wr_id = static_cast<uint64_t>(end.posted++);
      const size_t slot = wr_id % 16 * kSlotBytes;
      const bool is_atomic = random_.Percent(20);
      const auto length =
          is_atomic ? 8 : static_cast<uint32_t>(random_.Between(1, random_.Pick({100, 4'000})));
      const ScatterGatherEntry sge = {end.host.address(slot), length, end.host.key};
      SendWorkRequest request;
      request.wr_id = wr_id;
      request.signaled = true;
      request.sges = {&sge, 1};
      request.rkey = end.peer->host.rkey();
      request.remote_address = end.peer->host.address(is_atomic ? kCounter : kTargets + slot);
      request.opcode = is_atomic             ? SendOpcode::kFetchAndAdd
                       : random_.Percent(30) ? SendOpcode::kRdmaRead
                                             : SendOpcode::kRdmaWrite;
      request.compare_or_add = random_.Below(1'000);
      if (is_atomic) end.adds += request.compare_or_add;
      if (request.opcode == SendOpcode::kRdmaWrite) {
        random_.Fill(std::span(end.host.memory).subspan(slot, length));
      }
      end.bytes[wr_id] = is_atomic ? 0 : length;
      EXPECT_EQ(end.host.qp->PostSend(request), Status::kOk);
    }
  }
  void Poll(End& end) {
    for (const Completion& completion : end.host.Poll()) {
      const uint64_t wr_id = completion.wr_id;
      const bool is_next = wr_id == static_cast<uint64_t>(end.completed++);
      const size_t slot = wr_id % 16 * kSlotBytes;
      const bool is_right =
          std::memcmp(&end.host.memory[slot], &end.peer->host.memory[kTargets + slot],
                      end.bytes[wr_id]) == 0;
      end.failed |= completion.status != CompletionStatus::kSuccess || !is_next || !is_right;
      end.bytes.erase(wr_id);
    }
  }

  Random random_;
  std::array<End, 2> ends_{End(1), End(2)};
  std::multimap<Time, Frame> wire_;
  std::array<bool, kPaths> is_silent_{};
  uint32_t loss_percent_ = 0;
  uint64_t failovers_ = 0;
  bool posts_ = true;
  Time now_{1'000};
};

TEST(PathMigrationSimulation, NothingIsLostOrDoneTwiceForAnySeed) {
  uint64_t failovers = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Migrations run(seed);
    const std::string failure = run.Run(1 + static_cast<int>(seed % 4));
    ASSERT_EQ(failure, "") << "seed " << seed;
    failovers += run.failovers();
  }
  EXPECT_GT(failovers, kSeeds / 4);
}

}  // namespace
}  // namespace uroce::transport::simulation
