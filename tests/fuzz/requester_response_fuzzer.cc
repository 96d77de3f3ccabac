// Any response may arrive for any outstanding request, at any time. The input is a sequence of
// operations on one reliable connection: right and wrong work requests of every kind, turns to
// transmit, honest and arbitrary responses, time, changes of state and of memory.
//
// Compared with RequesterModel: the queue pair's result for each response, every byte of local
// memory, every packet sent (its contents, and whether it may be sent now), and that requests
// complete once, in order, with the right status. At the end the peer falls silent, and the queue
// pair must not wait for ever.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tests/fuzz/fuzz_memory.h"
#include "tests/fuzz/fuzz_peer.h"
#include "tests/fuzz/record.h"
#include "tests/fuzz/requester_model.h"
#include "tests/fuzz/require.h"
#include "transport/endpoint.h"
#include "transport/wire/frame_parser.h"

namespace uroce::transport {
namespace {

constexpr uint32_t kSendDepth = 12;
constexpr uint32_t kSendSges = 3;
constexpr uint32_t kInlineBytes = 64;

class RequesterFuzz {
 public:
  explicit RequesterFuzz(Record setup);
  void Step(Record record);
  void Finish();

 private:
  void PostSend(Record& record);
  void Respond(Record& record);
  void AnswerHonestly(Record& record);
  void Transmit(uint32_t frames);
  void PassTime(Record& record);
  void Modify(Record& record);

  void Reconnect();
  void RunTimers();
  void Deliver(const TransportHeaders& headers, std::span<const uint8_t> payload);
  std::vector<uint8_t> Data(size_t bytes);
  void CheckCompletions();

  Endpoint endpoint_{FuzzEndpointConfig()};
  FuzzMemory memory_{endpoint_.memory()};
  std::array<uint8_t, 256> window_bytes_{};
  LKey window_region_;
  std::array<RKey, 2> windows_;
  std::unique_ptr<CompletionQueue> cq_ = endpoint_.CreateCompletionQueue(64, this);
  QueuePair* qp_ = nullptr;
  FuzzConnection connection_;
  std::optional<RequesterModel> model_;
  uint64_t next_wr_id_ = 1;
  Time now_{1'000};
  std::array<uint8_t, kMaxFrameBytes> frame_;
};

RequesterFuzz::RequesterFuzz(Record setup) {
  constexpr uint32_t kPsns[] = {0, 0xff'fffd, 0x7f'fffe, 0xff'ff80};
  constexpr uint8_t kReads[] = {2, 1, 4, 0};
  constexpr uint8_t kTimeouts[] = {14, 1, 0, 31};
  constexpr uint8_t kRetries[] = {2, 0, 7, 1};
  const QpInitAttributes init = {.pd = kOurPd,
                                 .send_cq = cq_.get(),
                                 .receive_cq = cq_.get(),
                                 .capabilities = {.max_send_wr = kSendDepth,
                                                  .max_send_sge = kSendSges,
                                                  .max_inline_bytes = kInlineBytes},
                                 .context = this};
  UROCE_REQUIRE(endpoint_.CreateQueuePair(init, &qp_) == Status::kOk);
  connection_ = {.first_psn = Psn(setup.Pick(kPsns)),
                 .access = 0,
                 .max_read_atomic = setup.Pick(kReads),
                 .timeout = setup.Pick(kTimeouts),
                 .retry_count = setup.Pick(kRetries),
                 .rnr_retry = setup.Pick(kRetries)};
  window_region_ = *endpoint_.memory().Register(
      {.pd = kOurPd,
       .iova = reinterpret_cast<uint64_t>(window_bytes_.data()),
       .host_address = window_bytes_.data(),
       .length = window_bytes_.size(),
       .access = AccessFlags(AccessFlags::kLocalWrite | AccessFlags::kWindowBind)});
  windows_ = {*endpoint_.memory().AllocateWindow(kOurPd, WindowType::kType1),
              *endpoint_.memory().AllocateWindow(kOurPd, WindowType::kType2)};
  Reconnect();
}

void RequesterFuzz::Reconnect() {
  Connect(*qp_, connection_, QpState::kReadyToSend);
  model_.emplace(*qp_, memory_, connection_);
}

void RequesterFuzz::Step(Record record) {
  switch (record.Below(16)) {
    case 0:
      Modify(record);
      break;
    case 1:
      memory_.ToggleRegion(record.Below(FuzzMemory::kRegions));
      break;
    case 2:
      PassTime(record);
      break;
    case 3:
    case 4:
      Transmit(record.Below(32));
      break;
    case 5:
    case 6:
    case 7:
      Respond(record);
      break;
    case 8:
    case 9:
    case 10:
    case 11:
      AnswerHonestly(record);
      break;
    default:
      PostSend(record);
  }
  CheckCompletions();
}

void RequesterFuzz::PostSend(Record& record) {
  SendWorkRequest request;
  request.wr_id = next_wr_id_;
  request.opcode = static_cast<SendOpcode>(record.Below(11));  // the last one does not exist
  const uint8_t flags = record.Byte();
  if (request.opcode > SendOpcode::kSendWithInvalidate && (flags & 0x80) != 0) {
    request.opcode = (flags & 8) != 0 ? SendOpcode::kFlush : SendOpcode::kAtomicWrite;
  }
  request.signaled = (flags & 1) != 0;
  request.fence = (flags & 6) == 6;
  request.solicited = (flags & 8) != 0;
  request.inline_data = (flags & 0x70) == 0x70;

  std::array<ScatterGatherEntry, kSendSges + 1> sges;
  const bool is_number = IsAtomic(request.opcode) || request.opcode == SendOpcode::kAtomicWrite;
  const uint32_t sge_count = is_number ? 1 : record.Below(kSendSges + 2);
  for (ScatterGatherEntry& sge : std::span(sges).first(sge_count)) {
    const FuzzMemory::Grant& grant =
        memory_.grant(request.inline_data || record.Flag() ? 0 : record.Byte());
    sge = {grant.iova + record.Byte() * 8, uint32_t{record.Byte()} * 4, LKey{grant.key}};
  }
  if (is_number && flags < 0xf0) sges[0].length = 8;
  // Inline data needs no registered memory.
  if (request.inline_data) {
    for (ScatterGatherEntry& sge : sges) {
      sge.address = reinterpret_cast<uint64_t>(window_bytes_.data());
      sge.length /= 4;  // all of window_bytes_ at most
    }
  }
  request.sges = std::span(sges).first(sge_count);
  request.remote_address = 0x1'0000 + flags;
  request.immediate = flags;
  request.swap = flags;
  request.placement = flags >= 0xf0 ? flags : static_cast<uint8_t>(1 + flags % 3);
  request.selectivity = static_cast<Selectivity>(flags >= 0xf0 ? flags % 4 : flags % 2);
  request.flush_length = flags;
  request.compare_or_add = ~uint64_t{flags};
  RKey& window = windows_[record.Below(2)];
  request.rkey = request.invalidate_rkey = window;
  if (request.opcode == SendOpcode::kBindWindow) {
    request.rkey.value = (window.value & ~0xffu) | ((window.value + record.Byte()) & 0xff);
    request.window = {window, window_region_, reinterpret_cast<uint64_t>(window_bytes_.data()),
                      uint64_t{record.Byte()} * 2, AccessFlags(AccessFlags::kRemoteWrite)};
  }
  if (qp_->PostSend(request) != Status::kOk) return;
  window = request.rkey;
  ++next_wr_id_;
  model_->OnPosted(request);
}

std::vector<uint8_t> RequesterFuzz::Data(size_t bytes) {
  std::vector<uint8_t> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<uint8_t>(i * 3 + next_wr_id_);
  return data;
}

void RequesterFuzz::Deliver(const TransportHeaders& headers, std::span<const uint8_t> payload) {
  const std::vector<uint8_t> frame = FrameFrom(kPeerGid, headers, payload);
  Packet packet;
  UROCE_REQUIRE(ParseFrame(frame, packet) == DropReason::kNone);
  const DropReason expected = model_->Expect(packet);
  const DropReason result = endpoint_.OnFrame(now_, frame);
  model_->OnResponse(now_, packet, expected, result);
}

// The response of a peer that has received everything up to some packet.
void RequesterFuzz::AnswerHonestly(Record& record) {
  const Psn psn = model_->unacked_psn() + record.Byte() / 64;
  const RequesterModel::Request* request = model_->Find(psn);
  if (request == nullptr) return;
  TransportHeaders headers;
  headers.destination_qpn = qp_->qpn();
  headers.psn = psn;
  headers.aeth = {Syndrome(record.Byte() & 0x1f), record.Byte()};
  headers.opcode.operation = Operation::kAcknowledge;
  size_t bytes = 0;
  if (request->has_own_response() && !IsAtomic(request->parameters.opcode)) {
    headers.opcode.operation = Operation::kReadResponse;
    const bool first = psn == request->first_psn;
    const bool last = psn + 1 == request->end_psn();
    headers.opcode.position = first ? (last ? Position::kOnly : Position::kFirst)
                                    : (last ? Position::kLast : Position::kMiddle);
    bytes = model_->ReadBytes(*request, psn);
  } else if (request->has_own_response()) {
    headers.opcode.operation = Operation::kAtomicAcknowledge;
    headers.atomic_original = record.DoubleWord();
  }
  Deliver(headers, Data(bytes));
}

void RequesterFuzz::Respond(Record& record) {
  constexpr uint8_t kOpcodes[] = {0x11, 0x11, 0x11, 0x0d, 0x0e, 0x0f, 0x10, 0x12};
  TransportHeaders headers;
  headers.opcode = *ParseOpcode(record.Pick(kOpcodes));
  headers.destination_qpn = qp_->qpn();
  const Psn from = record.Flag() ? model_->sent_psn() : model_->unacked_psn();
  headers.psn = from + static_cast<uint32_t>(record.Near());
  headers.aeth.syndrome = Syndrome(record.Byte());
  const uint32_t high = record.Byte();
  headers.aeth.msn = high << 16 | record.Byte();
  headers.atomic_original = record.DoubleWord();
  constexpr size_t kLengths[] = {256, 0, 255, 260};
  const size_t bytes = record.Flag() ? record.Pick(kLengths) : record.Byte();
  Deliver(headers, Data(headers.opcode.HasPayload() ? bytes : 0));
}

void RequesterFuzz::Transmit(uint32_t frames) {
  for (; frames > 0; --frames) {
    const size_t bytes = endpoint_.PollTransmit(now_, Route::kWire, frame_);
    if (bytes == 0) break;
    Packet packet;
    UROCE_REQUIRE(ParseFrame(std::span(frame_).first(bytes), packet) == DropReason::kNone);
    UROCE_REQUIRE(packet.flow.source == kOurGid && packet.flow.destination == kPeerGid);
    model_->OnFrame(now_, packet);
  }
  if (frames == 0) return;
  UROCE_REQUIRE(!endpoint_.HasTransmit(Route::kWire));
  CheckCompletions();
  // A queue pair that waits needs a timer, or it would wait for ever.
  const bool waits = qp_->state() == QpState::kReadyToSend && model_->IsWaiting();
  if (waits && connection_.timeout != 0) UROCE_REQUIRE(endpoint_.NextDeadline() != kNever);
}

void RequesterFuzz::RunTimers() {
  const uint64_t timeouts = endpoint_.counters().ack_timeouts;
  endpoint_.OnDeadline(now_);
  UROCE_REQUIRE(endpoint_.counters().ack_timeouts - timeouts <= 1);
  if (endpoint_.counters().ack_timeouts != timeouts) model_->OnTimeout(now_);
  UROCE_REQUIRE(endpoint_.NextDeadline() > now_);
}

void RequesterFuzz::PassTime(Record& record) {
  const Time deadline = endpoint_.NextDeadline();
  if (record.Flag() && deadline != kNever) {
    now_ = deadline;
  } else {
    now_ = now_ + Duration{int64_t{1} << record.Below(32)};
  }
  RunTimers();
}

void RequesterFuzz::Modify(Record& record) {
  constexpr QpState kNext[] = {QpState::kSendQueueDrain, QpState::kReadyToSend, QpState::kError,
                               QpState::kReset};
  QpAttributes attributes;
  attributes.state = record.Pick(kNext);
  attributes.enable_sqd_notify = record.Flag();
  const uint32_t notify =
      attributes.state == QpState::kSendQueueDrain ? QpAttributeMask::kEnableSqdNotify : 0;
  const Status status = qp_->Modify(attributes, QpAttributeMask::kState | notify);
  if (status == Status::kOk && attributes.state == QpState::kReset) Reconnect();
}

void RequesterFuzz::CheckCompletions() {
  std::array<Completion, 16> completions;
  while (const uint32_t count = cq_->Poll(completions)) {
    for (uint32_t i = 0; i < count; ++i) model_->OnCompletion(completions[i]);
  }
  model_->RequireQuiescent();
  memory_.RequireAsExpected();
  while (const auto event = endpoint_.TakeEvent()) UROCE_REQUIRE(event->context == this);
}

// The peer falls silent.
void RequesterFuzz::Finish() {
  QpAttributes attributes;
  attributes.state = QpState::kReadyToSend;
  if (qp_->state() == QpState::kSendQueueDrain) {
    UROCE_REQUIRE(qp_->Modify(attributes, QpAttributeMask::kState) == Status::kOk);
  }
  // Enough rounds for all retries of one request and as many waits after RNR NAKs.
  for (int i = 0; i < 16 && qp_->state() != QpState::kError; ++i) {
    Transmit(2'000);
    if (endpoint_.NextDeadline() == kNever) break;
    now_ = endpoint_.NextDeadline();
    RunTimers();
    CheckCompletions();
  }
  if (connection_.timeout != 0 && qp_->state() != QpState::kError) {
    UROCE_REQUIRE(!model_->IsWaiting());
  }
  attributes.state = QpState::kError;
  UROCE_REQUIRE(qp_->Modify(attributes, QpAttributeMask::kState) == Status::kOk);
  CheckCompletions();
  UROCE_REQUIRE(endpoint_.PollTransmit(now_, Route::kWire, frame_) == 0);
  endpoint_.DestroyQueuePair(qp_);
  endpoint_.DestroyCompletionQueue(std::move(cq_));
}

}  // namespace
}  // namespace uroce::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uroce::transport::SetUpAndRunSteps<uroce::transport::RequesterFuzz>({data, size});
  return 0;
}
