#pragma once

#include "tests/simulation/verdict.h"
#include "transport/psn.h"
#include "transport/qp/queue_pair.h"

namespace uroce::transport::simulation {

// The oracle of RTS -> SQD -> RTS: a drained queue pair reports it once, if it was asked to, and
// then sends nothing (IBA 10.3.1.5).
class DrainWatch {
 public:
  explicit DrainWatch(Verdict& verdict) : verdict_(verdict) {}

  // RTS -> SQD, with or without asking for the event.
  void Begin(QueuePair& qp, bool notify);
  // SQD -> RTS.
  void End(QueuePair& qp);
  // The queue pair failed, or was reset.
  void Forget();

  // kSendQueueDrained came.
  void OnEvent(const QueuePair& qp);
  // Call after every event on the host.
  void Check(const QueuePair& qp);

  bool active() const { return active_; }
  bool drained() const { return drained_; }

 private:
  Verdict& verdict_;
  bool active_ = false;
  bool notify_ = false;
  bool event_came_ = false;
  bool drained_ = false;  // Check() saw it drained, with next PSN `psn_`
  Psn psn_;
};

}  // namespace uroce::transport::simulation
