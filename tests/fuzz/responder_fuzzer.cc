// Any request may arrive, in any state, between any other operations on a queue pair. The input is
// a sequence of operations on queue pairs of all services, with and without a shared receive queue,
// and on XRC targets: request packets with fields of every kind, garbled packets, receives, changes
// of state, access, regions and windows, and turns to transmit.
//
// ResponderModel predicts the effect of each packet. Compared after every step: the endpoint's
// result for the packet, every byte of memory, every completion, the expected PSN, and every packet
// sent in response.
#include <algorithm>
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
#include "tests/fuzz/require.h"
#include "tests/fuzz/responder_model.h"
#include "tests/fuzz/seal_frame.h"
#include "transport/endpoint.h"
#include "transport/wire/frame_parser.h"

namespace uroce::transport {
namespace {

using A = AccessFlags;

constexpr uint32_t kAllAccess =
    A::kLocalWrite | A::kRemoteWrite | A::kRemoteRead | A::kRemoteAtomic | A::kFlushGlobal;
constexpr size_t kQps = 3;
constexpr size_t kXrcSrqs = 2;
constexpr XrcDomainId kXrcDomain{1};
constexpr uint32_t kReceiveDepth = 6;
constexpr uint32_t kReceiveSges = 3;
constexpr int kFramesATurn = 8;

// An opcode of the queue pair's service, or of another one.
Opcode AnyOpcode(uint8_t choice, QpType type) {
  const auto operation =  // FLUSH and ATOMIC WRITE have the last codes
      static_cast<uint8_t>(choice >= 0xf8 ? 0x1c | choice % 2 : choice % 0x18);
  const uint8_t code = choice >= 0xf0 && choice < 0xf8         ? choice
                       : type == QpType::kUnreliableConnection ? 0x20 | operation % 12
                       : type == QpType::kUnreliableDatagram   ? 0x64 | operation % 2
                       : type == QpType::kXrcReceive           ? 0xa0 | operation
                                                               : operation;
  return ParseOpcode(code).value_or(Opcode{});
}

// A queue pair with its connection and its model.
struct Subject {
  QueuePair* qp = nullptr;
  FuzzConnection connection;
  QpState connected_to = QpState::kReadyToReceive;
  PostedReceives own_receives;
  PostedReceives* receives = &own_receives;  // or those of the shared queue
  std::optional<ResponderModel> model;
};

bool IsTarget(const Subject& subject) {
  return subject.qp->init_attributes().type == QpType::kXrcReceive;
}

class ResponderFuzz {
 public:
  explicit ResponderFuzz(Record setup);
  void Step(Record record);
  void Finish();

 private:
  void CreateXrcQueues();
  void PostReceive(Record& record);
  void PostBadSend(Record& record);
  void Modify(Record& record);
  void ChangeMemory(Record& record);
  void Request(Record& record);
  void Transmit(int frames);

  void ConnectSubject(Subject& subject);
  Subject& AnySubject(Record& record) { return subjects_[record.Below(kQps)]; }
  Subject* Find(Qpn qpn);
  TransportHeaders Headers(Record& record, const Subject& subject);
  size_t PayloadBytes(Record& record, const Subject& subject, const Opcode& opcode);
  DropReason Expect(std::span<const uint8_t> frame, Packet& packet);
  void CheckCompletions();

  Endpoint endpoint_{FuzzEndpointConfig()};
  FuzzMemory memory_{endpoint_.memory()};
  std::unique_ptr<CompletionQueue> cq_ = endpoint_.CreateCompletionQueue(1'024, this);
  std::unique_ptr<SharedReceiveQueue> srq_ =
      endpoint_.CreateSharedReceiveQueue({.pd = kOtherPd,
                                          .max_work_requests = kReceiveDepth,
                                          .max_sges = kReceiveSges,
                                          .context = this});
  PostedReceives shared_receives_{.queue = {}, .is_shared = true, .pd = kOtherPd};
  std::array<std::unique_ptr<SharedReceiveQueue>, kXrcSrqs> xrc_srqs_;
  std::array<PostedReceives, kXrcSrqs> xrc_receives_;
  FuzzXrcQueues xrc_queues_;
  std::array<Subject, kQps> subjects_;
  uint64_t next_wr_id_ = 1;
  Time now_{1'000};
};

// Creates queues in different protection domains.
void ResponderFuzz::CreateXrcQueues() {
  for (size_t i = 0; i < kXrcSrqs; ++i) {
    const PdId pd = i == 0 ? kOurPd : kOtherPd;
    xrc_srqs_[i] = endpoint_.CreateSharedReceiveQueue({.pd = pd,
                                                       .max_work_requests = kReceiveDepth,
                                                       .max_sges = kReceiveSges,
                                                       .xrc_domain = kXrcDomain,
                                                       .completion_queue = cq_.get(),
                                                       .context = this});
    UROCE_REQUIRE(endpoint_.PublishXrcQueue(*xrc_srqs_[i]) == Status::kOk);
    xrc_receives_[i] = {.queue = {}, .is_shared = true, .pd = pd};
    xrc_queues_[xrc_srqs_[i]->srqn()] = &xrc_receives_[i];
  }
}

ResponderFuzz::ResponderFuzz(Record setup) {
  CreateXrcQueues();
  constexpr uint32_t kPsns[] = {0, 0xff'fffd, 0x7f'fffe, 0x12'3456};
  constexpr Mtu kMtus[] = {Mtu::k256, Mtu::k256, Mtu::k512, Mtu::k1024};
  constexpr uint32_t kAccess[] = {kAllAccess, kAllAccess, A::kRemoteRead, A::kRemoteWrite};
  constexpr QpState kStates[] = {QpState::kReadyToReceive, QpState::kReadyToSend};
  constexpr QpType kTypes[] = {QpType::kReliableConnection, QpType::kReliableConnection,
                               QpType::kUnreliableConnection, QpType::kUnreliableDatagram};
  constexpr uint8_t kXrcKind = 0x7c;
  for (size_t i = 0; i < kQps; ++i) {
    Subject& subject = subjects_[i];
    const uint8_t kind = setup.Byte();
    const bool is_target = (kind & kXrcKind) == kXrcKind;
    const bool shares = kind >= 128 && !is_target;
    if (shares) subject.receives = &shared_receives_;
    if (is_target) subject.receives = &xrc_receives_[0];
    QpInitAttributes target;
    target.type = QpType::kXrcReceive;
    target.xrc_domain = kXrcDomain;
    target.context = this;
    const QpInitAttributes init = {.pd = kOurPd,
                                   .type = kTypes[kind % 4],
                                   .send_cq = cq_.get(),
                                   .receive_cq = cq_.get(),
                                   .srq = shares ? srq_.get() : nullptr,
                                   .capabilities = {.max_send_wr = 1,
                                                    .max_receive_wr = kReceiveDepth,
                                                    .max_send_sge = 1,
                                                    .max_receive_sge = kReceiveSges},
                                   .context = this};
    const auto& attributes = is_target ? target : init;
    UROCE_REQUIRE(endpoint_.CreateQueuePair(attributes, &subject.qp) == Status::kOk);
    subject.connection = {.mtu = setup.Pick(kMtus),
                          .peer_qpn = Qpn{static_cast<uint32_t>(0x70 + i)},
                          .first_psn = Psn(setup.Pick(kPsns)),
                          .access = setup.Pick(kAccess),
                          .max_read_atomic = static_cast<uint8_t>(3 - setup.Below(4))};
    subject.connected_to = setup.Pick(kStates);
    ConnectSubject(subject);
  }
}

void ResponderFuzz::ConnectSubject(Subject& subject) {
  Connect(*subject.qp, subject.connection, subject.connected_to);
  subject.own_receives.queue.clear();
  subject.model.emplace(*subject.qp, memory_, *subject.receives, xrc_queues_,
                        subject.connection.first_psn);
}

Subject* ResponderFuzz::Find(Qpn qpn) {
  for (Subject& subject : subjects_) {
    if (subject.qp->qpn() == qpn) return &subject;
  }
  return nullptr;
}

void ResponderFuzz::Step(Record record) {
  switch (record.Below(16)) {
    case 0:
    case 1:
    case 2:
      PostReceive(record);
      break;
    case 3:
      Transmit(kFramesATurn);
      break;
    case 4:
      Modify(record);
      break;
    case 5:
      ChangeMemory(record);
      break;
    case 6:
      PostBadSend(record);
      break;
    default:
      Request(record);
  }
  CheckCompletions();
  memory_.RequireAsExpected();
}

void ResponderFuzz::PostReceive(Record& record) {
  Subject& subject = AnySubject(record);
  std::vector<ScatterGatherEntry> sges(record.Below(kReceiveSges + 1));
  const bool to_shared = record.Flag();
  const bool to_xrc = IsTarget(subject);
  const size_t other = to_shared ? 1 : 0;
  for (ScatterGatherEntry& sge : sges) {
    const size_t right = to_shared ? FuzzMemory::kOthers : 0;
    const FuzzMemory::Grant& grant = memory_.grant(record.Below(4) != 3 ? right : record.Byte());
    sge = {grant.iova + record.Byte() * 5, uint32_t{record.Byte()} * 4, LKey{grant.key}};
  }
  PostedReceives& receives = to_xrc      ? xrc_receives_[other]
                             : to_shared ? shared_receives_
                                         : subject.own_receives;
  const ReceiveWorkRequest request = {next_wr_id_, sges};
  const Status status = to_xrc      ? xrc_srqs_[other]->Post(request)
                        : to_shared ? srq_->Post(request)
                                    : subject.qp->PostReceive(request);
  UROCE_REQUIRE(status != Status::kOk || to_xrc || to_shared || !subject.receives->is_shared);
  if (status != Status::kOk) return;
  receives.queue.push_back({next_wr_id_++, sges});
  UROCE_REQUIRE(receives.queue.size() <= kReceiveDepth);
}

// Takes an unreliable queue pair to SQE.
void ResponderFuzz::PostBadSend(Record& record) {
  Subject& subject = AnySubject(record);
  if (subject.qp->init_attributes().type == QpType::kReliableConnection) return;
  if (IsTarget(subject)) return;
  const AddressVector address = {
      .destination_gid = kPeerGid, .destination_mac = kPeerMac, .source_gid_index = 1};
  const ScatterGatherEntry sge = {0, 1, LKey{}};
  SendWorkRequest request;
  request.sges = {&sge, 1};
  request.address = &address;
  const Status status = subject.qp->PostSend(request);
  UROCE_REQUIRE(status != Status::kInvalidArgument || subject.qp->state() < QpState::kReadyToSend);
  Transmit(1);
}

void ResponderFuzz::Modify(Record& record) {
  using M = QpAttributeMask;
  constexpr QpState kNext[] = {QpState::kReset, QpState::kReadyToSend, QpState::kSendQueueDrain,
                               QpState::kError};
  Subject& subject = AnySubject(record);
  QpAttributes attributes;
  attributes.state = record.Pick(kNext);
  const uint32_t access = record.Byte();
  attributes.access = AccessFlags((access & 0xf) | (access & 0x10) << 4);  // kFlushGlobal
  const bool changes_access = record.Flag();
  const uint32_t mask = changes_access ? M::kAccessFlags : M::kState;
  if (subject.qp->Modify(attributes, mask) != Status::kOk || changes_access) return;
  if (attributes.state == QpState::kError) subject.model->OnFlushed();
  if (attributes.state == QpState::kReset) ConnectSubject(subject);
}

void ResponderFuzz::ChangeMemory(Record& record) {
  const size_t region = record.Below(FuzzMemory::kRegions);
  if (record.Flag()) return memory_.ToggleRegion(region);
  const size_t window = record.Below(FuzzMemory::kWindows);
  const Qpn qpn = AnySubject(record).qp->qpn();
  constexpr uint32_t kWindowAccess[] = {
      A::kRemoteWrite | A::kRemoteRead | A::kRemoteAtomic | A::kFlushGlobal,
      A::kRemoteRead | A::kZeroBased, A::kRemoteRead, A::kRemoteWrite};
  const uint32_t access = record.Pick(kWindowAccess);
  const uint64_t offset = record.Byte() * 8;
  memory_.BindWindow(window, qpn, region, offset, record.Byte() * 4, access);
}

// A request with mostly correct fields.
TransportHeaders ResponderFuzz::Headers(Record& record, const Subject& subject) {
  TransportHeaders headers;
  headers.opcode = AnyOpcode(record.Byte(), subject.qp->init_attributes().type);
  headers.destination_qpn = subject.qp->qpn();
  headers.psn = subject.model->expected_psn() + static_cast<uint32_t>(record.Near());

  const uint8_t flags = record.Byte();
  headers.ack_request = (flags & 1) != 0;
  headers.solicited = (flags & 2) != 0;
  headers.immediate = flags;
  if (flags == 0xff) headers.pkey = 0x1234;

  const FuzzMemory::Grant& grant = memory_.grant(record.Below(4) != 3 ? 0 : record.Byte());
  const RKey rkey{grant.key + (flags == 0xfe ? 1 : 0)};
  const int32_t slip = record.Near();
  const uint64_t address = grant.iova + static_cast<uint64_t>(slip) + record.Byte() * 4;
  const uint32_t bits = record.DoubleWord();
  // A region longer than any message allows a READ of every length.
  const uint32_t length = grant.length > bits ? bits : (bits >> 16) % 1'500;
  headers.reth = {address, rkey, length};
  headers.feth = {static_cast<uint8_t>(flags >= 0xf0 ? flags & 3 : Placement::kGlobal),
                  static_cast<Selectivity>(flags >> 2 & (flags >= 0xf0 ? 3 : 1))};
  headers.atomic = {address & (flags == 0xfd ? ~0ull : ~7ull), rkey, flags, record.Byte()};
  headers.invalidate_rkey = rkey;
  constexpr uint8_t kUnknownQueue = 0x1c;
  const bool is_unknown = (flags & kUnknownQueue) == kUnknownQueue;
  headers.xrceth.srqn = is_unknown ? Srqn{flags} : xrc_srqs_[(flags & 4) >> 2]->srqn();
  headers.deth = {flags == 0xfa ? ~kFuzzQkey : kFuzzQkey, Qpn{flags}};
  return headers;
}

size_t ResponderFuzz::PayloadBytes(Record& record, const Subject& subject, const Opcode& opcode) {
  const uint32_t mtu = Bytes(subject.connection.mtu);
  if (!opcode.HasPayload()) return 0;
  const uint8_t choice = record.Byte();
  if (opcode.operation == Operation::kAtomicWrite && choice >= 16) return 8;
  if (choice < 16) return choice;
  if (choice < 32) return mtu + choice - 20;
  if (!opcode.EndsMessage()) return mtu;
  const uint64_t missing = subject.model->bytes_missing();
  return opcode.position == Position::kLast && missing <= mtu ? missing : choice;
}

void ResponderFuzz::Request(Record& record) {
  Subject& subject = AnySubject(record);
  TransportHeaders headers = Headers(record, subject);
  std::vector<uint8_t> payload(PayloadBytes(record, subject, headers.opcode));
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<uint8_t>(i + next_wr_id_);
  const uint8_t oddity = record.Byte();
  if (headers.opcode.position == Position::kOnly && (oddity & 1) == 0 &&
      headers.opcode.operation == Operation::kWrite) {
    headers.reth.dma_length = static_cast<uint32_t>(payload.size());
  }
  if (headers.opcode.operation == Operation::kAtomicWrite && (oddity & 0xf0) != 0) {
    headers.reth.dma_length = 8;
    headers.reth.virtual_address &= ~7ull;
  }
  auto frame = FrameFrom(oddity == 0xff ? kUnknownPeerGid : kPeerGid, headers, payload);
  if (oddity >= 0xf0 && oddity < 0xfe) {
    const uint8_t change = record.Byte();
    frame[record.Word() % frame.size()] ^= change;
    if ((oddity & 2) != 0) frame.resize(frame.size() - record.Byte() % frame.size());
    if ((oddity & 4) != 0) SealFrame(frame);
  }

  Packet packet;
  const DropReason expected = Expect(frame, packet);
  const DropReason result = endpoint_.OnFrame(now_, frame);
  Subject* const receiver = Find(packet.destination_qpn);
  const bool reaches_qp =
      expected == DropReason::kNone || (receiver != nullptr && expected > DropReason::kUnknownQp);
  if (reaches_qp && !packet.opcode.IsResponse()) {
    receiver->model->OnRequest(packet, expected, result);
  } else {
    // A stale ACK may still bring credits.
    const bool brings_credits =
        expected == DropReason::kStaleResponse && result == DropReason::kNone;
    UROCE_REQUIRE(result == expected || brings_credits);
  }
}

DropReason ResponderFuzz::Expect(std::span<const uint8_t> frame, Packet& packet) {
  if (const DropReason reason = ParseFrame(frame, packet); reason != DropReason::kNone) {
    return reason;
  }
  if (packet.flow.destination.IsMulticast()) {
    const bool to_all = packet.destination_qpn == kMulticastQpn;
    return (packet.pkey & 0x7fff) != 0x7fff ? DropReason::kBadPkey
           : to_all                         ? DropReason::kNotAMember
                                            : DropReason::kUnknownQp;
  }
  if (endpoint_.config().FindGid(packet.flow.destination) < 0) {
    return DropReason::kForeignDestination;
  }
  if ((packet.pkey & 0x7fff) != 0x7fff) return DropReason::kBadPkey;
  Subject* const receiver = Find(packet.destination_qpn);
  if (receiver == nullptr) return DropReason::kUnknownQp;
  if (!packet.opcode.IsResponse()) return receiver->model->Expect(packet);

  const bool is_reliable = receiver->qp->init_attributes().type == QpType::kReliableConnection;
  if (!is_reliable) return DropReason::kWrongService;
  const QpState state = receiver->qp->state();
  if (state != QpState::kReadyToSend && state != QpState::kSendQueueDrain) {
    return DropReason::kQpNotReady;
  }
  return packet.flow.source == kPeerGid ? DropReason::kStaleResponse : DropReason::kForeignSource;
}

void ResponderFuzz::Transmit(int frames) {
  std::array<uint8_t, kMaxFrameBytes> frame;
  for (; frames > 0; --frames) {
    const size_t bytes = endpoint_.PollTransmit(now_, Route::kWire, frame);
    if (bytes == 0) {
      UROCE_REQUIRE(!endpoint_.HasTransmit(Route::kWire));
      break;
    }
    Packet packet;
    UROCE_REQUIRE(ParseFrame(std::span(frame).first(bytes), packet) == DropReason::kNone);
    UROCE_REQUIRE(packet.flow.source == kOurGid && packet.flow.destination == kPeerGid);
    const auto sender = std::ranges::find_if(subjects_, [&packet](const Subject& subject) {
      return subject.connection.peer_qpn == packet.destination_qpn;
    });
    UROCE_REQUIRE(sender != subjects_.end());
    sender->model->OnReply(packet);
  }
  // A responder has no timers.
  UROCE_REQUIRE(endpoint_.NextDeadline() == kNever);
}

void ResponderFuzz::CheckCompletions() {
  std::array<Completion, 16> completions;
  while (const uint32_t count = cq_->Poll(completions)) {
    for (uint32_t i = 0; i < count; ++i) {
      Subject* const subject = Find(completions[i].qpn);
      UROCE_REQUIRE(subject != nullptr);
      if (completions[i].opcode < CompletionOpcode::kReceive) {  // of a bad send
        UROCE_REQUIRE(completions[i].status != CompletionStatus::kSuccess);
        continue;
      }
      subject->model->OnCompletion(completions[i]);
    }
  }
  for (const Subject& subject : subjects_) subject.model->RequireAllReported();
  while (const auto event = endpoint_.TakeEvent()) UROCE_REQUIRE(event->context == this);
}

void ResponderFuzz::Finish() {
  Transmit(4 * kFramesATurn);
  for (Subject& subject : subjects_) {
    QpAttributes attributes;
    attributes.state = QpState::kError;
    UROCE_REQUIRE(subject.qp->Modify(attributes, QpAttributeMask::kState) == Status::kOk);
  }
  CheckCompletions();
  memory_.RequireAsExpected();
  for (Subject& subject : subjects_) endpoint_.DestroyQueuePair(subject.qp);
  endpoint_.DestroySharedReceiveQueue(std::move(srq_));
  for (auto& srq : xrc_srqs_) endpoint_.DestroySharedReceiveQueue(std::move(srq));
  endpoint_.DestroyCompletionQueue(std::move(cq_));
}

}  // namespace
}  // namespace uroce::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uroce::transport::SetUpAndRunSteps<uroce::transport::ResponderFuzz>({data, size});
  return 0;
}
