#pragma once

#include <cstdint>
#include <vector>

#include "tests/simulation/application.h"
#include "tests/simulation/context.h"
#include "tests/simulation/host.h"
#include "tests/simulation/random.h"
#include "tests/simulation/scenario.h"

namespace uroce::transport::simulation {

// Connects two applications, once or several times:
//
//    create ─► INIT ─► RTR ─► RTS ─► both finished, ─► ERR ─► RESET, or destroy ─► create ...
//                                    or any time        │        ▲
//                                                       └────────┘
//
// The ends take each step at times of their own, so frames still on the wire arrive in the next
// session.
class Connection : public Process {
 public:
  Connection(Context& context, const ConnectionScenario& config, Application& a, Application& b,
             Random random);

  void Start() { Open(); }
  void OnActivity() override;
  bool finished() const { return finished_; }
  // Call when nothing is under way any more.
  void CheckEnd();

 private:
  static constexpr uint64_t kLongestStepNs = 20'000;

  void Open();
  void End();
  void Close(size_t which, bool destroy);
  void BothClosed();
  bool IsLast() const { return session_ + 1 == config_.sessions; }
  Psn UnusedPsn();
  template <class Action>
  void Soon(Action action);

  Context& context_;
  ConnectionScenario config_;
  Application* ends_[2];
  Random random_;
  uint32_t session_ = 0;
  bool ending_ = false;
  bool finished_ = false;
  int closed_ = 0;
  std::vector<Psn> used_psns_;
};

}  // namespace uroce::transport::simulation
