#include "transport/memory/memory_table.h"

#include "transport/limits.h"

namespace uroce::transport {
namespace {

// Entries made at the start. Free entries are reused oldest first, so a program that registers and
// deregisters one region in a loop meets the same key again only after 256 rounds through them all.
constexpr uint32_t kInitialEntries = 1'024;

constexpr uint32_t kWindowAccess = AccessFlags::kRemoteWrite | AccessFlags::kRemoteRead |
                                   AccessFlags::kRemoteAtomic | AccessFlags::kZeroBased;
constexpr uint32_t kRemoteModifies = AccessFlags::kRemoteWrite | AccessFlags::kRemoteAtomic;

constexpr uint32_t IndexOf(uint32_t key) { return key >> 8; }

// Written so that neither sum can overflow: `address` and `length` may be any 64-bit numbers.
bool Covers(const MemoryRegion& region, uint64_t address, uint64_t length) {
  return address >= region.iova && length <= region.length &&
         address - region.iova <= region.length - length;
}

uint8_t* Resolve(const MemoryRegion& region, PdId pd, uint64_t address, uint64_t length,
                 uint32_t wanted) {
  if (region.pd != pd || !region.access.Allows(wanted)) return nullptr;
  if (!Covers(region, address, length)) return nullptr;
  return region.host_address + (address - region.iova);
}

}  // namespace

MemoryTable::MemoryTable() : entries_(1 + kInitialEntries) {
  for (uint32_t index = 1; index <= kInitialEntries; ++index) AppendFree(index);
}

const MemoryTable::Entry* MemoryTable::Find(uint32_t key) const {
  const uint32_t index = IndexOf(key);
  if (index >= entries_.size()) return nullptr;
  const Entry& entry = entries_[index];
  const bool current = entry.kind != Kind::kFree && entry.tag == static_cast<uint8_t>(key);
  return current ? &entry : nullptr;
}

MemoryTable::Entry* MemoryTable::Find(uint32_t key) {
  return const_cast<Entry*>(static_cast<const MemoryTable*>(this)->Find(key));
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
  const uint32_t index = IndexOf(key.value);
  if (index >= entries_.size()) return nullptr;
  Entry& entry = entries_[index];
  return entry.kind == Kind::kWindow1 || entry.kind == Kind::kWindow2 ? &entry : nullptr;
}

uint32_t MemoryTable::Allocate(Kind kind) {
  if (first_free_ == 0) {
    if (entries_.size() > kMaxMemoryRegions) return 0;
    entries_.emplace_back();
    AppendFree(static_cast<uint32_t>(entries_.size() - 1));
  }
  const uint32_t index = first_free_;
  Entry& entry = entries_[index];
  first_free_ = entry.next_free;
  if (first_free_ == 0) last_free_ = 0;
  const uint8_t tag = entry.tag;
  entry = Entry{};
  entry.kind = kind;
  entry.tag = tag;
  return index;
}

void MemoryTable::Free(Entry& entry) {
  entry.kind = Kind::kFree;
  ++entry.tag;
  AppendFree(static_cast<uint32_t>(&entry - entries_.data()));
}

void MemoryTable::AppendFree(uint32_t index) {
  entries_[index].next_free = 0;
  (last_free_ == 0 ? first_free_ : entries_[last_free_].next_free) = index;
  last_free_ = index;
}

std::optional<LKey> MemoryTable::Register(const MemoryRegion& region) {
  const uint32_t index = Allocate(Kind::kRegion);
  if (index == 0) return std::nullopt;
  entries_[index].region = region;
  ++regions_in_use_;
  return LKey{KeyOf(index, entries_[index].tag)};
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
  Entry* entry = FindRegion(key);
  if (entry == nullptr) return Status::kInvalidArgument;
  if (entry->windows_bound != 0) return Status::kBusy;
  Free(*entry);
  --regions_in_use_;
  return Status::kOk;
}

std::optional<RKey> MemoryTable::AllocateWindow(PdId pd, WindowType type) {
  const uint32_t index = Allocate(type == WindowType::kType1 ? Kind::kWindow1 : Kind::kWindow2);
  if (index == 0) return std::nullopt;
  entries_[index].region.pd = pd;
  return RKey{KeyOf(index, entries_[index].tag)};
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
  --entries_[window.parent].windows_bound;
  window.bound = false;
  if (window.kind == Kind::kWindow2) --windows2_bound_;
}

Status MemoryTable::BindWindow(PdId pd, Qpn qpn, RKey present, RKey next, const Binding& binding) {
  Entry* window = FindWindowOfAnyTag(present);
  if (window == nullptr || window->region.pd != pd) return Status::kInvalidArgument;  // IBA C10-72
  if (window->kind == Kind::kWindow1 && FindWindow(present) == nullptr) {
    return Status::kInvalidArgument;
  }
  // The tag has to change, or the old key would reach the new binding (IBA 10.6.7.2.4).
  const bool changes_tag = static_cast<uint8_t>(next.value) != window->tag;
  if (!changes_tag || IndexOf(next.value) != IndexOf(present.value)) {
    return Status::kInvalidArgument;
  }
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
  window->tag = static_cast<uint8_t>(next.value);
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
  window.parent = IndexOf(binding.region.value);
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
  if (windows2_bound_ == 0) return;  // as almost always: nothing to look for
  constexpr Qpn kNobody{0};          // QPN 0 is that of subnet management
  for (Entry& entry : entries_) {
    if (entry.kind == Kind::kWindow2 && entry.bound && entry.qpn == qpn) entry.qpn = kNobody;
  }
}

uint8_t* MemoryTable::LocalAddress(PdId pd, LKey key, uint64_t address, uint64_t length,
                                   uint32_t wanted) const {
  const Entry* entry = Find(key.value);
  if (entry == nullptr || entry->kind != Kind::kRegion) return nullptr;
  return Resolve(entry->region, pd, address, length, wanted);
}

uint8_t* MemoryTable::RemoteAddress(PdId pd, Qpn qpn, RKey key, uint64_t address, uint64_t length,
                                    uint32_t wanted) const {
  const Entry* entry = Find(key.value);
  if (entry == nullptr) return nullptr;
  if (entry->kind != Kind::kRegion && !entry->bound) return nullptr;
  if (entry->kind == Kind::kWindow2 && entry->qpn != qpn) return nullptr;
  return Resolve(entry->region, pd, address, length, wanted);
}

}  // namespace uroce::transport
