#include "tests/fuzz/verbs_host.h"

#include <algorithm>
#include <utility>

#include "tests/fuzz/require.h"
#include "transport/limits.h"
#include "transport/wire/frame_parser.h"
#include "transport/wire/mad.h"

namespace uroce::transport {
namespace {

using A = AccessFlags;

constexpr PdId kPd{1};
constexpr uint8_t kGuard = 0xa5;
constexpr uint32_t kRegionAccess =
    A::kLocalWrite | A::kRemoteWrite | A::kRemoteRead | A::kRemoteAtomic | A::kWindowBind;

EndpointConfig ConfigOf(uint8_t number, void* context) {
  const MacAddress mac = {2, 0, 0, 0, 0, number};
  return {.mac = mac,
          .gids = {Gid::LinkLocal(mac), Gid::FromIpv4({10, 0, 0, number})},
          .port_mtu = 1'500,
          .first_qpn = Qpn{uint32_t{number} << 8},
          .qpn_count = 6,
          .context = context};
}

}  // namespace

VerbsHost::VerbsHost(uint8_t number)
    : endpoint_(ConfigOf(number, &device_tag_)),
      memory_(2 * kGuardBytes + kMemoryBytes, kGuard),
      windows_{*endpoint_.memory().AllocateWindow(kPd, WindowType::kType1),
               *endpoint_.memory().AllocateWindow(kPd, WindowType::kType2)} {
  // Enough to connect at once; an input may take it away.
  Record zeros({});
  ChangeMemory(zeros);
  CreateOrDestroyCq(zeros);
}

bool VerbsHost::IsUsed(const CqSlot& slot) const {
  return std::ranges::any_of(qps_, [&slot](const QpSlot& qp) {
    return qp.qp != nullptr && (qp.send_cq == &slot || qp.receive_cq == &slot);
  });
}

bool VerbsHost::IsUsed(const SrqSlot& slot) const {
  return std::ranges::any_of(
      qps_, [&slot](const QpSlot& qp) { return qp.qp != nullptr && qp.srq == &slot; });
}

void VerbsHost::CreateOrDestroyCq(Record& record) {
  CqSlot& slot = cqs_[record.Below(kCqs)];
  const uint32_t capacity = 64 - record.Below(64);
  if (slot.cq == nullptr) {
    slot.cq = endpoint_.CreateCompletionQueue(capacity, &slot.tag);
    slot.armed = slot.notified = 0;
    UROCE_REQUIRE(slot.cq->capacity() >= capacity && slot.cq->empty());
  } else if (!IsUsed(slot)) {
    Poll(slot, kMaxCqEntries);
    endpoint_.DestroyCompletionQueue(std::move(slot.cq));
  }
}

void VerbsHost::CreateOrDestroySrq(Record& record) {
  SrqSlot& slot = srqs_[record.Below(kSrqs)];
  if (slot.srq == nullptr) {
    const SrqInitAttributes attributes = {.pd = kPd,
                                          .max_work_requests = record.Below(12),
                                          .max_sges = record.Below(40),
                                          .limit = record.Below(6),
                                          .context = &slot.tag};
    slot.srq = endpoint_.CreateSharedReceiveQueue(attributes);
    const bool fits = attributes.max_work_requests > 0 && attributes.max_sges <= kMaxSges &&
                      attributes.limit <= attributes.max_work_requests;
    UROCE_REQUIRE((slot.srq != nullptr) == fits);
    slot.account = ledger_.Open(VerbsLedger::Kind::kShared);
  } else if (!IsUsed(slot)) {
    endpoint_.DestroySharedReceiveQueue(std::move(slot.srq));
  }
}

void VerbsHost::CreateOrDestroyQp(Record& record) {
  constexpr QpType kTypes[] = {QpType::kReliableConnection, QpType::kReliableConnection,
                               QpType::kUnreliableConnection, QpType::kUnreliableDatagram};
  QpSlot& slot = qps_[record.Below(kQps)];
  if (slot.qp != nullptr) {
    const Qpn qpn = slot.qp->qpn();
    endpoint_.DestroyQueuePair(std::exchange(slot.qp, nullptr));
    UROCE_REQUIRE(endpoint_.Find(qpn) == nullptr);
    return;
  }
  QpInitAttributes init;
  init.pd = kPd;
  init.type = record.Pick(kTypes);
  slot.send_cq = &cqs_[record.Below(kCqs)];
  slot.receive_cq = &cqs_[record.Below(kCqs)];
  slot.srq = record.Flag() ? &srqs_[record.Below(kSrqs)] : nullptr;
  init.send_cq = slot.send_cq->cq.get();
  init.receive_cq = slot.receive_cq->cq.get();
  init.srq = slot.srq == nullptr ? nullptr : slot.srq->srq.get();
  if (init.srq == nullptr) slot.srq = nullptr;
  const uint8_t excess = record.Byte();
  init.capabilities = {.max_send_wr = excess == 0xff ? kMaxQpWorkRequests + 1 : 8,
                       .max_receive_wr = excess == 0xfe ? kMaxQpWorkRequests + 1 : 8,
                       .max_send_sge = excess == 0xfd ? kMaxSges + 1 : 3 - excess % 4u,
                       .max_receive_sge = excess == 0xfc ? kMaxSges + 1 : 3 - excess / 4 % 4u,
                       .max_inline_bytes = excess == 0xfb ? kMaxInlineBytes + 1 : 32};
  init.signal_all = record.Flag();
  init.context = &slot.tag;
  const bool shares = init.srq != nullptr;
  const bool fits = excess < 0xfb || (shares && (excess == 0xfe || excess == 0xfc));
  const bool valid = fits && init.send_cq != nullptr && init.receive_cq != nullptr;
  const Status status = endpoint_.CreateQueuePair(init, &slot.qp);
  UROCE_REQUIRE(status == (valid ? Status::kOk : Status::kInvalidArgument));
  if (!valid) return;
  UROCE_REQUIRE(endpoint_.Find(slot.qp->qpn()) == slot.qp);
  OpenAccounts(slot);
}

void VerbsHost::OpenAccounts(QpSlot& slot) {
  slot.sends = ledger_.Open(VerbsLedger::Kind::kSend);
  slot.receives = ledger_.Open(VerbsLedger::Kind::kReceive);
}

void VerbsHost::ChangeCq(Record& record) {
  CqSlot& slot = cqs_[record.Below(kCqs)];
  if (slot.cq == nullptr) return;
  const uint8_t choice = record.Byte();
  if (choice < 32) {
    const uint32_t capacity = record.Below(80);
    const bool was_empty = slot.cq->empty();
    const Status status = slot.cq->Resize(capacity);
    UROCE_REQUIRE(!was_empty || status == (capacity == 0 ? Status::kInvalidArgument : Status::kOk));
    UROCE_REQUIRE(status != Status::kOk || slot.cq->capacity() >= capacity);
  } else if (choice < 96) {
    slot.cq->Arm(record.Flag() ? CompletionQueue::NotifyOn::kAny
                               : CompletionQueue::NotifyOn::kSolicited);
    ++slot.armed;
  } else {
    Poll(slot, record.Below(16));
  }
}

void VerbsHost::Poll(CqSlot& slot, uint32_t count) {
  std::array<Completion, 16> completions;
  uint32_t polled = 1;
  while (count > 0 && polled > 0) {
    polled = slot.cq->Poll(std::span(completions).first(std::min<size_t>(count, 16)));
    count -= polled;
    for (uint32_t i = 0; i < polled; ++i) ledger_.OnCompletion(completions[i]);
  }
}

void VerbsHost::ChangeSrq(Record& record) {
  SrqSlot& slot = srqs_[record.Below(kSrqs)];
  if (slot.srq == nullptr) return;
  const uint32_t value = record.Below(16);
  if (record.Flag()) {
    const Status status = slot.srq->SetLimit(value);
    UROCE_REQUIRE((status == Status::kOk) == (value <= slot.srq->capacity()));
  } else {
    const uint32_t before = slot.srq->capacity();
    const Status status = slot.srq->Resize(value);
    UROCE_REQUIRE(slot.srq->capacity() == (status == Status::kOk ? value : before));
    UROCE_REQUIRE(status != Status::kOk || (value > 0 && value >= slot.srq->limit()));
  }
}

void VerbsHost::ChangeMemory(Record& record) {
  std::optional<LKey>& key = regions_[record.Below(kRegions)];
  const uint8_t choice = record.Byte();
  const MemoryRegion region = {.pd = kPd,
                               .iova = Address(0),
                               .host_address = memory_.data() + kGuardBytes,
                               .length = kMemoryBytes - record.Byte() * 8u,
                               .access = AccessFlags(kRegionAccess)};
  if (!key) {
    key = endpoint_.memory().Register(region);
    UROCE_REQUIRE(key);
  } else if (choice < 64) {
    const Status status = endpoint_.memory().Reregister(*key, region);
    UROCE_REQUIRE(status == Status::kOk || status == Status::kBusy);
  } else if (choice < 128) {
    const Status status = endpoint_.memory().Deregister(*key);
    UROCE_REQUIRE(status == Status::kOk || status == Status::kBusy);
    if (status == Status::kOk) key.reset();
  } else {
    RKey& window = windows_[choice % 2];
    UROCE_REQUIRE(endpoint_.memory().DeallocateWindow(window) == Status::kOk);
    window = *endpoint_.memory().AllocateWindow(
        kPd, choice % 2 == 0 ? WindowType::kType1 : WindowType::kType2);
  }
}

void VerbsHost::ChangeMulticast(Record& record) {
  const QpSlot& slot = qps_[record.Below(kQps)];
  if (slot.qp == nullptr) return;
  const Gid groups[] = {Gid::FromIpv4({224, 0, 0, 1}), Gid::FromIpv4({239, 1, 1, 1}),
                        Gid::FromIpv4({10, 0, 0, 1})};
  const Gid& group = record.Pick(groups);
  const bool may =
      slot.qp->init_attributes().type == QpType::kUnreliableDatagram && group.IsMulticast();
  if (record.Flag()) {
    const Status status = endpoint_.AttachMulticast(*slot.qp, group);
    UROCE_REQUIRE(status == (may ? Status::kOk : Status::kInvalidArgument));
    UROCE_REQUIRE(!may || endpoint_.IsAttachedToMulticast(*slot.qp));
  } else {
    const Status status = endpoint_.DetachMulticast(*slot.qp, group);
    UROCE_REQUIRE(may || status == Status::kInvalidArgument);
    UROCE_REQUIRE(endpoint_.DetachMulticast(*slot.qp, group) == Status::kInvalidArgument);
  }
}

void VerbsHost::TakeEvents() {
  while (const auto event = endpoint_.TakeEvent()) {
    switch (*static_cast<const Tag*>(event->context)) {
      case Tag::kDevice:
        UROCE_REQUIRE(event->type == EventType::kDeviceFatal);
        break;
      case Tag::kCq: {
        const auto slot = std::ranges::find(
            cqs_, event->context, [](const CqSlot& s) { return static_cast<const void*>(&s.tag); });
        UROCE_REQUIRE(slot != cqs_.end() && slot->cq != nullptr);
        const bool is_error = event->type == EventType::kCqError;
        UROCE_REQUIRE(is_error ? slot->cq->in_error() : ++slot->notified <= slot->armed);
        break;
      }
      case Tag::kSrq:
        UROCE_REQUIRE(event->type == EventType::kSrqLimitReached);
        break;
      case Tag::kQp: {
        const auto slot = std::ranges::find(
            qps_, event->context, [](const QpSlot& s) { return static_cast<const void*>(&s.tag); });
        UROCE_REQUIRE(slot != qps_.end() && slot->qp != nullptr);
        UROCE_REQUIRE(event->type != EventType::kLastWqeReached || slot->srq != nullptr);
        break;
      }
    }
  }
}

void VerbsHost::PollAll() {
  for (CqSlot& slot : cqs_) {
    if (slot.cq != nullptr) Poll(slot, kMaxCqEntries);
  }
}

void VerbsHost::RequireGuards() const {
  const auto is_guard = [](uint8_t byte) { return byte == kGuard; };
  const std::span<const uint8_t> memory(memory_);
  UROCE_REQUIRE(std::ranges::all_of(memory.first(kGuardBytes), is_guard));
  UROCE_REQUIRE(std::ranges::all_of(memory.last(kGuardBytes), is_guard));
}

void VerbsHost::Finish(Time now) {
  PollAll();
  for (QpSlot& slot : qps_) {
    if (slot.qp == nullptr) continue;
    QpAttributes attributes;
    attributes.state = QpState::kError;
    UROCE_REQUIRE(slot.qp->Modify(attributes, QpAttributeMask::kState) == Status::kOk);
    PollAll();
    // An overrun loses completions.
    if (!slot.send_cq->cq->in_error()) ledger_.RequireComplete(slot.sends);
    if (!slot.receive_cq->cq->in_error()) ledger_.RequireComplete(slot.receives);
  }
  TakeEvents();
  RequireGuards();
  for (QpSlot& slot : qps_) {
    if (slot.qp != nullptr) endpoint_.DestroyQueuePair(std::exchange(slot.qp, nullptr));
  }
  for (SrqSlot& slot : srqs_) {
    if (slot.srq != nullptr) endpoint_.DestroySharedReceiveQueue(std::move(slot.srq));
  }
  for (CqSlot& slot : cqs_) {
    if (slot.cq != nullptr) endpoint_.DestroyCompletionQueue(std::move(slot.cq));
  }
  // The packets that are left ask the other host what it speaks, or answer that.
  std::array<uint8_t, kMaxFrameBytes> frame;
  while (const size_t bytes = endpoint_.PollTransmit(now, Route::kWire, frame)) {
    Packet packet;
    UROCE_REQUIRE(ParseFrame(std::span(frame).first(bytes), packet) == DropReason::kNone);
    UROCE_REQUIRE(packet.destination_qpn == kGeneralServicesQpn);
  }
  UROCE_REQUIRE(!endpoint_.HasTransmit(Route::kWire) && !endpoint_.HasTransmit(Route::kLoopback));
}

}  // namespace uroce::transport
