#include "tests/simulation/application.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tests/simulation/describe.h"

namespace uroce::simulation {

using transport::AccessFlags;
using transport::Completion;
using transport::CompletionQueue;
using transport::CompletionStatus;
using transport::Duration;
using transport::QpAttributeMask;
using transport::QpAttributes;
using transport::QpInitAttributes;
using transport::QpState;
using transport::Status;

namespace {

using NotifyOn = CompletionQueue::NotifyOn;

}  // namespace

Application::Application(Context& context, Host& host, const Config& config, Random random)
    : context_(context),
      host_(host),
      config_(config),
      random_(random),
      exposed_(host.endpoint().memory(), Host::kPd, 2 * config.max_message_bytes + 512,
               AccessFlags(AccessFlags::kLocalWrite | AccessFlags::kRemoteWrite |
                           AccessFlags::kRemoteRead | AccessFlags::kRemoteAtomic |
                           AccessFlags::kWindowBind),
               random_.Fork()),
      source_(host.endpoint().memory(), Host::kPd, 6 * config.max_message_bytes + 4'096,
              AccessFlags(), random_.Fork()),
      sink_(host.endpoint().memory(), Host::kPd, 4 * config.max_message_bytes + 4'096,
            AccessFlags(AccessFlags::kLocalWrite), random_.Fork()),
      inbox_(host.endpoint().memory(), Host::kPd, 8 * config.max_message_bytes + 4'096,
             AccessFlags(AccessFlags::kLocalWrite), random_.Fork()),
      source_allocator_(source_.size()),
      sink_allocator_(sink_.size()),
      inbox_allocator_(inbox_.size()),
      windows_(2) {
  for (Window& window : windows_) {
    window.key = *host.endpoint().memory().AllocateWindow(Host::kPd, transport::WindowType::kType2);
  }
  receives_ =
      std::make_unique<ReceiveModel>(context.verdict, inbox_, inbox_allocator_, config.lenient);
  CreateQueuePair();
  host.AddProcess(*this);
}

void Application::CreateQueuePair() {
  const auto& wanted = config_.end.capabilities;
  transport::Endpoint& endpoint = host_.endpoint();
  const bool share = random_.Percent(40);
  const uint32_t send_entries = wanted.max_send_wr + (share ? wanted.max_receive_wr : 0);
  send_cq_ = endpoint.CreateCompletionQueue(2 * send_entries, &send_notification_);
  if (!share) {
    receive_cq_ = endpoint.CreateCompletionQueue(2 * wanted.max_receive_wr, &receive_notification_);
  }
  QpInitAttributes init;
  init.pd = Host::kPd;
  init.send_cq = send_cq_.get();
  init.receive_cq = share ? send_cq_.get() : receive_cq_.get();
  init.capabilities = wanted;
  init.signal_all = config_.end.signal_all;
  if (endpoint.CreateQueuePair(init, &qp_) != Status::kOk) {
    context_.verdict.Fail("cannot create a queue pair");
  }
}

void Application::Connect(Application& a, Application& b) {
  for (auto [self, peer] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    self->peer_ = peer;
    const SendModel::Memory memory = {self->source_,  self->source_allocator_,
                                      self->sink_,    self->sink_allocator_,
                                      peer->exposed_, peer->host_.counters()};
    self->sends_ = std::make_unique<SendModel>(
        self->context_.verdict, memory,
        [self = self](CompletionStatus status) { return self->MayFail(status); },
        self->config_.lenient);
    self->ModifyToReady(*peer);
  }
  const auto end = [](const Application& app) {
    return WireMonitor::End{app.qp_,
                            app.config_.end.first_psn,
                            Bytes(app.config_.mtu),
                            app.config_.end.max_read_atomic,
                            app.config_.end.retry_count,
                            app.config_.end.rnr_retry};
  };
  a.context_.monitor.AddConnection(end(a), end(b));
}

void Application::ModifyToReady(const Application& peer) {
  using Mask = QpAttributeMask;
  const EndScenario& end = config_.end;
  QpAttributes attributes;
  attributes.state = QpState::kInit;
  attributes.port_num = 1;
  attributes.access = AccessFlags(AccessFlags::kRemoteWrite | AccessFlags::kRemoteRead |
                                  AccessFlags::kRemoteAtomic);
  Modify(attributes, Mask::kState | Mask::kPkeyIndex | Mask::kPort | Mask::kAccessFlags);

  attributes.state = QpState::kReadyToReceive;
  attributes.path_mtu = config_.mtu;
  attributes.destination_qpn = peer.qp_->qpn();
  attributes.rq_psn = peer.config_.end.first_psn;
  attributes.max_dest_read_atomic = end.max_dest_read_atomic;
  attributes.min_rnr_timer = end.min_rnr_timer;
  attributes.address.destination_gid = peer.host_.gid();
  attributes.address.destination_mac = peer.host_.mac();
  attributes.address.source_gid_index = 1;
  Modify(attributes, Mask::kState | Mask::kAddressVector | Mask::kPathMtu | Mask::kDestinationQpn |
                         Mask::kRqPsn | Mask::kMaxDestReadAtomic | Mask::kMinRnrTimer);

  attributes.state = QpState::kReadyToSend;
  attributes.sq_psn = end.first_psn;
  attributes.timeout = end.timeout;
  attributes.retry_count = end.retry_count;
  attributes.rnr_retry = end.rnr_retry;
  attributes.max_read_atomic = end.max_read_atomic;
  Modify(attributes, Mask::kState | Mask::kSqPsn | Mask::kTimeout | Mask::kRetryCount |
                         Mask::kRnrRetry | Mask::kMaxReadAtomic);
}

void Application::Modify(const QpAttributes& attributes, uint32_t mask) {
  if (qp_->Modify(attributes, mask) != Status::kOk) {
    context_.verdict.Fail("cannot modify to state ", static_cast<int>(attributes.state));
  }
}

// Called after everything that happens on the host.
void Application::OnActivity() {
  if (!config_.end.polls_late) Poll();
  ScheduleWake();
}

bool Application::HasReasonToWake() const {
  if (!send_cq_->empty() || (receive_cq_ != nullptr && !receive_cq_->empty())) return true;
  if (broken()) return !posted_into_error_;
  const bool may_send = posted_ < config_.end.work_requests &&
                        sends_->outstanding() < config_.end.capabilities.max_send_wr;
  const bool may_receive =
      !peer_->finished() && receives_->outstanding() < config_.end.capabilities.max_receive_wr;
  return may_send || may_receive;
}

void Application::ScheduleWake() {
  if (wake_scheduled_ || !HasReasonToWake()) return;
  wake_scheduled_ = true;
  const auto longest_ns = static_cast<uint64_t>(config_.think_time.ns) + 1'000;
  context_.simulator.After(Duration{static_cast<int64_t>(random_.Between(1, longest_ns))}, [this] {
    wake_scheduled_ = false;
    Wake();
  });
}

void Application::Wake() {
  Poll();
  if (!broken() && qp_->state() == QpState::kReadyToSend) {
    if (!config_.end.posts_receives_late || random_.Percent(20)) PostReceives();
    PostSends();
  } else if (broken() && qp_->state() == QpState::kError) {
    PostIntoError();
  }
  host_.Settle();
}

void Application::Poll() {
  for (CompletionQueue* queue : {send_cq_.get(), receive_cq_.get()}) {
    if (queue == nullptr) continue;
    std::array<Completion, 8> completions;
    bool any = false;
    bool solicited = false;
    while (const uint32_t count = queue->Poll(completions)) {
      any = true;
      for (uint32_t i = 0; i < count; ++i) OnCompletion(completions[i], &solicited);
    }
    CheckNotification(*queue, queue == send_cq_.get() ? send_notification_ : receive_notification_,
                      any, solicited);
  }
}

void Application::OnCompletion(Completion completion, bool* solicited) {
  const bool is_receive = (completion.wr_id & kReceiveBit) != 0;
  context_.trace.OnEvent(context_.simulator.now(), is_receive ? "receive completes" : "completes",
                         {{"qp", qp_->qpn().value},
                          {"wr", completion.wr_id & ~kReceiveBit},
                          {"status", static_cast<uint64_t>(completion.status)},
                          {"vendor", static_cast<uint64_t>(completion.vendor_error)},
                          {"opcode", static_cast<uint64_t>(completion.opcode)},
                          {"bytes", completion.byte_length}});
  if (completion.qpn != qp_->qpn()) context_.verdict.Fail("a completion of another queue pair");
  if (completion.status != CompletionStatus::kSuccess) *solicited = true;
  for (int times = SabotageCompletion(completion); times > 0; --times) {
    if (is_receive) {
      *solicited |= receives_->OnCompletion(completion);
    } else {
      sends_->OnCompletion(completion);
    }
  }
}

// Returns how often the oracle gets to see the completion.
int Application::SabotageCompletion(Completion& completion) {
  const bool needs_receive = config_.sabotage == Sabotage::kWrongImmediate ||
                             config_.sabotage == Sabotage::kScribbleReceived;
  const bool is_receive = (completion.wr_id & kReceiveBit) != 0;
  if (config_.sabotage == Sabotage::kNone || sabotaged_ || (needs_receive && !is_receive)) return 1;
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
      *inbox_.at(0) ^= 1;  // the first receive lies there
      return 1;
    default:
      ++completion.immediate_or_rkey;
      return 1;
  }
}

// A queue is armed only when it is empty, so what is polled afterwards came after.
void Application::CheckNotification(CompletionQueue& queue, Notification& notification, bool any,
                                    bool solicited) {
  const bool due = notification.armed == NotifyOn::kAny
                       ? any
                       : notification.armed == NotifyOn::kSolicited && solicited;
  if (!config_.lenient && due != notification.event_came) {
    context_.verdict.Fail("QP ", qp_->qpn().value, due ? " misses a" : " has an undue",
                          " completion event");
  }
  if (notification.event_came) notification = {};
  if (notification.armed == NotifyOn::kNothing && random_.Percent(20)) {
    notification.armed = random_.Pick({NotifyOn::kAny, NotifyOn::kSolicited});
    queue.Arm(notification.armed);
  }
}

bool Application::MayFail(CompletionStatus status) const {
  switch (status) {
    case CompletionStatus::kFlushed: {
      // Our responder refused something of the peer's, or we were told to.
      const Poison peers = peer_->config_.end.poison;
      const bool refused_peer = peers != Poison::kNone && peers != Poison::kMoveToError &&
                                peers != Poison::kBadLkey && peers != Poison::kReadOnlySink &&
                                peer_->posted_ > peer_->config_.end.poison_at;
      return moved_to_error_ || refused_peer;
    }
    case CompletionStatus::kRetryExceeded:
      return peer_->qp_->state() == QpState::kError ||
             context_.monitor.RetriesMayBeExceeded(qp_->qpn()) || config_.end.timeout_too_short;
    case CompletionStatus::kRnrRetryExceeded:
      return context_.monitor.RnrRetriesMayBeExceeded(qp_->qpn());
    default:
      return false;
  }
}

bool Application::finished() const {
  if (qp_->state() == QpState::kError) {
    // Requests that were not to be signaled may have succeeded before the queue pair went to ERR.
    return send_cq_->empty() && !sends_->awaits_completion();
  }
  return posted_ == config_.end.work_requests && sends_->outstanding() == 0;
}

void Application::CheckEnd() {
  if (qp_->state() == QpState::kError && receives_->outstanding() != 0) {
    context_.verdict.Fail("QP ", qp_->qpn().value, " is in ERR and has not flushed its receives");
  }
  if (!exposed_.CanariesIntact() || !source_.CanariesIntact() || !sink_.CanariesIntact() ||
      !inbox_.CanariesIntact()) {
    context_.verdict.Fail("memory beside a region was written");
  }
  sends_->CheckEnd();
}

std::string Application::Progress() const {
  return Text("QP ", std::hex, qp_->qpn().value, std::dec, " state ",
              static_cast<int>(qp_->state()), ": posted ", posted_, " of ",
              config_.end.work_requests, ", outstanding ", sends_->outstanding(), ", receives ",
              receives_->outstanding());
}

}  // namespace uroce::simulation
