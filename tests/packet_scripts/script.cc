#include "tests/packet_scripts/script.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "tests/packet_scripts/coverage.h"
#include "transport/mad_frame.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/frame_parser.h"

namespace uroce::transport::packet_scripts {

namespace {

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

Service ServiceOf(QpType type) {
  switch (type) {
    case QpType::kUnreliableConnection:
      return Service::kUnreliableConnection;
    case QpType::kUnreliableDatagram:
      return Service::kUnreliableDatagram;
    case QpType::kXrcSend:
    case QpType::kXrcReceive:
      return Service::kExtendedReliableConnection;
    default:
      return Service::kReliableConnection;
  }
}

std::string Describe(const PacketSpec& spec) { return Describe(spec, spec.payload.size()); }

// Whether two packets are equal in the fields that the opcode has.
bool Matches(const PacketSpec& expected, const PacketSpec& actual) {
  const Opcode& opcode = expected.opcode;
  if (opcode != actual.opcode || expected.psn != actual.psn) return false;
  if (expected.payload != actual.payload) return false;
  if (!opcode.IsResponse() && expected.solicited != actual.solicited) return false;
  if (opcode.HasDeth() && expected.deth != actual.deth) return false;
  if (opcode.HasXrceth() && expected.xrceth != actual.xrceth) return false;
  if (opcode.HasFeth() && expected.feth != actual.feth) return false;
  if (opcode.HasReth() && expected.reth != actual.reth) return false;
  if (opcode.HasAtomicEth() && expected.atomic != actual.atomic) return false;
  if (opcode.HasAtomicAckEth() && expected.atomic_original != actual.atomic_original) return false;
  if (opcode.HasImmediate() && expected.immediate != actual.immediate) return false;
  if (opcode.HasIeth() && expected.invalidate_rkey != actual.invalidate_rkey) return false;
  if (!opcode.HasAeth()) return true;
  if (expected.expected_credits && *expected.expected_credits != actual.aeth.syndrome.value()) {
    return false;
  }
  const Syndrome wanted = expected.aeth.syndrome;
  const Syndrome got = actual.aeth.syndrome;
  // The credit count of an ACK is a hint, which most scripts ignore.
  const bool same_syndrome =
      wanted.kind() == got.kind() &&
      (wanted.kind() == Syndrome::Kind::kAck || wanted.value() == got.value());
  return same_syndrome && (!expected.expected_msn || *expected.expected_msn == actual.aeth.msn);
}

}  // namespace

Script::~Script() {
  holds_transmit_ = holds_completions_ = false;
  Drain();
  for (const PacketSpec& spec : sent_) ADD_FAILURE() << "nobody expected " << Describe(spec);
  for (const Completion& completion : completions_) {
    ADD_FAILURE() << "nobody expected " << DescribeCompletion(completion);
  }
  coverage().Add(counters());
  endpoint_.DestroyQueuePair(qp_);
  if (srq_ != nullptr) endpoint_.DestroySharedReceiveQueue(std::move(srq_));
  endpoint_.DestroyCompletionQueue(std::move(cq_));
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
  while (!holds_completions_ && cq_->Poll({&completion, 1}) == 1)
    completions_.push_back(completion);
}

bool Script::TakeFrame() {
  if (!endpoint_.HasTransmit(Route::kWire)) return false;
  last_frame_.resize(kMaxFrameBytes);
  last_frame_.resize(endpoint_.PollTransmit(now_, Route::kWire, last_frame_));
  if (last_frame_.empty()) return false;
  Packet packet;
  const DropReason reason = ParseFrame(last_frame_, packet);
  EXPECT_EQ(reason, DropReason::kNone) << Name(reason);
  if (packet.destination_qpn == kGeneralServicesQpn) {
    peer_query_ = ParsePeerQuery(packet.payload.data());
    return true;
  }
  if (!packet.flow.destination.IsMulticast()) {
    EXPECT_EQ(packet.destination_qpn, kPeerQpn);
  }
  PacketSpec spec;
  static_cast<TransportHeaders&>(spec) = packet;
  spec.payload.assign(packet.payload.begin(), packet.payload.end());
  sent_.push_back(std::move(spec));
  return true;
}

void Script::TransmitOne() { EXPECT_TRUE(TakeFrame()); }

void Script::ReleaseTransmit() {
  holds_transmit_ = false;
  Drain();
}

PacketSpec Script::Filled(PacketSpec spec, Qpn source, Qpn destination) const {
  if (!spec.fixed_service) spec.opcode.service = ServiceOf(options_.type);
  if (spec.destination_qpn == Qpn{}) spec.destination_qpn = destination;
  if (spec.opcode.HasDeth()) {
    if (spec.deth.source_qpn == Qpn{}) spec.deth.source_qpn = source;
    if (spec.deth.qkey == 0) spec.deth.qkey = kQkey;
  }
  if (spec.opcode.HasXrceth() && spec.xrceth.srqn == Srqn{}) {
    spec.xrceth.srqn = options_.type == QpType::kXrcReceive ? srq_->srqn() : kPeerSrqn;
  }
  return spec;
}

std::vector<uint8_t> Script::Frame(const PacketSpec& spec, const Gid& source,
                                   const Gid& destination) const {
  AddressVector address;
  address.destination_gid = destination;
  address.destination_mac = endpoint_.config().mac;
  const FrameBuilder builder(peer_address_.destination_mac, source, address, 0xc123);
  const PacketSpec packet = Filled(spec, kPeerQpn, qp_->qpn());
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

void Script::AnswerPeerQuery(PeerFeatures features, PeerQuery::Process process) {
  Advance({});
  ASSERT_TRUE(peer_query_.has_value());
  cm::MadAddress to;
  to.path.destination_gid = kOurGid;
  to.path.destination_mac = endpoint_.config().mac;
  std::vector<uint8_t> frame(kMaxFrameBytes);
  frame.resize(EmitMadFrame(peer_address_.destination_mac, kPeerGid, to,
                            EmitPeerQuery(peer_query_->Answer(features, process)), Psn(), frame));
  peer_query_.reset();
  EXPECT_EQ(InjectFrame(frame), DropReason::kNone);
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
  if (!Matches(Filled(expected, qp_->qpn(), kPeerQpn), actual)) {
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

void Script::ReleaseCompletions() {
  holds_completions_ = false;
  Drain();
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
  // A cancelled timer may leave its deadline behind, at which nothing happens.
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
  const ReceiveWorkRequest request{wr_id, {&sge, 1}};
  EXPECT_EQ(srq_ != nullptr ? srq_->Post(request) : qp_->PostReceive(request), Status::kOk);
}

Status Script::Post(SendWorkRequest request, uint64_t offset, uint32_t length) {
  const ScatterGatherEntry sge{Address(offset), length, key_};
  request.sges = {&sge, 1};
  if (options_.type == QpType::kUnreliableDatagram && request.address == nullptr) {
    request.address = &peer_address_;
    request.remote_qpn = kPeerQpn;
    request.remote_qkey = kQkey;
  }
  if (request.remote_srqn == Srqn{}) request.remote_srqn = kPeerSrqn;
  const Status status = qp_->PostSend(request);
  Drain();
  return status;
}

SendWorkRequest Script::Request(uint64_t wr_id, SendOpcode opcode) {
  SendWorkRequest request;
  request.wr_id = wr_id;
  request.opcode = opcode;
  request.signaled = true;
  request.remote_address = kPeerAddress;
  request.rkey = kPeerRkey;
  return request;
}

void Script::BeginMessageFor(uint64_t wr_id, uint64_t next_wr_id) {
  PostReceive(wr_id, 4'096, 1'024);
  PostReceive(next_wr_id, 8'192, 1'024);
  Inject(Send(Position::kFirst, peers_first_psn()).With(Pattern(256)));
}

void Script::PostSend(uint64_t wr_id, uint64_t offset, uint32_t length) {
  EXPECT_EQ(Post(Request(wr_id, SendOpcode::kSend), offset, length), Status::kOk);
}

void Script::PostWrite(uint64_t wr_id, uint64_t offset, uint32_t length) {
  EXPECT_EQ(Post(Request(wr_id, SendOpcode::kRdmaWrite), offset, length), Status::kOk);
}

void Script::PostRead(uint64_t wr_id, uint64_t offset, uint32_t length) {
  EXPECT_EQ(Post(Request(wr_id, SendOpcode::kRdmaRead), offset, length), Status::kOk);
}

void Script::PostFetchAdd(uint64_t wr_id, uint64_t offset, uint64_t add) {
  SendWorkRequest request = Request(wr_id, SendOpcode::kFetchAndAdd);
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
  } else if (event->context != ContextOf(type)) {
    FailAt(location, "event " + Number(type) + " is about another object");
  }
}

const void* Script::ContextOf(EventType type) const {
  switch (type) {
    case EventType::kCqError:
    case EventType::kCompletion:
      return &cq_;
    case EventType::kSrqLimitReached:
      return &srq_;
    case EventType::kDeviceFatal:
    case EventType::kPortActive:
    case EventType::kPortError:
    case EventType::kGidChange:
      return &endpoint_;
    default:
      return &qp_;
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

}  // namespace uroce::transport::packet_scripts
