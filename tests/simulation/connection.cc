#include "tests/simulation/connection.h"

#include <algorithm>
#include <cstdlib>

namespace uroce::transport::simulation {

Connection::Connection(Context& context, const ConnectionScenario& config, Application& a,
                       Application& b, Random random)
    : context_(context), config_(config), ends_{&a, &b}, random_(random) {
  a.SetPeer(b);
  b.SetPeer(a);
  for (const EndScenario& end : config.ends) used_psns_.push_back(end.first_psn);
}

template <class Action>
void Connection::Soon(Action action) {
  context_.simulator.After(Duration{static_cast<int64_t>(random_.Below(kLongestStepNs))}, action);
}

// Keeps packets of different sessions distinguishable.
Psn Connection::UnusedPsn() {
  const auto near = [](Psn a, Psn b) {
    return std::abs(a.DistanceFrom(b)) < 2 * NetworkMonitor::kPsnsOfASession;
  };
  while (true) {
    Psn psn(static_cast<uint32_t>(random_.Next()));
    if (random_.Percent(30)) psn = Psn(Psn::kMask - static_cast<uint32_t>(random_.Below(200)));
    const bool used = std::any_of(used_psns_.begin(), used_psns_.end(),
                                  [&](Psn other) { return near(psn, other); });
    if (used) continue;
    used_psns_.push_back(psn);
    return psn;
  }
}

void Connection::Open() {
  ending_ = false;
  closed_ = 0;
  const bool poisoned = session_ == config_.poisoned_session;
  for (size_t i = 0; i < 2; ++i) {
    const Psn psn = session_ == 0 ? config_.ends[i].first_psn : UnusedPsn();
    ends_[i]->Create(psn, poisoned && config_.ends[i].poison != Poison::kNone);
  }
  context_.monitor.AddConnection(ends_[0]->MonitoredEnd(), ends_[1]->MonitoredEnd());
  // As a connection manager ensures: an end may send only when its peer is ready to receive.
  for (Application* end : ends_) end->BecomeReadyToReceive();
  for (Application* end : ends_) {
    if (random_.Percent(50)) {
      end->BecomeReadyToSend();
    } else {
      Soon([end] { end->BecomeReadyToSend(); });
    }
  }
  if (config_.ends_abruptly && !IsLast()) {
    const auto after_ns = static_cast<int64_t>(random_.Below(200'000));
    context_.simulator.After(Duration{after_ns}, [this, session = session_] {
      if (session == session_) End();
    });
  }
}

void Connection::OnActivity() {
  if (ending_ || finished_ || !ends_[0]->finished() || !ends_[1]->finished()) return;
  if (IsLast()) {
    finished_ = true;
  } else {
    Soon([this, session = session_] {
      if (session == session_) End();
    });
  }
}

void Connection::End() {
  if (ending_) return;
  ending_ = true;
  for (size_t i = 0; i < 2; ++i) {
    // Only the queue pair number tells an old UC packet from a new one.
    const bool destroy = config_.type == QpType::kUnreliableConnection || ends_[i]->overran() ||
                         random_.Percent(config_.destroys_percent);
    const bool by_error = random_.Percent(30);
    Soon([this, i, destroy, by_error] {
      if (!by_error) return Close(i, destroy);
      ends_[i]->MoveToError();
      ends_[i]->UpdateAfterEvent();
      Soon([this, i, destroy] { Close(i, destroy); });
    });
  }
}

void Connection::Close(size_t which, bool destroy) {
  ends_[which]->Close(destroy || ends_[which]->overran());
  if (++closed_ == 2) BothClosed();
}

void Connection::BothClosed() {
  for (Application* end : ends_) end->CheckSession();
  ++session_;
  if (random_.Percent(50)) return Open();  // while old packets are on the wire
  context_.simulator.After(Duration{static_cast<int64_t>(random_.Below(100'000))},
                           [this] { Open(); });
}

void Connection::CheckEnd() {
  for (Application* end : ends_) end->CheckSession();
}

}  // namespace uroce::transport::simulation
