#include "tests/fuzz/requester_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "tests/fuzz/require.h"
#include "transport/qp/timeouts.h"

namespace uroce::transport {
namespace {

using A = AccessFlags;

bool IsFatal(const Aeth& aeth) {
  const NakCode code = aeth.syndrome.nak_code();
  return aeth.syndrome.kind() == Syndrome::Kind::kNak &&
         (code == NakCode::kInvalidRequest || code == NakCode::kRemoteAccessError ||
          code == NakCode::kRemoteOperationalError);
}

CompletionStatus StatusOf(NakCode code) {
  return code == NakCode::kInvalidRequest      ? CompletionStatus::kRemoteInvalidRequest
         : code == NakCode::kRemoteAccessError ? CompletionStatus::kRemoteAccessError
                                               : CompletionStatus::kRemoteOperationError;
}

// Whether the pieces of memory hold the bytes.
bool Holds(std::span<const std::pair<uint8_t*, size_t>> pieces, std::span<const uint8_t> bytes) {
  for (const auto& [at, count] : pieces) {
    if (std::memcmp(at, bytes.data(), count) != 0) return false;
    bytes = bytes.subspan(count);
  }
  return true;
}

}  // namespace

RequesterModel::RequesterModel(QueuePair& qp, FuzzMemory& memory, const FuzzConnection& connection)
    : qp_(qp),
      memory_(memory),
      connection_(connection),
      unacked_psn_(connection.first_psn),
      sent_psn_(connection.first_psn) {}

void RequesterModel::OnPosted(const SendWorkRequest& request) {
  Request& posted = requests_.emplace_back();
  posted.parameters = request;
  posted.sges.assign(request.sges.begin(), request.sges.end());
  if (posted.has_data()) {
    for (const ScatterGatherEntry& sge : request.sges) posted.length += sge.length;
  }
  if (!request.inline_data) return;
  std::vector<uint8_t>& bytes = posted.inline_bytes.emplace();
  for (const ScatterGatherEntry& sge : request.sges) {
    const auto* from = reinterpret_cast<const uint8_t*>(sge.address);
    bytes.insert(bytes.end(), from, from + sge.length);
  }
}

const RequesterModel::Request* RequesterModel::Find(Psn psn) const {
  const auto found = std::ranges::find_if(requests_, [psn](const Request& request) {
    return request.started &&
           ((psn.value() - request.first_psn.value()) & Psn::kMask) < request.psns;
  });
  return found == requests_.end() ? nullptr : &*found;
}

size_t RequesterModel::ReadBytes(const Request& request, Psn psn) const {
  if (request.parameters.opcode != SendOpcode::kRdmaRead) return 0;
  const uint64_t offset = uint64_t{mtu_bytes()} * psn.DistanceFrom(request.first_psn);
  return std::min<uint64_t>(request.length - offset, mtu_bytes());
}

// The first unanswered request before `psn` that needs a response of its own; nullptr if none.
const RequesterModel::Request* RequesterModel::FirstReadBefore(Psn psn) const {
  for (Psn at = unacked_psn_; at.IsBefore(psn);) {
    const Request* request = Find(at);
    UROCE_REQUIRE(request != nullptr);
    if (request->has_own_response()) return request;
    at = request->end_psn();
  }
  return nullptr;
}

// IBA 9.7.5.1.2 and 9.7.5.2.2
DropReason RequesterModel::Expect(const Packet& packet) const {
  const QpState state = qp_.state();
  if (state != QpState::kReadyToSend && state != QpState::kSendQueueDrain) {
    return DropReason::kQpNotReady;
  }
  if (packet.psn.IsBefore(unacked_psn_) || !packet.psn.IsBefore(sent_psn_)) {
    return DropReason::kStaleResponse;
  }
  const bool is_acknowledge = packet.opcode.operation == Operation::kAcknowledge;
  const Syndrome syndrome = packet.aeth.syndrome;
  const bool is_nak = is_acknowledge && syndrome.kind() != Syndrome::Kind::kAck;
  if (is_nak && syndrome.kind() == Syndrome::Kind::kReserved) {
    return DropReason::kMalformedResponse;
  }
  // An ACK also acknowledges its own PSN; any other response refers only to its PSN.
  const Psn before = is_acknowledge && !is_nak ? packet.psn + 1 : packet.psn;
  if (FirstReadBefore(before) != nullptr) return DropReason::kOutOfOrderResponse;
  if (is_nak) {
    const bool known = syndrome.kind() == Syndrome::Kind::kRnrNak || IsFatal(packet.aeth) ||
                       syndrome.nak_code() == NakCode::kPsnSequenceError;
    return known ? DropReason::kNone : DropReason::kMalformedResponse;
  }
  if (is_acknowledge) return DropReason::kNone;

  const Request* request = Find(packet.psn);
  UROCE_REQUIRE(request != nullptr);
  const SendOpcode asked = request->parameters.opcode;
  const bool ends = packet.psn + 1 == request->end_psn();  // READs here are of one request each
  const bool fits = packet.opcode.operation == Operation::kReadResponse
                        ? HasOwnResponse(asked) && !IsAtomic(asked) &&
                              packet.opcode.EndsMessage() == ends &&
                              packet.payload.size() == ReadBytes(*request, packet.psn)
                        : IsAtomic(asked);
  return fits ? DropReason::kNone : DropReason::kMalformedResponse;
}

void RequesterModel::OnResponse(Time now, const Packet& packet, DropReason expected,
                                DropReason result) {
  // The result may be kNone instead in two cases: a repeat of the last ACK brings new credits, or
  // an unsent bad request had its turn and failed.
  const bool credits = expected == DropReason::kStaleResponse && result == DropReason::kNone &&
                       packet.psn + 1 == unacked_psn_;
  const bool failed = result == DropReason::kNone && qp_.state() == QpState::kError;
  UROCE_REQUIRE(result == expected || credits || failed);

  const bool is_acknowledge = packet.opcode.operation == Operation::kAcknowledge;
  const bool is_ack = is_acknowledge && packet.aeth.syndrome.kind() == Syndrome::Kind::kAck;
  switch (expected) {
    case DropReason::kOutOfOrderResponse: {
      const Request* lost = FirstReadBefore(packet.psn + 1);
      if (lost->first_psn.IsAfter(unacked_psn_)) AcknowledgeUpTo(now, lost->first_psn);
      return;
    }
    case DropReason::kMalformedResponse:
      if (packet.aeth.syndrome.kind() != Syndrome::Kind::kReserved || !is_acknowledge) {
        AcknowledgeUpTo(now, packet.psn);
      }
      wrong_response_ |= !is_acknowledge;
      return;
    case DropReason::kNone:
      break;
    default:
      return;
  }
  AcknowledgeUpTo(now, is_ack ? packet.psn + 1 : packet.psn);
  if (is_acknowledge) {
    if (!is_ack) OnNak(now, packet);
    return;
  }
  const Request& request = *Find(packet.psn);
  const uint64_t offset = uint64_t{mtu_bytes()} * packet.psn.DistanceFrom(request.first_psn);
  const auto original = std::bit_cast<std::array<uint8_t, 8>>(packet.atomic_original);
  const bool is_read = packet.opcode.operation == Operation::kReadResponse;
  const std::span<const uint8_t> bytes = is_read ? packet.payload : original;
  const auto pieces = Locate(request, offset, bytes.size());
  UROCE_REQUIRE(pieces || failed);
  place_failed_ = !pieces;
  // An earlier request may have failed before the data was placed, or a later one after it.
  if (failed && !(pieces && Holds(*pieces, bytes))) return;
  uint64_t placed = 0;
  for (const auto& [at, count] : *pieces) {
    memory_.Expect(at, bytes.subspan(placed, count));
    placed += count;
  }
  AcknowledgeUpTo(now, packet.psn + 1);
}

void RequesterModel::OnNak(Time now, const Packet& packet) {
  const Syndrome syndrome = packet.aeth.syndrome;
  if (syndrome.kind() == Syndrome::Kind::kRnrNak) {
    ++rnr_naks_;
    if (silent_until_ <= now) silent_until_ = now + RnrDelay(syndrome.value());
  } else if (IsFatal(packet.aeth)) {
    nak_ = syndrome.nak_code();
    UROCE_REQUIRE(qp_.state() == QpState::kError);
  } else {
    ++setbacks_;
  }
}

void RequesterModel::AcknowledgeUpTo(Time now, Psn psn) {
  if (!psn.IsAfter(unacked_psn_)) return;
  unacked_psn_ = psn;
  last_progress_ = now;
  silent_until_ = now;
  setbacks_ = rnr_naks_ = 0;
}

void RequesterModel::OnTimeout(Time now) {
  // The timer is never early, and never infinite (IBA C9-139, C9-140).
  const auto timeout = AckTimeout(connection_.timeout);
  UROCE_REQUIRE(timeout && now - last_progress_ >= *timeout);
  UROCE_REQUIRE(unacked_psn_.IsBefore(sent_psn_));
  last_progress_ = now;
  ++setbacks_;
}

// The memory for the data of a response; nullopt if an entry that the data reaches is wrong.
std::optional<RequesterModel::Pieces> RequesterModel::Locate(const Request& request,
                                                             uint64_t offset,
                                                             uint64_t bytes) const {
  Pieces pieces;
  for (const ScatterGatherEntry& sge : request.sges) {
    const uint64_t skipped = std::min<uint64_t>(offset, sge.length);
    const uint64_t here = std::min(bytes, sge.length - skipped);
    offset -= skipped;
    bytes -= here;
    if (here == 0) continue;
    uint8_t* at = memory_.Local(kOurPd, sge.lkey, sge.address + skipped, here, A::kLocalWrite);
    if (at == nullptr) return std::nullopt;
    pieces.push_back({at, here});
  }
  return pieces;
}

// A local operation is done as soon as the requests posted after it are.
bool RequesterModel::IsAnswered(const Request& request) const {
  return request.is_local() || (request.started && !request.end_psn().IsAfter(unacked_psn_));
}

bool RequesterModel::IsWaiting() const {
  return std::ranges::any_of(
      requests_, [](const Request& r) { return !r.is_local() || r.parameters.signaled; });
}

void RequesterModel::OnCompletion(const Completion& completion) {
  UROCE_REQUIRE(completion.qpn == qp_.qpn());
  // Unsignaled requests succeed without a completion.
  while (!requests_.empty() && requests_.front().parameters.wr_id != completion.wr_id) {
    const Request& silent = requests_.front();
    UROCE_REQUIRE(!silent.parameters.signaled && IsAnswered(silent));
    requests_.pop_front();
  }
  UROCE_REQUIRE(!requests_.empty());
  const Request& request = requests_.front();
  if (completion.status == CompletionStatus::kSuccess) {
    UROCE_REQUIRE(request.parameters.signaled && IsAnswered(request) && !failed_);
    UROCE_REQUIRE(completion.byte_length == request.length);
  } else {
    UROCE_REQUIRE(qp_.state() == QpState::kError);
    if (completion.status != CompletionStatus::kFlushed) CheckFailure(completion);
    failed_ = true;
  }
  requests_.pop_front();
}

// The first completion in error, which causes all others. It is that of the oldest request.
void RequesterModel::CheckFailure(const Completion& completion) const {
  const Request& request = requests_.front();
  UROCE_REQUIRE(!failed_);
  switch (completion.status) {
    case CompletionStatus::kRetryExceeded:
      UROCE_REQUIRE(setbacks_ > connection_.retry_count);
      return;
    case CompletionStatus::kRnrRetryExceeded:
      UROCE_REQUIRE(connection_.rnr_retry != kRnrRetryForEver);
      UROCE_REQUIRE(rnr_naks_ > connection_.rnr_retry);
      return;
    case CompletionStatus::kLocalQpOperationError:
      UROCE_REQUIRE(request.has_own_response() ? connection_.max_read_atomic == 0
                                               : request.is_local());
      return;
    case CompletionStatus::kMemoryManagementError:
      UROCE_REQUIRE(request.is_local());
      return;
    case CompletionStatus::kBadResponse:
      UROCE_REQUIRE(wrong_response_);
      return;
    case CompletionStatus::kLocalProtectionError:
      UROCE_REQUIRE(place_failed_ || !request.is_local());
      return;
    default:
      UROCE_REQUIRE(nak_ && completion.status == StatusOf(*nak_));
  }
}

void RequesterModel::RequireQuiescent() {
  while (!requests_.empty() && IsAnswered(requests_.front())) {
    const Request& request = requests_.front();
    // Only the requests after a local operation show whether it has started.
    const bool is_past = !request.is_local() ||
                         std::ranges::any_of(requests_, [](const Request& r) { return r.started; });
    if (!is_past) break;
    UROCE_REQUIRE(!request.parameters.signaled);
    requests_.pop_front();
  }
  const QpState state = qp_.state();
  if (state == QpState::kError) {
    UROCE_REQUIRE(std::ranges::all_of(
        requests_, [](const Request& r) { return r.is_local() && !r.parameters.signaled; }));
    return;
  }
  UROCE_REQUIRE(!failed_);
  const Psn next_psn = qp_.Query().sq_psn;
  UROCE_REQUIRE(!next_psn.IsBefore(unacked_psn_) && !next_psn.IsAfter(sent_psn_));
}

}  // namespace uroce::transport
