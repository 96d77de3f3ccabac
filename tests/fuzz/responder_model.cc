#include "tests/fuzz/responder_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "tests/fuzz/fuzz_peer.h"
#include "tests/fuzz/require.h"
#include "transport/limits.h"
#include "transport/wire/bth.h"
#include "transport/wire/byte_order.h"
#include "transport/wire/extension_headers.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/udp.h"

namespace uroce::transport {
namespace {

using A = AccessFlags;

constexpr uint32_t kMsnMask = 0xff'ffff;

// IBA 9.7.7.2: the number of receive requests for each credit code.
constexpr uint32_t kCredits[31] = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

}  // namespace

uint32_t ResponderModel::PacketsOf(uint32_t bytes) const {
  return bytes == 0 ? 1 : (bytes - 1) / mtu_bytes() + 1;
}

uint8_t* ResponderModel::Remote(PdId pd, RKey key, uint64_t address, uint64_t length,
                                uint32_t wanted) const {
  return memory_.Remote(pd, qp_.qpn(), key, address, length, wanted);
}

void ResponderModel::OnRequest(const Packet& packet, DropReason expected, DropReason result) {
  const bool held_back =
      expected == DropReason::kDuplicateRequest && result == DropReason::kDuplicateNotHeld;
  UROCE_REQUIRE(result == expected || held_back);
  switch (result) {
    case DropReason::kWrongService:
    case DropReason::kQpNotReady:
    case DropReason::kForeignSource:
      return;
    case DropReason::kNone:
      Execute(packet);
      break;
    case DropReason::kDuplicateRequest:
      OnDuplicate(packet);
      break;
    case DropReason::kRefused:
    case DropReason::kUnknownSrq:
      refused_ = is_reliable();
      break;
    default:
      break;
  }
  ++requests_;
  UROCE_REQUIRE(!refused_ || qp_.state() == QpState::kError);
  if (!is_reliable()) expected_psn_ = packet.psn + 1;
  if (!refused_ && !is_datagram()) UROCE_REQUIRE(qp_.Query().rq_psn == expected_psn_);
}

void ResponderModel::Execute(const Packet& packet) {
  uint32_t psns = 1;
  if (packet.opcode.StartsMessage()) {
    message_ = packet.opcode.operation;
    received_bytes_ = message_bytes_ = 0;
  }
  switch (packet.opcode.operation) {
    case Operation::kSend:
      // A SEND that cannot be carried out locally ends the connection.
      refused_ = !ExecuteSend(packet);
      UROCE_REQUIRE(refused_ == (qp_.state() == QpState::kError));
      break;
    case Operation::kWrite:
      ExecuteWrite(packet);
      break;
    case Operation::kReadRequest:
      psns = PacketsOf(packet.reth.dma_length);
      executed_.push_back({.is_original = true,
                           .pd = remote_pd_,
                           .first_psn = packet.psn,
                           .packets = psns,
                           .msn = (msn_ + 1) & kMsnMask,
                           .read = packet.reth});
      break;
    case Operation::kFlush:
    case Operation::kAtomicWrite:
      ExecutePlacement(packet);
      break;
    default:
      ExecuteAtomic(packet);
  }
  if (refused_) return;
  received_bytes_ += packet.payload.size();
  expected_psn_ = expected_psn_ + psns;
  gap_reported_ = false;
  if (packet.opcode.EndsMessage()) Finish(packet);
  if (packet.opcode.operation == Operation::kSend || packet.opcode.operation == Operation::kWrite) {
    ack_psn_ = packet.psn;
    ack_msn_ = msn_;
  }
}

void ResponderModel::Take() {
  taken_ = receives_->queue.front();
  receives_->queue.pop_front();
}

bool ResponderModel::ExecuteSend(const Packet& packet) {
  if (packet.opcode.StartsMessage()) {
    Take();
    message_bytes_ = RoomIn(taken_->sges);
  }
  if (is_datagram()) {  // the IP header, at the end of the room for a GRH
    received_bytes_ = kGrhBytes;
    if (!PlaceIpHeader(packet)) return false;
  }
  if (!Place(received_bytes_, packet.payload)) return false;
  if (!packet.opcode.HasIeth()) return true;
  return remote_pd_ == kOurPd && memory_.Invalidate(packet.invalidate_rkey, qp_.qpn());
}

// The IP header in the frame, with DF: a socket does not show the flags that a packet came with.
bool ResponderModel::PlaceIpHeader(const Packet& packet) {
  const size_t ip_bytes = packet.flow.is_ipv6() ? Ipv6Header::kBytes : Ipv4Header::kBytes;
  const uint8_t* const udp =
      packet.payload.data() - ExtensionBytes(packet.opcode) - Bth::kBytes - UdpHeader::kBytes;
  std::vector<uint8_t> header(udp - ip_bytes, udp);
  if (!packet.flow.is_ipv6()) {
    Store16(0x4000, &header[6]);
    CorrectIpv4Checksum(header.data());
  }
  return Place(kGrhBytes - ip_bytes, header);
}

// Places bytes of a SEND: all of them, or none if an entry that they reach is wrong.
bool ResponderModel::Place(uint64_t offset, std::span<const uint8_t> bytes) {
  std::vector<std::pair<uint8_t*, size_t>> pieces;
  uint64_t skip = offset;
  uint64_t left = bytes.size();
  for (const ScatterGatherEntry& sge : taken_->sges) {
    const uint64_t skipped = std::min<uint64_t>(skip, sge.length);
    const uint64_t here = std::min(left, sge.length - skipped);
    skip -= skipped;
    left -= here;
    if (here == 0) continue;
    uint8_t* at =
        memory_.Local(receives_->pd, sge.lkey, sge.address + skipped, here, A::kLocalWrite);
    if (at == nullptr) return false;
    pieces.push_back({at, here});
  }
  for (const auto& [at, count] : pieces) {
    memory_.Expect(at, bytes.first(count));
    bytes = bytes.subspan(count);
  }
  return true;
}

void ResponderModel::ExecuteWrite(const Packet& packet) {
  if (packet.opcode.StartsMessage()) {
    write_ = packet.reth;
    message_bytes_ = write_.dma_length;
  }
  if (packet.opcode.HasImmediate()) Take();
  if (packet.payload.empty()) return;
  memory_.Expect(Remote(remote_pd_, write_.rkey, write_.virtual_address + received_bytes_,
                        packet.payload.size(), A::kRemoteWrite),
                 packet.payload);
}

// A FLUSH or an ATOMIC WRITE.
void ResponderModel::ExecutePlacement(const Packet& packet) {
  if (packet.opcode.HasPayload()) {
    const Reth& reth = packet.reth;
    memory_.Expect(Remote(remote_pd_, reth.rkey, reth.virtual_address, 8, A::kRemoteWrite),
                   packet.payload);
  }
  executed_.push_back({.is_original = true, .first_psn = packet.psn, .msn = (msn_ + 1) & kMsnMask});
}

void ResponderModel::ExecuteAtomic(const Packet& packet) {
  const AtomicEth& request = packet.atomic;
  uint8_t* target = Remote(remote_pd_, request.rkey, request.virtual_address, 8, A::kRemoteAtomic);
  const uint64_t original = memory_.ExpectedWord(target);
  const bool adds = packet.opcode.operation == Operation::kFetchAndAdd;
  const uint64_t next = adds                          ? original + request.swap_or_add
                        : original == request.compare ? request.swap_or_add
                                                      : original;
  memory_.Expect(target, std::bit_cast<std::array<uint8_t, 8>>(next));
  executed_.push_back({.is_atomic = true,
                       .is_original = true,
                       .first_psn = packet.psn,
                       .msn = (msn_ + 1) & kMsnMask,
                       .atomic_result = original});
}

void ResponderModel::Finish(const Packet& packet) {
  msn_ = (msn_ + 1) & kMsnMask;
  message_.reset();
  if (!taken_) return;
  Completion& due = due_.emplace();
  due.wr_id = taken_->wr_id;
  due.opcode = packet.opcode.operation == Operation::kSend
                   ? CompletionOpcode::kReceive
                   : CompletionOpcode::kReceiveRdmaWithImmediate;
  due.byte_length = static_cast<uint32_t>(received_bytes_);
  due.qpn = qp_.qpn();
  due.source_qpn = is_datagram() ? packet.deth.source_qpn : qp_.Query().destination_qpn;
  if (is_datagram()) due.flags = Completion::kHasGrh;
  if (packet.opcode.HasImmediate()) {
    due.flags |= Completion::kHasImmediate;
    due.immediate_or_rkey = packet.immediate;
  }
  if (packet.opcode.HasIeth()) {
    due.flags |= Completion::kHasInvalidate;
    due.immediate_or_rkey = packet.invalidate_rkey.value;
  }
  taken_.reset();
}

// Only a request that was executed may be answered again.
void ResponderModel::OnDuplicate(const Packet& packet) {
  const Operation operation = packet.opcode.operation;
  if (operation == Operation::kReadRequest) {
    const uint32_t packets = PacketsOf(packet.reth.dma_length);
    UROCE_REQUIRE(packets <= ((expected_psn_.value() - packet.psn.value()) & Psn::kMask));
    UROCE_REQUIRE(IsReadPermitted(packet.reth));
    executed_.push_back({.pd = remote_pd_,
                         .first_psn = packet.psn,
                         .packets = packets,
                         .msn = msn_,
                         .read = packet.reth});
  } else if (operation == Operation::kFlush || operation == Operation::kAtomicWrite) {
    executed_.push_back({.first_psn = packet.psn, .msn = msn_});
  } else if (packet.opcode.HasAtomicEth()) {
    // The newest with this PSN: there may be older ones from 2^24 packets ago.
    const auto original = std::find_if(
        executed_.rbegin(), executed_.rend(),
        [&packet](const Executed& e) { return e.is_atomic && e.first_psn == packet.psn; });
    UROCE_REQUIRE(original != executed_.rend());
    const uint64_t result = original->atomic_result;
    executed_.push_back(
        {.is_atomic = true, .first_psn = packet.psn, .msn = msn_, .atomic_result = result});
  }
}

void ResponderModel::OnCompletion(const Completion& completion) {
  UROCE_REQUIRE(completion.qpn == qp_.qpn());
  if (completion.status == CompletionStatus::kSuccess) {
    UROCE_REQUIRE(due_);
    UROCE_REQUIRE(completion.wr_id == due_->wr_id && completion.opcode == due_->opcode);
    UROCE_REQUIRE(completion.byte_length == due_->byte_length && completion.flags == due_->flags);
    UROCE_REQUIRE(completion.immediate_or_rkey == due_->immediate_or_rkey);
    UROCE_REQUIRE(completion.source_qpn == due_->source_qpn);
    due_.reset();
    return;
  }
  if (!torn_.empty()) {
    UROCE_REQUIRE(completion.wr_id == torn_.front());
    torn_.pop_front();
    return;
  }
  UROCE_REQUIRE(qp_.state() == QpState::kError);
  if (taken_) {
    UROCE_REQUIRE(completion.wr_id == taken_->wr_id);
    taken_.reset();
    return;
  }
  UROCE_REQUIRE(!receives_->queue.empty() && completion.wr_id == receives_->queue.front().wr_id);
  receives_->queue.pop_front();
}

void ResponderModel::RequireAllReported() const {
  UROCE_REQUIRE(!due_ && torn_.empty());
  if (qp_.state() != QpState::kError) return;
  UROCE_REQUIRE(!taken_ && (receives_->is_shared || receives_->queue.empty()));
}

void ResponderModel::OnReply(const Packet& packet) {
  UROCE_REQUIRE(is_reliable() && packet.opcode.IsResponse() && may_answer_);
  if (packet.opcode.operation == Operation::kAcknowledge) return OnAcknowledge(packet);
  const auto found = std::find_if(
      executed_.rbegin(), executed_.rend(),
      [this, &packet](const Executed& executed) { return IsAnswerTo(executed, packet); });
  UROCE_REQUIRE(found != executed_.rend());
  // A request that is repeated while it waits gets one response for both.
  const Psn last_psn = found->first_psn + (found->packets - 1);
  if (packet.psn != last_psn) return;
  for (Executed& executed : executed_) {
    if (executed.is_atomic == found->is_atomic &&
        executed.first_psn + (executed.packets - 1) == last_psn) {
      executed.answered = true;
    }
  }
}

bool ResponderModel::IsAnswerTo(const Executed& executed, const Packet& packet) const {
  const bool is_atomic = packet.opcode.operation == Operation::kAtomicAcknowledge;
  if (executed.is_atomic != is_atomic || !executed.Contains(packet.psn)) return false;
  if (packet.opcode.HasAeth() && packet.aeth.msn != executed.msn) return false;
  if (is_atomic) return packet.atomic_original == executed.atomic_result;

  const uint64_t offset =
      uint64_t{(packet.psn.value() - executed.first_psn.value()) & Psn::kMask} * mtu_bytes();
  const uint64_t length = std::min<uint64_t>(executed.read.dma_length - offset, mtu_bytes());
  if (packet.payload.size() != length) return false;
  const bool first = offset == 0;
  const bool last = offset + length == executed.read.dma_length;
  if (packet.opcode.StartsMessage() != first || packet.opcode.EndsMessage() != last) return false;
  if (length == 0) return true;
  const uint8_t* bytes = Remote(executed.pd, executed.read.rkey,
                                executed.read.virtual_address + offset, length, A::kRemoteRead);
  return bytes != nullptr && std::memcmp(bytes, packet.payload.data(), length) == 0;
}

void ResponderModel::OnAcknowledge(const Packet& packet) {
  const Syndrome syndrome = packet.aeth.syndrome;
  UROCE_REQUIRE(++acknowledgements_ <= requests_);
  const bool is_ack = syndrome.kind() == Syndrome::Kind::kAck;
  UROCE_REQUIRE(packet.aeth.msn == (is_ack ? ack_msn_ : msn_));
  switch (syndrome.kind()) {
    case Syndrome::Kind::kAck:
      UROCE_REQUIRE(packet.psn == ack_psn_);
      if (syndrome.value() == Syndrome::kNoCreditInformation) return;
      UROCE_REQUIRE(!receives_->is_shared);
      UROCE_REQUIRE(kCredits[syndrome.value()] <= receives_->queue.size() + (taken_ ? 1 : 0));
      return;
    case Syndrome::Kind::kRnrNak:
      UROCE_REQUIRE(packet.psn == expected_psn_ && syndrome.value() == kFuzzRnrTimer);
      return;
    default:
      break;
  }
  UROCE_REQUIRE(syndrome.kind() == Syndrome::Kind::kNak && packet.psn == qp_.Query().rq_psn);
  if (syndrome.nak_code() == NakCode::kPsnSequenceError) {
    UROCE_REQUIRE(!gap_reported_ && !refused_);
    gap_reported_ = true;
    return;
  }
  // This NAK is the last packet.
  UROCE_REQUIRE(qp_.state() == QpState::kError);
  may_answer_ = false;
}

}  // namespace uroce::transport
