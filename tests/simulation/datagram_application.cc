#include "tests/simulation/datagram_application.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/describe.h"
#include "tests/simulation/receive_model.h"
#include "transport/limits.h"

namespace uroce::transport::simulation {

using Mask = QpAttributeMask;

namespace {

constexpr uint32_t kSlots = 32;

}  // namespace

DatagramApplication::DatagramApplication(Context& context, Host& host, const Config& config,
                                         SharedReceives* shared, const Everybody& everybody,
                                         Random random)
    : context_(context),
      host_(host),
      config_(config),
      shared_(shared),
      everybody_(everybody),
      random_(random),
      source_(host.endpoint().memory(), Host::kPd, 8 * kMtu, AccessFlags(), random_.Fork()),
      nothing_(host.endpoint().memory(), Host::kPd, 8, AccessFlags(), random_.Fork()),
      source_allocator_(source_.size()),
      nothing_allocator_(nothing_.size()),
      inbox_(context.verdict, host.endpoint().memory(), Host::kPd,
             {.bytes = config.scenario.receive_bytes,
              .max_sges = config.scenario.capabilities.max_receive_sge,
              .slots = shared == nullptr ? kSlots : 0,
              .first_wr_id = kReceiveBit},
             random_.Fork()),
      completions_(context, host.endpoint(),
                   {.entries = config.scenario.capabilities.max_send_wr +
                               (shared == nullptr ? config.scenario.capabilities.max_receive_wr
                                                  : shared->max_requests()),
                    .may_overrun = false,
                    .lenient = config.lenient},
                   random_.Fork()),
      drain_(context.verdict) {
  CreateQueuePair();
  BecomeReady();
  host.AddProcess(*this);
}

DatagramApplication::~DatagramApplication() { host_.endpoint().DestroyQueuePair(qp_); }

Gid DatagramApplication::GidOf(uint32_t group) const {
  const auto number = static_cast<uint8_t>(group + 1);
  return config_.ipv6 ? Gid{{0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, number}}
                      : Gid::FromIpv4({239, 1, 2, number});
}

void DatagramApplication::CreateQueuePair() {
  Endpoint& endpoint = host_.endpoint();
  QpInitAttributes init;
  init.pd = Host::kPd;
  init.type = QpType::kUnreliableDatagram;
  init.send_cq = init.receive_cq = completions_.queue();
  init.srq = shared_ == nullptr ? nullptr : shared_->queue();
  init.capabilities = config_.scenario.capabilities;
  init.context = EventListener::context();
  if (endpoint.CreateQueuePair(init, &qp_) != Status::kOk) {
    return context_.verdict.Fail("cannot create a datagram queue pair");
  }
  for (uint32_t group = 0; group < DatagramScenario::kGroups; ++group) {
    if (endpoint.DetachMulticast(*qp_, GidOf(group)) != Status::kInvalidArgument) {
      context_.verdict.Fail("detached from a group without being a member");
    }
    if (!IsMember(group)) continue;
    for (int twice = 0; twice < 2; ++twice) {
      if (endpoint.AttachMulticast(*qp_, GidOf(group)) != Status::kOk) {
        context_.verdict.Fail("cannot attach to a group");
      }
    }
  }
}

// RESET -> RTS.
void DatagramApplication::BecomeReady() {
  QpAttributes attributes;
  attributes.state = QpState::kInit;
  attributes.port_num = 1;
  attributes.qkey = kQkey;
  Modify(attributes, Mask::kState | Mask::kPkeyIndex | Mask::kPort | Mask::kQkey);
  attributes.state = QpState::kReadyToReceive;
  Modify(attributes, Mask::kState);
  attributes.state = QpState::kReadyToSend;
  attributes.sq_psn = Psn(Psn::kMask - static_cast<uint32_t>(random_.Below(20)));
  Modify(attributes, Mask::kState | Mask::kSqPsn);
  context_.monitor.AddDatagram({qp_, attributes.sq_psn, kMtu});

  if (shared_ != nullptr) shared_->AddUser();
  inbox_.Clear();
  source_allocator_ = RingAllocator(source_.size());
  moved_to_error_ = false;
  drain_.Forget();
  const SendModel::Memory memory = {source_,  source_allocator_, nothing_, nothing_allocator_,
                                    nothing_, host_.counters()};
  sends_ = std::make_unique<SendModel>(
      context_.verdict, memory,
      [this](CompletionStatus status) {
        return status == CompletionStatus::kFlushed && moved_to_error_;
      },
      SendModel::Rules{.lenient = config_.lenient, .reliable = false});
}

void DatagramApplication::Modify(const QpAttributes& attributes, uint32_t mask) {
  if (qp_->Modify(attributes, mask) != Status::kOk) {
    context_.verdict.Fail("cannot modify a datagram queue pair to state ",
                          static_cast<int>(attributes.state));
  }
}

// Goes to RESET, perhaps through ERR, and back to RTS. Frames on the wire arrive after that.
void DatagramApplication::ResetQueuePair() {
  was_reset_ = true;
  QpAttributes attributes;
  if (random_.Percent(50)) {
    moved_to_error_ = true;
    attributes.state = QpState::kError;
    Modify(attributes, Mask::kState);
    host_.TakeEvents();
    Poll();
    if (inbox_.outstanding() != 0 || sends_->outstanding() != 0) {
      context_.verdict.Fail("a datagram queue pair in ERR has not flushed everything");
    }
  }
  Poll();  // the reset removes the completions still queued
  attributes.state = QpState::kReset;
  Modify(attributes, Mask::kState);
  if (!completions_.empty()) context_.verdict.Fail("a queue pair has left completions behind");
  if (shared_ == nullptr) inbox_.CheckUntouched(0);
  BecomeReady();
}

void DatagramApplication::RecoverSendQueue() {
  if (!sends_->broken() || sends_->outstanding() != 0) {
    return context_.verdict.Fail("a datagram queue pair in SQE has not flushed its requests");
  }
  QpAttributes attributes;
  attributes.state = QpState::kReadyToSend;
  attributes.qkey = kQkey;
  Modify(attributes, Mask::kState | Mask::kQkey);
  sends_->Recover();
}

void DatagramApplication::OnActivity() {
  if (!config_.scenario.polls_late) Poll();
  drain_.Check(*qp_);
  if (wake_scheduled_ || !HasReasonToWake()) return;
  wake_scheduled_ = true;
  const auto longest_ns = static_cast<uint64_t>(config_.scenario.think_time.ns) + 1'000;
  context_.simulator.After(Duration{static_cast<int64_t>(random_.Between(1, longest_ns))}, [this] {
    wake_scheduled_ = false;
    Wake();
    host_.UpdateAfterEvent();
  });
}

bool DatagramApplication::HasReasonToWake() const {
  if (!completions_.empty() || state() != QpState::kReadyToSend) return true;
  const bool may_send = posted_ < config_.scenario.work_requests &&
                        sends_->outstanding() < config_.scenario.capabilities.max_send_wr;
  const bool may_receive =
      shared_ == nullptr &&
      inbox_.outstanding() < std::min(kSlots, config_.scenario.capabilities.max_receive_wr);
  return may_send || may_receive;
}

void DatagramApplication::Wake() {
  Poll();
  if (state() == QpState::kSendQueueError) return RecoverSendQueue();
  const DatagramScenario& scenario = config_.scenario;
  if (!scenario.posts_receives_late || random_.Percent(20)) PostReceives();
  for (uint64_t burst = random_.Between(1, 8); burst > 0; --burst) {
    const bool room = sends_->outstanding() < scenario.capabilities.max_send_wr;
    if (posted_ < scenario.work_requests && room && state() == QpState::kReadyToSend) Post();
  }
  if (drain_.active()) {
    if (drain_.drained()) drain_.End(*qp_);
  } else if (scenario.is_restless && random_.Percent(10)) {
    drain_.Begin(*qp_, random_.Percent(60));
  } else if (scenario.is_restless && random_.Percent(5)) {
    ResetQueuePair();
  }
}

void DatagramApplication::Poll() {
  completions_.Poll([this](const Completion& completion) { return OnCompletion(completion); });
}

bool DatagramApplication::OnCompletion(const Completion& completion) {
  const bool is_receive = (completion.wr_id & kReceiveBit) != 0;
  context_.trace.OnEvent(context_.simulator.now(), is_receive ? "receive completes" : "completes",
                         {{"qp", completion.qpn.value},
                          {"wr", completion.wr_id & ~kReceiveBit},
                          {"status", static_cast<uint64_t>(completion.status)},
                          {"bytes", completion.byte_length}});
  if (completion.qpn != qp_->qpn()) context_.verdict.Fail("a completion of another queue pair");
  const bool failed = completion.status != CompletionStatus::kSuccess;
  if (is_receive) return OnReceived(completion) || failed;
  sends_->OnCompletion(completion);
  return failed;
}

// Returns whether the completion counts as solicited.
bool DatagramApplication::OnReceived(const Completion& completion) {
  const auto posted =
      shared_ == nullptr ? inbox_.Complete(completion.wr_id, 1) : shared_->Complete(completion);
  if (!posted || config_.lenient) return false;
  if (completion.status != CompletionStatus::kSuccess) {
    // In a shared queue a datagram that is too long uses up its request.
    const bool flushed = completion.status == CompletionStatus::kFlushed && moved_to_error_;
    if (!flushed) context_.verdict.Fail("a receive fails: ", DescribeCompletion(completion));
    return true;
  }
  const auto area = pool().arena().bytes(posted->offset, posted->before.size());
  std::vector<uint8_t> bytes = posted->layout.Gather(area);
  bytes.resize(std::min<size_t>(bytes.size(), completion.byte_length));
  std::vector<uint8_t> expected = posted->before;
  posted->layout.Scatter(bytes, expected);
  if (bytes.size() < kGrhBytes || !std::ranges::equal(area, expected)) {
    context_.verdict.Fail("wrong byte beside a datagram: ", DescribeCompletion(completion));
    return false;
  }
  const std::ptrdiff_t address_bytes = config_.ipv6 ? 16 : 4;
  const auto header_end = bytes.begin() + kGrhBytes;
  const bool to_group =
      !std::equal(header_end - address_bytes, header_end, host_.gid().bytes.end() - address_bytes);
  const auto stream = streams_.find({completion.source_qpn, to_group});
  const Message* message = nullptr;
  if (stream != streams_.end()) {
    message = stream->second.Take(
        [&](const Message& candidate) { return Fits(completion, bytes, candidate); });
  }
  if (message == nullptr) {
    context_.verdict.Fail("a datagram that nobody sent here: ", DescribeCompletion(completion));
    return false;
  }
  return message->solicited;
}

bool DatagramApplication::Fits(const Completion& completion, std::span<const uint8_t> bytes,
                               const Message& message) const {
  Completion expected = ExpectedCompletion(message);
  expected.flags |= Completion::kHasGrh;
  if (!SaysTheSame(completion, expected)) return false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != message.bytes[i] && !MayDiffer(i)) return false;
  }
  return true;
}

// Whether received byte `i` may differ from the byte sent.
bool DatagramApplication::MayDiffer(size_t i) const {
  // Traffic class, flow label and hop limit are in no checksum that finds every flipped bit.
  if (config_.wire_corrupts && config_.ipv6 && (i < 4 || i == 7)) return true;
  if (config_.wire_corrupts && !config_.ipv6 && (i == 21 || i == 28)) return true;
  // The sender chooses identification, flags and checksum of an IPv4 header.
  return !config_.ipv6 && ((i >= 24 && i < 28) || i == 30 || i == 31);
}

void DatagramApplication::OnEvent(EventType type) {
  if (type == EventType::kSendQueueDrained) return drain_.OnEvent(*qp_);
  const bool last_wqe = type == EventType::kLastWqeReached && shared_ != nullptr && was_reset_;
  if (!last_wqe && !config_.lenient) {
    context_.verdict.Fail("a datagram queue pair has event ", static_cast<int>(type));
  }
}

bool DatagramApplication::finished() const {
  return state() == QpState::kReadyToSend && posted_ == config_.scenario.work_requests &&
         sends_->outstanding() == 0;
}

size_t DatagramApplication::missing() const {
  size_t sum = 0;
  for (const auto& [key, stream] : streams_) sum += key.second ? 0 : stream.missing();
  return sum;
}

void DatagramApplication::CheckEnd() {
  Poll();
  if (shared_ == nullptr) inbox_.CheckUntouched(0);
  if (!source_.CanariesIntact() || !inbox_.arena().CanariesIntact()) {
    context_.verdict.Fail("memory beside a region was written");
  }
}

std::string DatagramApplication::Progress() const {
  return Text("UD QP ", std::hex, qp_->qpn().value, std::dec, " state ", static_cast<int>(state()),
              ": posted ", posted_, " of ", config_.scenario.work_requests, ", outstanding ",
              sends_->outstanding(), ", receives ", inbox_.outstanding());
}

}  // namespace uroce::transport::simulation
