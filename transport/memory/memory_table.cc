#include "transport/memory/memory_table.h"

#include <array>

#include "transport/limits.h"

namespace uroce::transport {
namespace {

constexpr uint8_t kStream = 1;  // of random numbers
constexpr size_t kInitialSlots = 1'024;
constexpr size_t kMaxSlots = size_t{2} * kMaxMemoryRegions;

constexpr uint32_t kTagMask = 0xff;

constexpr uint32_t kWindowAccess = AccessFlags::kRemoteWrite | AccessFlags::kRemoteRead |
                                   AccessFlags::kRemoteAtomic | AccessFlags::kFlushGlobal |
                                   AccessFlags::kZeroBased;
constexpr uint32_t kRemoteModifies = AccessFlags::kRemoteWrite | AccessFlags::kRemoteAtomic;

}  // namespace

MemoryTable::MemoryTable(const Seed& seed) : random_(seed, kStream) {
  segments_.reserve(kMaxSlots / kSegmentSlots);
  while (slots_ < kInitialSlots) AddSlot();
}

MemoryTable::Entry* MemoryTable::FindRegion(LKey key) {
  Entry* entry = Find(key.value);
  return entry != nullptr && entry->kind == Kind::kRegion ? entry : nullptr;
}

MemoryTable::Entry* MemoryTable::FindWindow(RKey key) {
  Entry* entry = Find(key.value);
  return entry != nullptr && entry->kind != Kind::kRegion ? entry : nullptr;
}

MemoryTable::Entry* MemoryTable::FindWindowOfAnyTag(RKey key) {
  Entry& entry = Slot(key.value);
  const bool is_window = entry.kind == Kind::kWindow1 || entry.kind == Kind::kWindow2;
  return is_window && IndexOf(entry.key) == IndexOf(key.value) ? &entry : nullptr;
}

// Half of the slots are free, so that a few draws find one.
MemoryTable::Entry* MemoryTable::Allocate(Kind kind) {
  if (in_use_ == kMaxMemoryRegions) return nullptr;
  while (2 * (size_t{in_use_} + 1) > slots_) AddSlot();
  while (true) {
    const auto key = static_cast<uint32_t>(random_.Next());
    Entry& entry = Slot(key);
    if (IndexOf(key) != 0 && entry.kind == Kind::kFree) return &Take(entry, kind, key);
  }
}

MemoryTable::Entry& MemoryTable::Take(Entry& entry, Kind kind, uint32_t key) {
  entry = Entry{};
  entry.kind = kind;
  entry.key = key;
  ++in_use_;
  return entry;
}

void MemoryTable::Free(Entry& entry) {
  entry.kind = Kind::kFree;
  --in_use_;
}

// With one bit less of the index, the keys of the new slot shared a slot with others: an entry with
// such a key moves to the new slot.
void MemoryTable::AddSlot() {
  if (slots_ == segments_.size() * kSegmentSlots) {
    segments_.push_back(std::make_unique<Entry[]>(kSegmentSlots));
  }
  const size_t added = slots_++;
  if (added > mask_) mask_ = 2 * mask_ + 1;
  Entry& shared = SlotAt(added & (mask_ >> 1));
  if (shared.kind == Kind::kFree || (IndexOf(shared.key) & mask_) != added) return;
  SlotAt(added) = shared;
  shared.kind = Kind::kFree;
}

std::optional<LKey> MemoryTable::Register(const MemoryRegion& region) {
  Entry* entry = Allocate(Kind::kRegion);
  if (entry == nullptr) return std::nullopt;
  entry->region = region;
  ++regions_in_use_;
  return LKey{entry->key};
}

std::optional<LKey> MemoryTable::RegisterNull(PdId pd) {
  Entry* entry = Allocate(Kind::kNullRegion);
  if (entry == nullptr) return std::nullopt;
  if (lost_writes_ == nullptr) lost_writes_ = std::make_unique<uint8_t[]>(kNullBytes);
  entry->region.pd = pd;
  ++regions_in_use_;
  return LKey{entry->key};
}

bool MemoryTable::IsNull(LKey key) const {
  const Entry* entry = Find(key.value);
  return entry != nullptr && entry->kind == Kind::kNullRegion;
}

bool MemoryTable::RegisterAs(LKey key, const MemoryRegion& region) {
  if (in_use_ == kMaxMemoryRegions) return false;
  while (Slot(key.value).kind != Kind::kFree && slots_ < kMaxSlots) AddSlot();
  Entry& entry = Slot(key.value);
  if (entry.kind != Kind::kFree) return false;
  Take(entry, Kind::kRegion, key.value).region = region;
  ++regions_in_use_;
  return true;
}

Status MemoryTable::Reregister(LKey key, const MemoryRegion& region) {
  Entry* entry = FindRegion(key);
  if (entry == nullptr) return Status::kInvalidArgument;
  if (entry->windows_bound != 0) return Status::kBusy;
  entry->region = region;
  return Status::kOk;
}

// IBA 10.6.7.2.6.
Status MemoryTable::Deregister(LKey key) {
  Entry* entry = IsNull(key) ? Find(key.value) : FindRegion(key);
  if (entry == nullptr) return Status::kInvalidArgument;
  if (entry->windows_bound != 0) return Status::kBusy;
  Free(*entry);
  --regions_in_use_;
  return Status::kOk;
}

std::optional<RKey> MemoryTable::AllocateWindow(PdId pd, WindowType type) {
  Entry* entry = Allocate(type == WindowType::kType1 ? Kind::kWindow1 : Kind::kWindow2);
  if (entry == nullptr) return std::nullopt;
  entry->region.pd = pd;
  return RKey{entry->key};
}

Status MemoryTable::DeallocateWindow(RKey key) {
  Entry* window = FindWindowOfAnyTag(key);
  if (window == nullptr) return Status::kInvalidArgument;
  Unbind(*window);
  Free(*window);
  return Status::kOk;
}

void MemoryTable::Unbind(Entry& window) {
  if (!window.bound) return;
  --Slot(window.parent.value).windows_bound;
  window.bound = false;
  if (window.kind == Kind::kWindow2) --windows2_bound_;
}

Status MemoryTable::BindWindow(PdId pd, Qpn qpn, RKey present, RKey next, const Binding& binding) {
  Entry* window = FindWindowOfAnyTag(present);
  if (window == nullptr || window->region.pd != pd) return Status::kInvalidArgument;  // IBA C10-72
  if (window->kind == Kind::kWindow1) {
    if (binding.access.Allows(AccessFlags::kZeroBased)) {  // IBA o10-36.2.2
      return Status::kInvalidArgument;
    }
  } else if (window->bound || binding.length == 0) {  // IBA o10-37.2.30, o10-37.2.40
    return Status::kInvalidArgument;
  }

  if (binding.length == 0) {
    Unbind(*window);
  } else {
    const Status status = BindToRegion(*window, binding);
    if (status != Status::kOk) return status;
    window->qpn = qpn;
  }
  window->key = (window->key & ~kTagMask) | (next.value & kTagMask);
  return Status::kOk;
}

Status MemoryTable::BindToRegion(Entry& window, const Binding& binding) {
  Entry* parent = FindRegion(binding.region);
  const uint32_t access = binding.access.bits();
  if (parent == nullptr || (access & ~kWindowAccess) != 0) return Status::kInvalidArgument;
  uint32_t wanted = AccessFlags::kWindowBind;                               // IBA C10-73
  if ((access & kRemoteModifies) != 0) wanted |= AccessFlags::kLocalWrite;  // IBA C10-74
  uint8_t* host_address =
      Resolve(parent->region, window.region.pd, binding.address, binding.length, wanted);
  if (host_address == nullptr) return Status::kInvalidArgument;  // IBA C10-75

  Unbind(window);
  window.bound = true;
  if (window.kind == Kind::kWindow2) ++windows2_bound_;
  window.parent = binding.region;
  ++parent->windows_bound;
  window.region.iova = (access & AccessFlags::kZeroBased) != 0 ? 0 : binding.address;
  window.region.host_address = host_address;
  window.region.length = binding.length;
  window.region.access = binding.access;
  return Status::kOk;
}

// IBA o10-37.2.26.
Status MemoryTable::InvalidateWindow(PdId pd, Qpn qpn, RKey key) {
  Entry* window = FindWindow(key);
  if (window == nullptr || window->kind != Kind::kWindow2 || !window->bound ||
      window->region.pd != pd || window->qpn != qpn) {
    return Status::kInvalidArgument;
  }
  Unbind(*window);
  return Status::kOk;
}

void MemoryTable::ForgetQueuePair(Qpn qpn) {
  if (windows2_bound_ == 0) return;  // the usual case: nothing to look for
  constexpr Qpn kNobody{0};          // QPN 0 is that of subnet management
  for (size_t index = 0; index < slots_; ++index) {
    Entry& entry = SlotAt(index);
    if (entry.kind == Kind::kWindow2 && entry.bound && entry.qpn == qpn) entry.qpn = kNobody;
  }
}

uint8_t* MemoryTable::NullAddress(const Entry& entry, PdId pd, uint32_t wanted) const {
  static constexpr std::array<uint8_t, kNullBytes> kZeros{};
  if (entry.kind != Kind::kNullRegion || entry.region.pd != pd) return nullptr;
  const bool writes = (wanted & AccessFlags::kLocalWrite) != 0;
  return writes ? lost_writes_.get() : const_cast<uint8_t*>(kZeros.data());
}

bool MemoryTable::RemotePermits(PdId pd, Qpn qpn, RKey key, uint32_t wanted) const {
  const Entry* entry = FindRemote(qpn, key);
  return entry != nullptr && entry->region.pd == pd && entry->region.access.Allows(wanted);
}

}  // namespace uroce::transport
