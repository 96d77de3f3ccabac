// Changes that applications make to a queue pair, its completion queues and its memory during
// traffic.

#include "tests/simulation/application.h"

namespace uroce::transport::simulation {

using Mask = QpAttributeMask;

void Application::Disturb() {
  const EndScenario& end = config_.end;
  if (HasPoison(Poison::kErrorAtRandom) && random_.Percent(10)) return MoveToError();
  if (drain_.active()) return ContinueDrain();
  if (!end.is_restless || state() != QpState::kReadyToSend || !random_.Percent(30)) return;
  switch (random_.Below(4)) {
    case 0:
      return BeginDrain();
    case 1:
      return MoveMemory();
    case 2:
      if (!end.overruns) send_completions_->Resize();
      if (!end.overruns && receive_completions_ != nullptr) receive_completions_->Resize();
      return;
    default:
      QpAttributes attributes;
      attributes.state = QpState::kInit;
      return Forbid(attributes, Mask::kState);
  }
}

void Application::BeginDrain() {
  drain_.Begin(*qp_, random_.Percent(60));
  impatient_ = false;
  if (!random_.Percent(15)) return;
  const auto after = Duration{static_cast<int64_t>(random_.Below(20'000))};
  context_.simulator.After(after, [this] {
    if (!session_.open || !drain_.active() || state() != QpState::kSendQueueDrain) return;
    impatient_ = true;
    ContinueDrain();
    host_.UpdateAfterEvent();
  });
}

void Application::ContinueDrain() {
  if (!drain_.drained() && !impatient_) return;
  if (drain_.drained() && random_.Percent(50)) ChangeWhileDrained();
  drain_.End(*qp_);
}

void Application::ChangeWhileDrained() {
  const EndScenario& end = config_.end;
  QpAttributes attributes;
  attributes.state = QpState::kSendQueueDrain;
  attributes.address = qp_->Query().address;
  attributes.address.traffic_class = static_cast<uint8_t>(4 * random_.Below(64));
  attributes.address.hop_limit = static_cast<uint8_t>(random_.Between(1, 255));
  attributes.address.flow_label = static_cast<uint32_t>(random_.Below(1 << 20));
  uint32_t mask = Mask::kState | Mask::kAddressVector;
  if (reliable()) {
    // At most what the peer is ready for.
    attributes.max_read_atomic = static_cast<uint8_t>(random_.Between(1, end.max_read_atomic));
    attributes.min_rnr_timer = static_cast<uint8_t>(random_.Between(1, 12));
    attributes.timeout = end.timeout;
    mask |= Mask::kMaxReadAtomic | Mask::kTimeout;
    if (!is_initiator()) mask |= Mask::kMinRnrTimer;
  }
  Modify(attributes, mask);
  const QpAttributes now = qp_->Query();
  const bool took = now.address == attributes.address &&
                    (!reliable() || now.max_read_atomic == attributes.max_read_atomic);
  if (!took) context_.verdict.Fail("QP ", qpn_.value, " does not take attributes in SQD");
}

// Moves regions to other storage while requests use them.
void Application::MoveMemory() {
  bool bound = foreign_window_.has_value();
  for (const Window& window : windows_) bound |= window.usable || window.changing;
  if (!exposed_.Move() && !bound) context_.verdict.Fail("cannot register a region again");
  if (config_.sabotage == Sabotage::kWriteToOldMemory) exposed_.ScribbleWhereItWas();
  if (!source_.Move() || !sink_.Move() || !inbox_.arena().Move()) {
    context_.verdict.Fail("cannot register a region again");
  }
}

// All requests under way that use the memory must fail.
void Application::TakeMemoryAway() {
  switch (config_.end.poison) {
    case Poison::kNoSource:
      (void)source_.Deregister();
      return;
    case Poison::kNoSink:
      (void)sink_.Deregister();
      return;
    case Poison::kNoInbox:
      (void)inbox_.arena().Deregister();
      return;
    default:
      if (exposed_.Deregister()) return;
  }
  // Windows keep a region alive.
  auto& memory = host_.endpoint().memory();
  for (Window& window : windows_) {
    (void)memory.DeallocateWindow(window.key);
    window.usable = false;
    window.changing = true;  // for ever
  }
  if (foreign_window_) (void)memory.DeallocateWindow(*foreign_window_);
  foreign_window_.reset();
  if (!exposed_.Deregister()) context_.verdict.Fail("cannot deregister a region without windows");
}

}  // namespace uroce::transport::simulation
