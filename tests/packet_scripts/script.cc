#include "tests/packet_scripts/script.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "tests/packet_scripts/coverage.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/frame_parser.h"

namespace uroce::packet_scripts {

using transport::AccessFlags;
using transport::AddressVector;
using transport::Completion;
using transport::CompletionStatus;
using transport::DropReason;
using transport::Duration;
using transport::EndpointConfig;
using transport::EventType;
using transport::FrameBuilder;
using transport::Gid;
using transport::kMaxFrameBytes;
using transport::kNever;
using transport::MacAddress;
using transport::Packet;
using transport::PayloadPiece;
using transport::QpAttributeMask;
using transport::QpAttributes;
using transport::QpInitAttributes;
using transport::Qpn;
using transport::QpState;
using transport::Route;
using transport::ScatterGatherEntry;
using transport::SendOpcode;
using transport::SendWorkRequest;
using transport::Status;
using transport::Time;

namespace {

constexpr MacAddress kOurMac{2, 0, 0, 0, 0, 1};
constexpr MacAddress kPeerMac{2, 0, 0, 0, 0, 2};

EndpointConfig MakeConfig() {
  EndpointConfig config;
  config.mac = kOurMac;
  config.gids = {Gid::LinkLocal(kOurMac), Script::kOurGid};
  config.first_qpn = Qpn{0x100};
  config.qpn_count = 16;
  return config;
}

void FailAt(const Script::Location& location, const std::string& what) {
  GTEST_MESSAGE_AT_(location.file_name(), static_cast<int>(location.line()), what.c_str(),
                    testing::TestPartResult::kNonFatalFailure);
}

template <class Enum>
std::string Number(Enum value) {
  return std::to_string(static_cast<int>(value));
}

std::string DescribeCompletion(const Completion& completion) {
  return "completion of " + std::to_string(completion.wr_id) + " with status " +
         Number(completion.status);
}

std::string Describe(const PacketSpec& spec) { return Describe(spec, spec.payload.size()); }

// Whether two packets say the same, as far as the opcode has it.
bool Matches(const PacketSpec& expected, const PacketSpec& actual) {
  const transport::Opcode& opcode = expected.opcode;
  if (opcode != actual.opcode || expected.psn != actual.psn) return false;
  if (expected.payload != actual.payload) return false;
  if (!opcode.IsResponse() && expected.solicited != actual.solicited) return false;
  if (opcode.HasReth() && expected.reth != actual.reth) return false;
  if (opcode.HasAtomicEth() && expected.atomic != actual.atomic) return false;
  if (opcode.HasAtomicAckEth() && expected.atomic_original != actual.atomic_original) return false;
  if (opcode.HasImmediate() && expected.immediate != actual.immediate) return false;
  if (opcode.HasIeth() && expected.invalidate_rkey != actual.invalidate_rkey) return false;
  if (!opcode.HasAeth()) return true;
  const transport::Syndrome wanted = expected.aeth.syndrome;
  const transport::Syndrome got = actual.aeth.syndrome;
  // The credit count of an ACK is a hint.
  const bool same_syndrome =
      wanted.kind() == got.kind() &&
      (wanted.kind() == transport::Syndrome::Kind::kAck || wanted.value() == got.value());
  return same_syndrome && (!expected.expected_msn || *expected.expected_msn == actual.aeth.msn);
}

}  // namespace

Script::Script(const Options& options)
    : options_(options), endpoint_(MakeConfig()), memory_(kMemoryBytes) {
  const AccessFlags all(AccessFlags::kLocalWrite | AccessFlags::kRemoteWrite |
                        AccessFlags::kRemoteRead | AccessFlags::kRemoteAtomic |
                        AccessFlags::kWindowBind);
  key_ = *endpoint_.memory().Register({kPd, kIova, memory_.data(), kMemoryBytes, all});
  cq_ = endpoint_.CreateCompletionQueue(8 * options.queue_depth, nullptr);
  QpInitAttributes init;
  init.pd = kPd;
  init.send_cq = cq_.get();
  init.receive_cq = cq_.get();
  init.capabilities = {options.queue_depth, options.queue_depth, 4, 4, 64};
  init.signal_all = options.signal_all;
  EXPECT_EQ(endpoint_.CreateQueuePair(init, &qp_), Status::kOk);
  Connect();
}

Script::~Script() {
  Drain();
  for (const PacketSpec& spec : sent_) ADD_FAILURE() << "nobody expected " << Describe(spec);
  for (const Completion& completion : completions_) {
    ADD_FAILURE() << "nobody expected " << DescribeCompletion(completion);
  }
  coverage().Add(counters());
  endpoint_.DestroyQueuePair(qp_);
  endpoint_.DestroyCompletionQueue(std::move(cq_));
}

void Script::Connect() {
  using Mask = QpAttributeMask;
  if (options_.state == QpState::kReset) return;
  QpAttributes attributes;
  attributes.state = QpState::kInit;
  attributes.port_num = 1;
  attributes.access = options_.qp_access;
  EXPECT_EQ(
      qp_->Modify(attributes, Mask::kState | Mask::kPkeyIndex | Mask::kPort | Mask::kAccessFlags),
      Status::kOk);
  if (options_.state == QpState::kInit) return;

  attributes.state = QpState::kReadyToReceive;
  attributes.path_mtu = options_.mtu;
  attributes.destination_qpn = kPeerQpn;
  attributes.rq_psn = options_.peers_first_psn;
  attributes.max_dest_read_atomic = options_.max_dest_read_atomic;
  attributes.min_rnr_timer = options_.min_rnr_timer;
  attributes.address.destination_gid = kPeerGid;
  attributes.address.destination_mac = kPeerMac;
  attributes.address.source_gid_index = 1;
  EXPECT_EQ(qp_->Modify(attributes, Mask::kState | Mask::kAddressVector | Mask::kPathMtu |
                                        Mask::kDestinationQpn | Mask::kRqPsn |
                                        Mask::kMaxDestReadAtomic | Mask::kMinRnrTimer),
            Status::kOk);
  if (options_.state == QpState::kReadyToReceive) return;

  attributes.state = QpState::kReadyToSend;
  attributes.sq_psn = options_.first_psn;
  attributes.timeout = options_.timeout;
  attributes.retry_count = options_.retry_count;
  attributes.rnr_retry = options_.rnr_retry;
  attributes.max_read_atomic = options_.max_read_atomic;
  EXPECT_EQ(qp_->Modify(attributes, Mask::kState | Mask::kSqPsn | Mask::kTimeout |
                                        Mask::kRetryCount | Mask::kRnrRetry | Mask::kMaxReadAtomic),
            Status::kOk);
  if (options_.state == QpState::kReadyToSend) return;
  EXPECT_EQ(MoveTo(options_.state), Status::kOk);
}

Status Script::MoveTo(QpState state) {
  QpAttributes attributes;
  attributes.state = state;
  return qp_->Modify(attributes, QpAttributeMask::kState);
}

void Script::Drain() {
  while (!holds_transmit_ && TakeFrame()) {
  }
  Completion completion;
  while (cq_->Poll({&completion, 1}) == 1) completions_.push_back(completion);
}

bool Script::TakeFrame() {
  if (!endpoint_.HasTransmit(Route::kWire)) return false;
  last_frame_.resize(kMaxFrameBytes);
  last_frame_.resize(endpoint_.PollTransmit(now_, Route::kWire, last_frame_));
  if (last_frame_.empty()) return false;
  Packet packet;
  const DropReason reason = ParseFrame(last_frame_, packet);
  EXPECT_EQ(reason, DropReason::kNone) << Name(reason);
  EXPECT_EQ(packet.destination_qpn, kPeerQpn);
  PacketSpec spec;
  static_cast<transport::TransportHeaders&>(spec) = packet;
  spec.payload.assign(packet.payload.begin(), packet.payload.end());
  sent_.push_back(std::move(spec));
  return true;
}

void Script::TransmitOne() { EXPECT_TRUE(TakeFrame()); }

void Script::ReleaseTransmit() {
  holds_transmit_ = false;
  Drain();
}

std::vector<uint8_t> Script::Frame(const PacketSpec& spec, const Gid& source,
                                   const Gid& destination) const {
  AddressVector address;
  address.destination_gid = destination;
  address.destination_mac = kOurMac;
  const FrameBuilder builder(kPeerMac, source, address, 0xc123);
  PacketSpec packet = spec;
  if (packet.destination_qpn == Qpn{}) packet.destination_qpn = qp_->qpn();
  std::vector<uint8_t> frame(kMaxFrameBytes);
  const PayloadPiece piece{packet.payload.data(), packet.payload.size()};
  frame.resize(builder.Emit(packet, {&piece, 1}, frame));
  return frame;
}

DropReason Script::InjectFrame(std::span<const uint8_t> frame) {
  Drain();
  const DropReason reason = endpoint_.OnFrame(now_, frame);
  Drain();
  return reason;
}

DropReason Script::Inject(const PacketSpec& spec) {
  if (spec.opcode.HasAeth()) coverage().naks_received.insert(KindOf(spec.aeth.syndrome));
  return InjectFrame(Frame(spec));
}

void Script::ExpectDropped(DropReason reason, const PacketSpec& spec, Location location) {
  if (spec.opcode.HasAeth()) coverage().naks_received.insert(KindOf(spec.aeth.syndrome));
  ExpectFrameDropped(reason, Frame(spec), location);
}

void Script::ExpectFrameDropped(DropReason expected, std::span<const uint8_t> frame,
                                Location location) {
  const uint64_t before = counters().drops(expected);
  const DropReason reason = InjectFrame(frame);
  coverage().dropped.insert(reason);
  if (reason != expected || counters().drops(expected) != before + 1) {
    FailAt(location,
           "expected " + std::string(Name(expected)) + " but it is " + std::string(Name(reason)));
  }
}

PacketSpec Script::ExpectSent(const PacketSpec& expected, Location location) {
  Drain();
  if (sent_.empty()) {
    FailAt(location, "expected " + Describe(expected) + "\nbut nothing is sent");
    return expected;
  }
  PacketSpec actual = std::move(sent_.front());
  sent_.pop_front();
  if (actual.opcode.HasAeth()) coverage().naks_sent.insert(KindOf(actual.aeth.syndrome));
  if (!Matches(expected, actual)) {
    FailAt(location, "expected " + Describe(expected) + "\nbut sent " + Describe(actual));
  }
  return actual;
}

void Script::ExpectNothingSent(Location location) {
  for (const PacketSpec& spec : TakeSent()) FailAt(location, "unexpected: " + Describe(spec));
}

std::vector<PacketSpec> Script::TakeSent() {
  Drain();
  std::vector<PacketSpec> taken(sent_.begin(), sent_.end());
  sent_.clear();
  return taken;
}

void Script::Advance(Duration duration) {
  Drain();
  const Time until = now_ + duration;
  while (endpoint_.NextDeadline() <= until) {
    now_ = std::max(now_, endpoint_.NextDeadline());
    endpoint_.OnDeadline(now_);
    ASSERT_GT(endpoint_.NextDeadline(), now_) << "a deadline in the past after OnDeadline";
    Drain();
  }
  now_ = until;
}

void Script::ExpectNoDeadline(Location location) {
  Drain();
  // A timer that was cancelled may leave its deadline behind; then nothing happens at it.
  for (int i = 0; i < 3 && endpoint_.NextDeadline() != kNever; ++i) {
    const size_t sent = sent_.size();
    endpoint_.OnDeadline(std::max(now_, endpoint_.NextDeadline()));
    Drain();
    if (sent_.size() != sent || !completions_.empty()) FailAt(location, "a timer went off");
  }
  if (endpoint_.NextDeadline() != kNever) FailAt(location, "a timer runs");
}

void Script::PostReceive(uint64_t wr_id, uint64_t offset, uint32_t length) {
  const ScatterGatherEntry sge{Address(offset), length, key_};
  EXPECT_EQ(qp_->PostReceive({wr_id, {&sge, 1}}), Status::kOk);
}

Status Script::Post(SendWorkRequest request, uint64_t offset, uint32_t length) {
  const ScatterGatherEntry sge{Address(offset), length, key_};
  request.sges = {&sge, 1};
  const Status status = qp_->PostSend(request);
  Drain();
  return status;
}

namespace {

SendWorkRequest Signaled(uint64_t wr_id, SendOpcode opcode) {
  SendWorkRequest request;
  request.wr_id = wr_id;
  request.opcode = opcode;
  request.signaled = true;
  request.remote_address = Script::kPeerAddress;
  request.rkey = Script::kPeerRkey;
  return request;
}

}  // namespace

void Script::PostSend(uint64_t wr_id, uint64_t offset, uint32_t length) {
  EXPECT_EQ(Post(Signaled(wr_id, SendOpcode::kSend), offset, length), Status::kOk);
}

void Script::PostWrite(uint64_t wr_id, uint64_t offset, uint32_t length) {
  EXPECT_EQ(Post(Signaled(wr_id, SendOpcode::kRdmaWrite), offset, length), Status::kOk);
}

void Script::PostRead(uint64_t wr_id, uint64_t offset, uint32_t length) {
  EXPECT_EQ(Post(Signaled(wr_id, SendOpcode::kRdmaRead), offset, length), Status::kOk);
}

void Script::PostFetchAdd(uint64_t wr_id, uint64_t offset, uint64_t add) {
  SendWorkRequest request = Signaled(wr_id, SendOpcode::kFetchAndAdd);
  request.compare_or_add = add;
  EXPECT_EQ(Post(request, offset, 8), Status::kOk);
}

Completion Script::ExpectCompletion(uint64_t wr_id, CompletionStatus status, Location location) {
  Drain();
  if (completions_.empty()) {
    FailAt(location, "request " + std::to_string(wr_id) + " has not completed");
    return {};
  }
  const Completion completion = completions_.front();
  completions_.pop_front();
  coverage().statuses.insert(completion.status);
  coverage().opcodes.insert(completion.opcode);
  coverage().vendor_errors.insert(completion.vendor_error);
  if (completion.wr_id != wr_id || completion.status != status) {
    FailAt(location, "expected completion of " + std::to_string(wr_id) + " with status " +
                         Number(status) + "\nbut got " + DescribeCompletion(completion));
  }
  return completion;
}

std::vector<Completion> Script::TakeCompletions() {
  Drain();
  std::vector<Completion> taken(completions_.begin(), completions_.end());
  completions_.clear();
  return taken;
}

void Script::ExpectNoCompletion(Location location) {
  for (const Completion& completion : TakeCompletions()) {
    FailAt(location, "unexpected " + DescribeCompletion(completion));
  }
}

void Script::ExpectState(QpState state, Location location) {
  if (qp_->state() == state) return;
  FailAt(location, "expected state " + Number(state) + " but it is " + Number(qp_->state()));
}

void Script::ExpectEvent(EventType type, Location location) {
  const auto event = endpoint_.TakeEvent();
  if (!event) return FailAt(location, "event " + Number(type) + " was not raised");
  coverage().events.insert(event->type);
  if (event->type != type) {
    FailAt(location, "expected event " + Number(type) + " but got " + Number(event->type));
  }
}

void Script::ExpectNoEvent(Location location) {
  while (const auto event = endpoint_.TakeEvent()) {
    FailAt(location, "unexpected event " + Number(event->type));
  }
}

std::vector<uint8_t> Script::Bytes(uint64_t offset, size_t length) const {
  return {memory_.data() + offset, memory_.data() + offset + length};
}

uint64_t Script::Word(uint64_t offset) const {
  uint64_t value;
  std::memcpy(&value, memory_.data() + offset, sizeof(value));
  return value;
}

void Script::SetWord(uint64_t offset, uint64_t value) {
  std::memcpy(memory_.data() + offset, &value, sizeof(value));
}

}  // namespace uroce::packet_scripts
