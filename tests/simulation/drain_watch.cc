#include "tests/simulation/drain_watch.h"

namespace uroce::transport::simulation {

using Mask = QpAttributeMask;

void DrainWatch::Begin(QueuePair& qp, bool notify) {
  Forget();
  active_ = true;
  notify_ = notify;
  QpAttributes attributes;
  attributes.state = QpState::kSendQueueDrain;
  attributes.enable_sqd_notify = notify;
  const uint32_t mask = notify ? Mask::kState | Mask::kEnableSqdNotify : Mask::kState;
  if (qp.Modify(attributes, mask) != Status::kOk) verdict_.Fail("cannot modify to SQD");
}

void DrainWatch::End(QueuePair& qp) {
  Forget();
  QpAttributes attributes;
  attributes.state = QpState::kReadyToSend;
  attributes.current_state = QpState::kSendQueueDrain;
  if (qp.Modify(attributes, Mask::kState | Mask::kCurrentState) != Status::kOk) {
    verdict_.Fail("cannot modify from SQD to RTS");
  }
}

void DrainWatch::Forget() { active_ = notify_ = event_came_ = drained_ = false; }

void DrainWatch::OnEvent(const QueuePair& qp) {
  if (!active_ || !notify_ || event_came_ || qp.Query().sq_draining) {
    verdict_.Fail("QP ", qp.qpn().value, " is said to be drained in state ",
                  static_cast<int>(qp.state()));
  }
  event_came_ = true;
}

void DrainWatch::Check(const QueuePair& qp) {
  if (!active_) return;
  if (qp.state() != QpState::kSendQueueDrain) return Forget();  // the queue pair failed
  const QpAttributes now = qp.Query();
  if (now.sq_draining) {
    if (drained_) verdict_.Fail("QP ", qp.qpn().value, " drains again");
    return;
  }
  if (notify_ != event_came_) {
    verdict_.Fail("QP ", qp.qpn().value, " has drained and did not say so");
  }
  if (drained_ && now.sq_psn != psn_) {
    verdict_.Fail("QP ", qp.qpn().value, " sends although it has drained");
  }
  drained_ = true;
  psn_ = now.sq_psn;
}

}  // namespace uroce::transport::simulation
