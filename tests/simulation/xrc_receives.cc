#include "tests/simulation/xrc_receives.h"

namespace uroce::transport::simulation {

XrcReceives::XrcReceives(Context& context, Host& host, const SharedQueueScenario& config,
                         uint32_t targets, bool lenient, Random random)
    : context_(context) {
  const uint32_t entries = kQueues * (2 * config.entries + targets);
  completions_ = std::make_unique<Completions>(
      context, host.endpoint(), Completions::Config{.entries = entries, .lenient = lenient},
      random.Fork());
  for (uint64_t i = 0; i < kQueues; ++i) {
    const SharedReceives::Xrc xrc{.domain = kDomain,
                                  .completion_queue = completions_->queue(),
                                  .first_wr_id = kReceiveBit | i << kIndexShift};
    queues_.push_back(
        std::make_unique<SharedReceives>(context, host, config, targets, random.Fork(), &xrc));
    if (host.endpoint().PublishXrcQueue(*queues_.back()->queue()) != Status::kOk) {
      context.verdict.Fail("cannot publish a shared receive queue");
    }
  }
  host.AddProcess(*this);
}

void XrcReceives::AddTarget(Qpn qpn, Handler handler) {
  for (const auto& queue : queues_) queue->AddUser();
  targets_[qpn] = std::move(handler);
}

void XrcReceives::Poll() {
  completions_->Poll([this](const Completion& completion) {
    const auto target = targets_.find(completion.qpn);
    if (target != targets_.end()) return target->second(completion);
    context_.verdict.Fail("a receive of QP ", completion.qpn.value, ", which is no target");
    return false;
  });
}

}  // namespace uroce::transport::simulation
