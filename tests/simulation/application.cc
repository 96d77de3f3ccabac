// How an application wakes, polls and posts.

#include "tests/simulation/application.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/describe.h"

namespace uroce::transport::simulation {

namespace {

// Slots for all receive requests that there can be, but within about half a megabyte.
uint32_t InboxSlots(const Application::Config& config) {
  constexpr uint32_t kEnoughBytes = 1 << 19;
  const uint32_t affordable = std::max(2u, kEnoughBytes / config.max_message_bytes);
  return std::min(config.end.capabilities.max_receive_wr, affordable);
}

}  // namespace

Application::Application(Context& context, Host& host, const Config& config, SharedReceives* shared,
                         XrcReceives* xrc, Random random)
    : context_(context),
      host_(host),
      config_(config),
      shared_(shared),
      xrc_(xrc),
      random_(random),
      exposed_(host.endpoint().memory(), Host::kPd, 2 * config.max_message_bytes + 512,
               AccessFlags(AccessFlags::kLocalWrite | AccessFlags::kRemoteWrite |
                           AccessFlags::kRemoteRead | AccessFlags::kRemoteAtomic |
                           AccessFlags::kFlushGlobal | AccessFlags::kWindowBind),
               random_.Fork()),
      source_(host.endpoint().memory(), Host::kPd, 6 * config.max_message_bytes + 4'096,
              AccessFlags(), random_.Fork()),
      sink_(host.endpoint().memory(), Host::kPd, 4 * config.max_message_bytes + 4'096,
            AccessFlags(AccessFlags::kLocalWrite), random_.Fork()),
      inbox_(context.verdict, host.endpoint().memory(), Host::kPd,
             {.bytes = config.max_message_bytes,
              .max_sges = config.end.capabilities.max_receive_sge,
              .slots = has_receive_queue() ? InboxSlots(config) : 0,
              .first_wr_id = kReceiveBit},
             random_.Fork()),
      source_allocator_(source_.size()),
      sink_allocator_(sink_.size()),
      drain_(context.verdict) {
  host.AddProcess(*this);
}

// Called after everything that happens on the host.
void Application::OnActivity() {
  if (!session_.open) return;
  if (!config_.end.polls_late) Poll();
  drain_.Check(*qp_);
  ScheduleWake();
}

bool Application::HasReasonToWake() const {
  if (!session_.open) return false;
  if (!send_completions_->empty()) return true;
  if (receive_completions_ != nullptr && !receive_completions_->empty()) return true;
  if (state() == QpState::kSendQueueError) return true;
  if (state() == QpState::kError) return broken() && !session_.posted_into_error;
  if (drain_.active() && drain_.drained()) return true;
  const bool may_send = state() == QpState::kReadyToSend && posted_ < config_.end.work_requests &&
                        sends_->outstanding() < config_.end.capabilities.max_send_wr;
  const bool may_receive =
      has_receive_queue() && !peer_->finished() && inbox_.outstanding() < InboxSlots(config_);
  return may_send || may_receive;
}

void Application::ScheduleWake() {
  if (wake_scheduled_ || !HasReasonToWake()) return;
  wake_scheduled_ = true;
  const auto longest_ns = static_cast<uint64_t>(config_.think_time.ns) + 1'000;
  context_.simulator.After(Duration{static_cast<int64_t>(random_.Between(1, longest_ns))}, [this] {
    wake_scheduled_ = false;
    if (!session_.open) return;
    Wake();
    host_.UpdateAfterEvent();
  });
}

void Application::Wake() {
  Poll();
  switch (state()) {
    case QpState::kError:
      if (broken()) PostIntoError();
      return;
    case QpState::kSendQueueError:
      return RecoverSendQueue();
    case QpState::kReset:
      return;
    default:
      if (!config_.end.posts_receives_late || random_.Percent(20)) PostReceives();
      if (state() == QpState::kReadyToSend) PostSends();
      if (!broken()) Disturb();
  }
}

void Application::Poll() {
  const auto handler = [this](const Completion& completion) { return OnCompletion(completion); };
  send_completions_->Poll(handler);
  if (receive_completions_ != nullptr) receive_completions_->Poll(handler);
  if (is_target()) xrc_->Poll();
}

// Returns whether it counts as solicited.
bool Application::OnCompletion(Completion completion) {
  const bool is_receive = (completion.wr_id & kReceiveBit) != 0;
  context_.trace.OnEvent(context_.simulator.now(), is_receive ? "receive completes" : "completes",
                         {{"qp", completion.qpn.value},
                          {"wr", completion.wr_id & ~kReceiveBit},
                          {"status", static_cast<uint64_t>(completion.status)},
                          {"vendor", static_cast<uint64_t>(completion.vendor_error)},
                          {"opcode", static_cast<uint64_t>(completion.opcode)},
                          {"bytes", completion.byte_length}});
  if (completion.qpn != qpn_) context_.verdict.Fail("a completion of another queue pair");
  bool solicited = completion.status != CompletionStatus::kSuccess;
  for (int times = SabotageCompletion(completion); times > 0; --times) {
    if (is_receive) {
      solicited |= OnReceived(completion);
    } else {
      OnSent(completion);
    }
  }
  return solicited;
}

bool Application::OnReceived(const Completion& completion) {
  SharedReceives* const shared = is_target() ? &xrc_->QueueOf(completion) : shared_;
  const auto posted =
      shared == nullptr ? inbox_.Complete(completion.wr_id, 1) : shared->Complete(completion);
  ReceivePool& pool = shared == nullptr ? inbox_ : shared->pool();
  const Message* const next = is_target() && !config_.lenient ? receives_->sent().Next() : nullptr;
  const bool succeeded = completion.status == CompletionStatus::kSuccess;
  if (succeeded && next != nullptr && next->queue != XrcReceives::IndexOf(completion)) {
    context_.verdict.Fail("a message is in another shared receive queue than it names: ",
                          DescribeCompletion(completion));
  }
  return posted && receives_->OnCompletion(completion, *posted, pool.arena());
}

void Application::OnSent(const Completion& completion) {
  sends_->OnCompletion(completion);
  if (config_.lenient || !reliable()) return;
  const bool refused = completion.status == CompletionStatus::kRemoteAccessError ||
                       completion.status == CompletionStatus::kRemoteInvalidRequest ||
                       completion.status == CompletionStatus::kRemoteOperationError;
  if (refused && !peer_->KnowsThatItRefused()) {
    context_.verdict.Fail("the peer was not told of: ", DescribeCompletion(completion));
  }
}

// An event tells it, or the completion of the receive that was in use (IBA C9-222.1.1).
bool Application::KnowsThatItRefused() const {
  return session_.access_error_event || receives_->broken() || config_.end.polls_late || overran();
}

// Returns how often the oracle gets to see the completion.
int Application::SabotageCompletion(Completion& completion) {
  const bool needs_receive = config_.sabotage == Sabotage::kWrongImmediate ||
                             config_.sabotage == Sabotage::kScribbleReceived;
  const bool is_receive = (completion.wr_id & kReceiveBit) != 0;
  if (config_.sabotage == Sabotage::kNone || sabotaged_ || (needs_receive && !is_receive)) return 1;
  if (config_.sabotage == Sabotage::kScribbleReceived && shared_ != nullptr) return 1;
  if (config_.sabotage >= Sabotage::kLoseEvent) return 1;
  sabotaged_ = true;
  switch (config_.sabotage) {
    case Sabotage::kLoseCompletion:
      return 0;
    case Sabotage::kRepeatCompletion:
      return 2;
    case Sabotage::kScribble:
      *exposed_.at(exposed_.size() / 2) ^= 1;
      return 1;
    case Sabotage::kScribbleReceived:
      *inbox_.arena().at(0) ^= 1;  // the first receive lies there
      return 1;
    default:
      ++completion.immediate_or_rkey;
      return 1;
  }
}

// The peer requested something that our responder had to refuse.
bool Application::RefusedPeer() const {
  return reliable() && ((peer_->HasTakenPoison() && IsRefused(peer_->config_.end.poison)) ||
                        !exposed_.registered());
}

// Our queue pair may be in ERR for a reason other than the request: the application moved it, our
// responder refused or could not carry out a request of the peer, or a completion was lost.
bool Application::MayFlush() const {
  return session_.moved_to_error || RefusedPeer() || !inbox_.arena().registered() || overran();
}

bool Application::MayFail(CompletionStatus status) const {
  switch (status) {
    case CompletionStatus::kFlushed:
      return MayFlush();
    case CompletionStatus::kRetryExceeded:
      return reliable() &&
             (peer_->dead() || !peer_->exposed_.registered() ||
              context_.monitor.RetriesMayBeExceeded(qpn_) || config_.end.timeout_too_short);
    case CompletionStatus::kRnrRetryExceeded:
      return reliable() && context_.monitor.RnrRetriesMayBeExceeded(qpn_);
    case CompletionStatus::kRemoteAccessError:
      return !peer_->exposed_.registered();
    case CompletionStatus::kRemoteOperationError:
      return !peer_->inbox_.arena().registered();
    case CompletionStatus::kLocalProtectionError:
      return !source_.registered() || !sink_.registered();
    case CompletionStatus::kMemoryManagementError:  // the window vanished with the memory
      return !exposed_.registered();
    default:
      return false;
  }
}

bool Application::ReceiveMayFail(CompletionStatus status) const {
  switch (status) {
    case CompletionStatus::kLocalProtectionError:
      return !inbox_.arena().registered();
    case CompletionStatus::kLocalAccessError:  // a WRITE with immediate
      return !exposed_.registered();
    case CompletionStatus::kRemoteInvalidRequest:
      // A SEND with invalidate of a vanished window; or a message torn on UC, whose receive cannot
      // return to the shared queue (IBA 9.9.3.1 class E).
      if (reliable()) return !exposed_.registered();
      return shared_ != nullptr &&
             (context_.monitor.WasImpaired(qpn_) || peer_->dead() || peer_->had_send_error_);
    case CompletionStatus::kLocalLengthError:
      return !reliable() && shared_ != nullptr && peer_->HasPoison(Poison::kReceiveTooSmall);
    default:
      return false;
  }
}

bool Application::finished() const {
  if (!session_.open) return true;
  switch (state()) {
    case QpState::kError:
      // Unsignaled requests may have succeeded before the queue pair went to ERR.
      return send_completions_->empty() &&
             (send_completions_->overran() || !sends_->awaits_completion());
    case QpState::kReadyToSend:
      return posted_ == config_.end.work_requests && sends_->outstanding() == 0;
    default:
      return false;
  }
}

std::string Application::Progress() const {
  return Text("QP ", std::hex, qpn_.value, std::dec, " state ", static_cast<int>(state()),
              ": posted ", posted_, " of ", config_.end.work_requests, ", outstanding ",
              sends_ == nullptr ? 0 : sends_->outstanding(), ", receives ", inbox_.outstanding());
}

}  // namespace uroce::transport::simulation
