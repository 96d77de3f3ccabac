#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/random.h"
#include "transport/cm/connection_manager.h"

namespace uroce::transport::cm {

using simulation::Random;

// Properties of the wire, and timeouts and retries of all connections: drawn once per seed.
struct Conditions {
  bool is_calm = false;  // nothing is lost, doubled or late, and users answer in time
  uint32_t loss_ppm = 0;
  uint32_t duplicate_ppm = 0;
  Duration longest_delay{};
  uint8_t response_timeout = 0;  // exponents
  uint8_t packet_life_time = 0;
  uint8_t max_cm_retries = 0;
  bool has_restarts = false;
};

// One connection that one host asks of another, as both users see it. Users record an action before
// they look at its effects, so the oracle can derive what must be true.
struct Attempt {
  enum class Reaction { kAccept, kReject, kDestroy, kAbandonOnce, kReceiptThenAccept, kNever };
  enum class Confirmation { kReady, kReceiptThenReady, kReject, kDestroy };
  enum class End { kActive, kPassive, kBoth, kDestroyActive, kDestroyPassive, kNone };

  int index = 0;
  int active_host = 0;
  int passive_host = 0;
  Reaction reaction{};
  Confirmation confirmation{};
  End end{};
  bool is_cancelled = false;     // the active user gives up at a random time
  bool has_early_data = false;   // the passive user learns of the connection from data
  bool is_resolution = false;    // SIDR instead of a connection
  bool loads_alternate = false;  // LAP, once established
  bool is_restarted = false;     // one of the hosts was restarted meanwhile

  struct View {
    CommunicationId id{};
    Qpn qpn{};
    Psn psn{};
    bool is_asked = false;     // REQ sent, or seen
    bool is_accepted = false;  // REP seen, or sent
    bool is_ready = false;     // RTU sent, or seen
    bool is_over = false;      // refused, given up, disconnected or destroyed
    bool is_destroyed = false;
    std::optional<RejectReason> reason{};
    int ready_count = 0;
  };
  View active{};
  View passive{};
  CommunicationId replier{};  // the passive id that the active side knows
  bool was_abandoned = false;
  int resolutions_answered = 0;
  bool is_resolved = false;
};

struct Host {
  int index = 0;
  uint64_t epoch = 0;  // grows with each restart
  Gid gid;
  std::unique_ptr<ConnectionManager> manager{};
  CommunicationId listener{};
  std::map<uint32_t, std::pair<int, bool>>
      owners{};  // id -> attempt, and whether it is the active one
  std::vector<Qpn> free_qpns{};
  uint32_t next_qpn = 0x100;
  Time planned_deadline = kNever;
};

// Hosts with a communication manager each, users that connect and disconnect at random, and a wire
// that loses, doubles, delays and reorders, in virtual time. The seed determines everything.
class World {
 public:
  explicit World(uint64_t seed);

  // Returns the first failure; empty if there was none.
  std::string Run();

  // Faults that the oracle must notice, to test the oracle.
  enum class Sabotage { kNone, kLosesRtu, kChangesQpn, kForgetsDestroy };
  void set_sabotage(Sabotage sabotage) { sabotage_ = sabotage; }
  uint64_t established() const { return established_; }
  uint64_t stale() const { return stale_; }

 private:
  using Action = std::function<void()>;

  // world.cc
  void At(Time time, Action action);
  void After(Duration delay, Action action) { At(now_ + delay, std::move(action)); }
  void RunUntilQuiet();
  void Pump(Host& host);
  void Carry(const OutgoingMad& mad, Host& from);
  void PlanDeadline(Host& host);
  void Restart(Host& host);
  Path PathTo(const Host& from, const Host& to) const;
  Duration Patience();  // how long a user takes to answer
  void Fail(const Attempt* attempt, const std::string& what);
  void Check(bool condition, const Attempt* attempt, const char* what) {
    if (!condition) Fail(attempt, what);
  }

  // users.cc
  void Draft(Attempt& attempt);
  void Ask(Attempt& attempt);
  void Cancel(Attempt& attempt, uint64_t epoch);
  void OnEvent(Host& host, const Event& event);
  void OnRequest(Host& host, const Event& event);
  void React(Attempt& attempt, uint64_t epoch);
  void Accept(Attempt& attempt, uint64_t epoch);
  void OnReply(Attempt& attempt, const Rep& rep);
  void Confirm(Attempt& attempt, uint64_t epoch);
  void SendReady(Attempt& attempt, uint64_t epoch);
  void OnReady(Attempt& attempt);
  void PlanEnd(Attempt& attempt);
  void Disconnect(Attempt& attempt, bool is_active, uint64_t epoch);
  void Destroy(Attempt& attempt, bool is_active, uint64_t epoch);
  void OnAnyEvent(Host& host, Attempt& attempt, bool is_active, const Event& event);
  void OnResolution(Host& host, const Event& event);
  void LoadAlternate(Attempt& attempt);
  Attempt::View& ViewOf(Attempt& attempt, bool is_active) {
    return is_active ? attempt.active : attempt.passive;
  }
  Host& HostOf(Attempt& attempt, bool is_active) {
    return hosts_[static_cast<size_t>(is_active ? attempt.active_host : attempt.passive_host)];
  }
  Qpn NewQpn(Host& host);

  // oracle.cc
  void JudgeAttributes(Attempt& attempt);
  void JudgeOutcome(Attempt& attempt);
  void JudgeCalmOutcome(Attempt& attempt);
  void ShutDown();

  Random random_;
  Conditions conditions_;
  Sabotage sabotage_ = Sabotage::kNone;
  Time now_{1'000'000'000};
  uint64_t next_order_ = 0;
  std::map<std::pair<Time, uint64_t>, Action> agenda_;
  std::vector<Host> hosts_;
  std::vector<Attempt> attempts_;
  std::string failure_;
  uint64_t established_ = 0;
  uint64_t stale_ = 0;
};

}  // namespace uroce::transport::cm
