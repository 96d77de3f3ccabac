#include "tests/simulation/shared_receives.h"

#include <utility>

namespace uroce::transport::simulation {

SharedReceives::SharedReceives(Context& context, Host& host, const SharedQueueScenario& config,
                               uint32_t queue_pairs, Random random, const Xrc* xrc)
    : context_(context),
      host_(host),
      config_(config),
      queue_pairs_(queue_pairs),
      random_(random),
      pool_(context.verdict, host.endpoint().memory(), Host::kPd,
            {.bytes = config.bytes,
             .max_sges = config.max_sges,
             .slots = 2 * config.entries + queue_pairs,
             .first_wr_id = xrc == nullptr ? kReceiveBit : xrc->first_wr_id},
            random_.Fork()),
      queue_(host.endpoint().CreateSharedReceiveQueue(
          {.pd = Host::kPd,
           .max_work_requests = config.entries,
           .max_sges = config.max_sges,
           .limit = 0,
           .xrc_domain = xrc == nullptr ? XrcDomainId{} : xrc->domain,
           .completion_queue = xrc == nullptr ? nullptr : xrc->completion_queue,
           .context = EventListener::context()})) {
  host.AddProcess(*this);
}

SharedReceives::~SharedReceives() { host_.endpoint().DestroySharedReceiveQueue(std::move(queue_)); }

void SharedReceives::OnActivity() {
  // The start of a message makes room, and produces no other sign.
  if (!host_.fills_queue()) full_ = false;
  if (wake_scheduled_ || full_) return;
  wake_scheduled_ = true;
  const auto longest_ns = static_cast<uint64_t>(config_.think_time.ns) + 1'000;
  context_.simulator.After(Duration{static_cast<int64_t>(random_.Between(1, longest_ns))}, [this] {
    wake_scheduled_ = false;
    host_.fills_queue() = true;
    Wake();
    host_.UpdateAfterEvent();
    host_.fills_queue() = false;
  });
}

void SharedReceives::Wake() {
  if (limit_ == 0 && random_.Percent(20)) SetLimit();
  if (random_.Percent(5)) Resize();
  if (config_.runs_dry && random_.Percent(70)) return;
  const uint64_t burst = config_.runs_dry ? 1 : random_.Between(1, queue_->capacity());
  for (uint64_t i = 0; i < burst && !full_; ++i) full_ = !Post();
}

bool SharedReceives::Post() {
  const PostedReceive* receive = pool_.Draw();
  if (receive == nullptr) return false;
  const size_t others = pool_.outstanding() - 1;
  const auto sges = pool_.SgesOf(*receive);
  const Status status = queue_->Post({receive->wr_id, sges});
  if (status == Status::kOk) {
    if (others >= queue_->capacity() + in_use_) {
      context_.verdict.Fail("a shared receive queue of ", queue_->capacity(), " takes request ",
                            others + 1);
    }
    return true;
  }
  pool_.Withdraw();
  // Queue pairs hold some of the requests, so the queue holds at most the outstanding ones.
  if (status != Status::kNoMemory || others < queue_->capacity()) {
    context_.verdict.Fail("a shared receive queue of ", queue_->capacity(), " refuses request ",
                          others + 1);
  }
  return false;
}

void SharedReceives::SetLimit() {
  if (queue_->SetLimit(queue_->capacity() + 1) != Status::kInvalidArgument) {
    context_.verdict.Fail("a shared receive queue takes a limit above its capacity");
  }
  taken_since_armed_ = 0;
  limit_ = static_cast<uint32_t>(random_.Between(0, queue_->capacity()));
  if (queue_->SetLimit(limit_) != Status::kOk || queue_->limit() != limit_) {
    context_.verdict.Fail("a shared receive queue does not take a limit of ", limit_);
  }
}

void SharedReceives::Resize() {
  const auto entries = static_cast<uint32_t>(random_.Between(1, 2 * config_.entries));
  const Status status = queue_->Resize(entries);
  const bool too_small = entries < pool_.outstanding() || entries < limit_;
  if (status != Status::kOk && (status != Status::kInvalidArgument || !too_small)) {
    context_.verdict.Fail("a shared receive queue does not take a size of ", entries);
  }
  if (status == Status::kOk && entries + in_use_ < pool_.outstanding()) {
    context_.verdict.Fail("a shared receive queue shrinks below what is in it");
  }
}

std::optional<PostedReceive> SharedReceives::Complete(const Completion& completion) {
  auto receive = pool_.Complete(completion.wr_id, pool_.outstanding());
  uint64_t& last = last_wr_ids_[completion.qpn];
  if (completion.wr_id < last) {
    context_.verdict.Fail("QP ", completion.qpn.value, " has taken shared receive ",
                          completion.wr_id, " after ", last);
  }
  last = completion.wr_id;
  CheckLimit();
  return receive;
}

void SharedReceives::CheckLimit() {
  ++taken_since_armed_;
  // Some completed requests were taken before the limit was set. A request taken later left at most
  // the outstanding ones in the queue.
  const bool due = taken_since_armed_ > in_use_ && pool_.outstanding() < limit_;
  if (due) {
    context_.verdict.Fail("a shared receive queue misses its limit event at ", pool_.outstanding(),
                          " of ", limit_);
  }
}

void SharedReceives::OnEvent(EventType type) {
  if (type != EventType::kSrqLimitReached || limit_ == 0) {
    context_.verdict.Fail("a shared receive queue has event ", static_cast<int>(type),
                          " that nobody asked for");
  }
  limit_ = 0;
}

}  // namespace uroce::transport::simulation
