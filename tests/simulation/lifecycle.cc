// How an application's queue pair changes its state.

#include <utility>

#include "tests/simulation/application.h"

namespace uroce::transport::simulation {

using Mask = QpAttributeMask;

Application::~Application() {
  if (qp_ != nullptr) host_.endpoint().DestroyQueuePair(qp_);
}

void Application::Create(Psn first_psn, bool poisoned) {
  first_psn_ = first_psn;
  session_ = {.open = true, .poisoned = poisoned};
  drain_.Forget();
  if (send_completions_ == nullptr) CreateCompletionQueues();
  if (qp_ == nullptr) CreateQueuePair();
  if (shared_ != nullptr) shared_->AddUser();
  if (is_target()) {
    xrc_->AddTarget(qpn_, [this](const auto& completion) { return OnCompletion(completion); });
  }
  StartModels();
}

void Application::CreateCompletionQueues() {
  const auto& wanted = config_.end.capabilities;
  const bool share = config_.end.shares_completion_queue;
  const auto receives =
      static_cast<uint32_t>(shared_ == nullptr ? wanted.max_receive_wr : shared_->max_requests());
  // With `overruns` a queue may be smaller than the number of completions that can come.
  const auto entries = [&](uint32_t most) {
    return config_.end.overruns ? static_cast<uint32_t>(random_.Between(1, most)) : most;
  };
  const auto create = [&](uint32_t most) {
    const Completions::Config config = {
        .entries = entries(most), .may_overrun = config_.end.overruns, .lenient = config_.lenient};
    return std::make_unique<Completions>(context_, host_.endpoint(), config, random_.Fork());
  };
  send_completions_ = create(wanted.max_send_wr + (share ? receives : 0));
  if (!share) receive_completions_ = create(receives);
}

void Application::CreateQueuePair() {
  QpInitAttributes init;
  init.pd = Host::kPd;
  init.type = config_.type;
  init.send_cq = send_completions_->queue();
  init.receive_cq = receive_completions_ == nullptr ? init.send_cq : receive_completions_->queue();
  init.srq = shared_ == nullptr ? nullptr : shared_->queue();
  init.capabilities = config_.end.capabilities;
  if (is_initiator()) init.receive_cq = nullptr;
  if (is_target()) {
    init.pd = {};
    init.send_cq = init.receive_cq = nullptr;
    init.capabilities = {};
    init.xrc_domain = XrcReceives::kDomain;
  }
  init.signal_all = config_.end.signal_all;
  init.context = EventListener::context();
  if (host_.endpoint().CreateQueuePair(init, &qp_) != Status::kOk) {
    return context_.verdict.Fail("cannot create a queue pair");
  }
  qpn_ = qp_->qpn();
}

void Application::StartModels() {
  auto& memory = host_.endpoint().memory();
  for (const Window& window : windows_) (void)memory.DeallocateWindow(window.key);
  if (foreign_window_) (void)memory.DeallocateWindow(*foreign_window_);
  foreign_window_.reset();
  windows_.assign(2, {});
  for (Window& window : windows_) {
    window.key = *memory.AllocateWindow(Host::kPd, WindowType::kType2);
  }
  for (Arena* arena : {&exposed_, &source_, &sink_, &inbox_.arena()}) arena->Register();
  source_allocator_ = RingAllocator(source_.size());
  sink_allocator_ = RingAllocator(sink_.size());
  inbox_.Clear();
  reads_in_flight_.clear();
  posted_ = 0;
  had_send_error_ = false;

  const SendModel::Memory used = {source_,         source_allocator_, sink_,
                                  sink_allocator_, peer_->exposed_,   peer_->host_.counters()};
  sends_ = std::make_unique<SendModel>(
      context_.verdict, used, [this](CompletionStatus status) { return MayFail(status); },
      SendModel::Rules{.lenient = config_.lenient, .reliable = reliable()});
  const auto service = reliable()               ? MessageStream::Service::kReliable
                       : config_.wire_scrambles ? MessageStream::Service::kScrambled
                                                : MessageStream::Service::kOrdered;
  receives_ = std::make_unique<ReceiveModel>(
      context_.verdict,
      ReceiveModel::Rules{.service = service,
                          .survives_failures = !reliable() && shared_ != nullptr,
                          .lenient = config_.lenient},
      [this](CompletionStatus status) { return ReceiveMayFail(status); });
}

WireMonitor::End Application::MonitoredEnd() const {
  return {.qp = qp_,
          .first_psn = first_psn_,
          .mtu_bytes = Bytes(config_.mtu),
          .max_read_atomic = config_.end.max_read_atomic,
          .retry_count = config_.end.retry_count,
          .rnr_retry = config_.end.rnr_retry,
          .is_selective = host_.endpoint().config().congestion != Congestion::kNone,
          .host = host_.index()};
}

void Application::BecomeReadyToReceive() {
  const EndScenario& end = config_.end;
  QpAttributes attributes;
  attributes.state = QpState::kReadyToSend;
  attributes.port_num = 1;
  attributes.sq_psn = first_psn_;
  Forbid(attributes, Mask::kState | Mask::kSqPsn);
  attributes.state = QpState::kInit;
  attributes.access = AccessFlags(AccessFlags::kRemoteWrite | AccessFlags::kRemoteRead |
                                  AccessFlags::kRemoteAtomic | AccessFlags::kFlushGlobal);
  Modify(attributes, Mask::kState | Mask::kPkeyIndex | Mask::kPort | Mask::kAccessFlags);
  if (random_.Percent(70)) PostReceives();

  attributes.state = QpState::kReadyToReceive;
  attributes.path_mtu = config_.mtu;
  attributes.destination_qpn = peer_->qpn_;
  attributes.rq_psn = peer_->first_psn_;
  attributes.max_dest_read_atomic = end.max_dest_read_atomic;
  attributes.min_rnr_timer = end.min_rnr_timer;
  attributes.address.destination_gid = peer_->host_.gid();
  attributes.address.destination_mac = peer_->host_.mac();
  attributes.address.source_gid_index = 1;
  const uint32_t path =
      Mask::kState | Mask::kAddressVector | Mask::kPathMtu | Mask::kDestinationQpn | Mask::kRqPsn;
  const bool responds = reliable() && !is_initiator();
  Modify(attributes, responds ? path | Mask::kMaxDestReadAtomic | Mask::kMinRnrTimer : path);
  host_.UpdateAfterEvent();
}

void Application::BecomeReadyToSend() {
  if (state() != QpState::kReadyToReceive) return;  // the peer made this end fail
  const EndScenario& end = config_.end;
  QpAttributes attributes;
  attributes.state = QpState::kReadyToSend;
  attributes.sq_psn = first_psn_;
  attributes.timeout = end.timeout;
  attributes.retry_count = end.retry_count;
  attributes.rnr_retry = end.rnr_retry;
  attributes.max_read_atomic = end.max_read_atomic;
  uint32_t mask = Mask::kState | Mask::kSqPsn;
  if (reliable()) mask |= Mask::kTimeout;
  if (reliable() && !is_target()) {
    mask |= Mask::kRetryCount | Mask::kRnrRetry | Mask::kMaxReadAtomic;
  }
  Modify(attributes, mask);
  host_.UpdateAfterEvent();
}

void Application::MoveToError() {
  if (!session_.open || state() == QpState::kReset) return;
  session_.moved_to_error = true;
  QpAttributes attributes;
  attributes.state = QpState::kError;
  Modify(attributes, Mask::kState);
}

void Application::Close(bool destroy) {
  Poll();  // closing removes the completions still queued
  CheckEvents();
  if (destroy) {
    context_.monitor.Forget(qpn_);
    host_.endpoint().DestroyQueuePair(std::exchange(qp_, nullptr));
  } else {
    QpAttributes attributes;
    attributes.state = QpState::kReset;
    Modify(attributes, Mask::kState);
  }
  if (!send_completions_->empty() ||
      (receive_completions_ != nullptr && !receive_completions_->empty())) {
    context_.verdict.Fail("a queue pair has left completions behind");
  }
  session_.open = false;
  if (destroy) {
    send_completions_.reset();
    receive_completions_.reset();
  }
  host_.UpdateAfterEvent();
}

void Application::CheckSession() {
  if (session_.open) {
    Poll();
    CheckEvents();
  }
  if (shared_ == nullptr && !overran()) inbox_.CheckUntouched(1);
  if (!exposed_.CanariesIntact() || !source_.CanariesIntact() || !sink_.CanariesIntact() ||
      !inbox_.arena().CanariesIntact()) {
    context_.verdict.Fail("memory beside a region was written");
  }
  sends_->CheckEnd();
}

bool Application::overran() const {
  return (send_completions_ != nullptr && send_completions_->overran()) ||
         (receive_completions_ != nullptr && receive_completions_->overran());
}

void Application::Modify(const QpAttributes& attributes, uint32_t mask) {
  if (qp_->Modify(attributes, mask) != Status::kOk) {
    context_.verdict.Fail("cannot modify to state ", static_cast<int>(attributes.state));
  }
}

// A transition that the state tables do not allow changes nothing.
void Application::Forbid(const QpAttributes& attributes, uint32_t mask) {
  const QpState before = state();
  if (qp_->Modify(attributes, mask) != Status::kInvalidArgument || state() != before) {
    context_.verdict.Fail("may modify to state ", static_cast<int>(attributes.state), " from ",
                          static_cast<int>(before));
  }
}

// SQE -> RTS, once all requests in the queue are flushed (IBA 10.3.1.6).
void Application::RecoverSendQueue() {
  had_send_error_ = true;
  if (reliable()) context_.verdict.Fail("a reliable queue pair is in SQE");
  if (!sends_->broken() || sends_->outstanding() != 0) {
    return context_.verdict.Fail("a queue pair in SQE has not flushed its requests");
  }
  if (posted_ < config_.end.work_requests && random_.Percent(30)) {
    Draft draft;
    draft.request.opcode = SendOpcode::kSend;
    draft.message.emplace();
    Post(draft);  // is flushed too
    return;
  }
  QpAttributes attributes;
  attributes.state = QpState::kReadyToSend;
  attributes.current_state = QpState::kSendQueueError;
  Modify(attributes, Mask::kState | Mask::kCurrentState);
  sends_->Recover();
}

void Application::OnEvent(EventType type) {
  if (config_.sabotage == Sabotage::kLoseEvent) return;
  const auto once = [&](bool& flag, bool allowed) {
    if (!config_.lenient && (flag || !allowed)) {
      context_.verdict.Fail("QP ", qpn_.value, " in state ", static_cast<int>(state()),
                            " has event ", static_cast<int>(type), flag ? " again" : "");
    }
    flag = true;
  };
  const bool in_error = state() == QpState::kError;
  switch (type) {
    case EventType::kCommunicationEstablished:
      return once(session_.established_event, state() == QpState::kReadyToReceive || in_error);
    case EventType::kSendQueueDrained:
      return drain_.OnEvent(*qp_);
    case EventType::kQpAccessError:
      return once(session_.access_error_event, in_error && RefusedPeer());
    case EventType::kQpFatal:
      return once(session_.fatal_event, in_error && overran());
    case EventType::kLastWqeReached:
      return once(session_.last_wqe_event, in_error && (shared_ != nullptr || is_target()));
    default:
      if (config_.lenient) return;
      context_.verdict.Fail("a queue pair has event ", static_cast<int>(type));
  }
}

// A queue pair in ERR has finished everything, and has reported it.
void Application::CheckEvents() {
  if (state() != QpState::kError) return;
  Poll();
  const bool receives_lost = receive_completions_ == nullptr ? send_completions_->overran()
                                                             : receive_completions_->overran();
  if (inbox_.outstanding() != 0 && !receives_lost) {
    context_.verdict.Fail("QP ", qpn_.value, " is in ERR and has not flushed its receives");
  }
  if (sends_->awaits_completion() && !send_completions_->overran()) {
    context_.verdict.Fail("QP ", qpn_.value, " is in ERR and has not flushed its requests");
  }
  if (config_.lenient) return;
  const bool other_reason = session_.moved_to_error || session_.access_error_event || broken();
  if (overran() && !session_.fatal_event && !other_reason) {
    context_.verdict.Fail("QP ", qpn_.value, " lost a completion and was not told");
  }
  if (shared_ != nullptr && !session_.last_wqe_event) {
    context_.verdict.Fail("QP ", qpn_.value, " is in ERR and has no last WQE event");
  }
}

}  // namespace uroce::transport::simulation
