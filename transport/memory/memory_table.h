#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "transport/access.h"
#include "transport/ids.h"
#include "transport/random_numbers.h"
#include "transport/status.h"

namespace uroce::transport {

// The range of a memory region. Local and remote accesses name bytes by iova; byte iova + i of the
// region is host_address[i].
struct MemoryRegion {
  PdId pd;
  uint64_t iova = 0;
  uint8_t* host_address = nullptr;
  uint64_t length = 0;
  AccessFlags access;
};

enum class WindowType : uint8_t { kType1 = 1, kType2 = 2 };  // enum ibv_mw_type

// The memory regions and memory windows of a device and the one check that every access passes.
//
// A key is 32 random bits, so that a peer which was given one cannot guess another, and a stale key
// is refused. The lower 8 bits are the tag, which changes when a window is bound; as many of the
// others as it needs index the table. A region's lkey and rkey have the same value.
//
// The table grows by a slot at a time (linear hashing: W. Litwin, 1980), so that no registration
// takes longer than another one: calls are made under the engine's lock.
class MemoryTable {
 public:
  explicit MemoryTable(const Seed& seed = {});

  // nullopt when kMaxMemoryRegions keys, of regions and windows together, are in use. The verb has
  // refused remote write or atomic access without local write access (IBA 10.6.3.2).
  std::optional<LKey> Register(const MemoryRegion& region);
  // With a key of the caller's choice, for a replay of recorded frames. False if the key's slot is
  // in use or the table is full.
  bool RegisterAs(LKey key, const MemoryRegion& region);
  // A key for local accesses at any address and of any length: reads find zeros, writes are lost.
  // nullopt as for Register. At the address that LocalAddress returns for it lie kNullBytes, more
  // than the payload of any packet. What may be longer is not written there: see IsLost.
  static constexpr size_t kNullBytes = 4'224;
  std::optional<LKey> RegisterNull(PdId pd);
  bool IsNull(LKey key) const;
  // Whether LocalAddress returned `target` for a null region, in which writes are lost.
  bool IsLost(const uint8_t* target) const { return target == lost_writes_.get(); }
  // ibv_rereg_mr: same key, new content. kInvalidArgument if there is no such region, kBusy while
  // windows are bound to it.
  Status Reregister(LKey key, const MemoryRegion& region);
  // kInvalidArgument if there is no such region, kBusy while windows are bound to it.
  Status Deregister(LKey key);

  // An unbound window. Its key changes with every binding.
  std::optional<RKey> AllocateWindow(PdId pd, WindowType type);
  // Windows of both types may be in any state (ibv_dealloc_mw unbinds). `key` may be any key the
  // window ever had: for type 2 windows only the application knows which one is the latest.
  Status DeallocateWindow(RKey key);

  struct Binding {
    LKey region;
    uint64_t address = 0;
    uint64_t length = 0;
    AccessFlags access;
  };
  // Binds the window that `present` names, any key it ever had, and gives it the tag of `next`,
  // whose other bits are ignored (IBA 10.6.7.2.4). Type 2 windows must be unbound and are tied to
  // `qpn`. A zero length unbinds a type 1 window. Binding a type 1 window again replaces its
  // binding. kInvalidArgument, and nothing has changed, if the window or the region does not permit
  // it.
  Status BindWindow(PdId pd, Qpn qpn, RKey present, RKey next, const Binding& binding);
  // Local invalidate, or send with invalidate from the peer of `qpn`. Only a bound type 2 window
  // of that QP can be invalidated; kInvalidArgument otherwise.
  Status InvalidateWindow(PdId pd, Qpn qpn, RKey key);

  // The queue pair is gone, and another one may get its number: the windows that are tied to it
  // stay bound, but no access reaches them any more (IBA o10-2.2.5).
  void ForgetQueuePair(Qpn qpn);

  // The memory of the bytes [address, address + length) of a region, or nullptr when the key does
  // not exist, belongs to another protection domain, does not permit `wanted` (AccessFlags bits) or
  // does not cover the range. A length of zero still needs a valid key; callers skip the check for
  // zero-length accesses, which check no R_Key (IBA C9-88).
  [[gnu::always_inline]] uint8_t* LocalAddress(PdId pd, LKey key, uint64_t address, uint64_t length,
                                               uint32_t wanted) const {
    const Entry* entry = Find(key.value);
    if (entry == nullptr) return nullptr;
    if (entry->kind != Kind::kRegion) [[unlikely]]
      return NullAddress(*entry, pd, wanted);
    return Resolve(entry->region, pd, address, length, wanted);
  }
  // The same for an access from the peer of `qpn`: windows count too, by their own range and
  // access.
  [[gnu::always_inline]] uint8_t* RemoteAddress(PdId pd, Qpn qpn, RKey key, uint64_t address,
                                                uint64_t length, uint32_t wanted) const {
    const Entry* entry = FindRemote(qpn, key);
    return entry == nullptr ? nullptr : Resolve(entry->region, pd, address, length, wanted);
  }

  // Whether the region or window permits `wanted` to the peer of `qpn`, whatever the range.
  bool RemotePermits(PdId pd, Qpn qpn, RKey key, uint32_t wanted) const;

  // Memory regions, null regions included, without windows.
  uint32_t regions_in_use() const { return regions_in_use_; }

 private:
  enum class Kind : uint8_t { kFree, kRegion, kNullRegion, kWindow1, kWindow2 };
  // As large as a cache line.
  struct alignas(64) Entry {
    Kind kind = Kind::kFree;
    bool bound = false;  // windows
    uint32_t key = 0;
    LKey parent;                 // bound windows: the region
    uint32_t windows_bound = 0;  // regions
    Qpn qpn;                     // bound type 2 windows
    MemoryRegion region;         // windows: the range they open, host_address included
  };

  static_assert(sizeof(Entry) == 64);

  // Slots come in segments, so that adding one never moves the others.
  static constexpr size_t kSegmentSlots = 512;

  static constexpr uint32_t IndexOf(uint32_t key) { return key >> 8; }
  Entry& SlotAt(size_t index) { return segments_[index / kSegmentSlots][index % kSegmentSlots]; }
  const Entry& Slot(uint32_t key) const {
    size_t index = IndexOf(key) & mask_;
    if (index >= slots_) index &= mask_ >> 1;  // the slot that it shares until its own exists
    return segments_[index / kSegmentSlots][index % kSegmentSlots];
  }
  Entry& Slot(uint32_t key) {
    return const_cast<Entry&>(static_cast<const MemoryTable*>(this)->Slot(key));
  }
  // The entry in use that `key` names, or nullptr.
  const Entry* Find(uint32_t key) const {
    const Entry& entry = Slot(key);
    return entry.key == key && entry.kind != Kind::kFree ? &entry : nullptr;
  }
  Entry* Find(uint32_t key) {
    return const_cast<Entry*>(static_cast<const MemoryTable*>(this)->Find(key));
  }
  // The entry that the peer of `qpn` may access by `key`, or nullptr.
  const Entry* FindRemote(Qpn qpn, RKey key) const {
    const Entry* entry = Find(key.value);
    if (entry == nullptr || entry->kind == Kind::kRegion) [[likely]]
      return entry;
    if (!entry->bound) return nullptr;
    return entry->kind == Kind::kWindow2 && entry->qpn != qpn ? nullptr : entry;
  }
  // Written so that neither sum can overflow: `address` and `length` may be any 64-bit numbers.
  static bool Covers(const MemoryRegion& region, uint64_t address, uint64_t length) {
    return address >= region.iova && length <= region.length &&
           address - region.iova <= region.length - length;
  }
  static uint8_t* Resolve(const MemoryRegion& region, PdId pd, uint64_t address, uint64_t length,
                          uint32_t wanted) {
    if (region.pd != pd || !region.access.Allows(wanted)) return nullptr;
    if (!Covers(region, address, length)) return nullptr;
    return region.host_address + (address - region.iova);
  }
  Entry* FindRegion(LKey key);
  Entry* FindWindow(RKey key);
  // The window whose key differs from `key` in the tag at most.
  Entry* FindWindowOfAnyTag(RKey key);

  // An entry with a key that is not in use; nullptr if there is none left.
  Entry* Allocate(Kind kind);
  Entry& Take(Entry& entry, Kind kind, uint32_t key);
  void Free(Entry& entry);
  void AddSlot();
  void Unbind(Entry& window);
  Status BindToRegion(Entry& window, const Binding& binding);
  uint8_t* NullAddress(const Entry& entry, PdId pd, uint32_t wanted) const;

  RandomNumbers random_;
  std::vector<std::unique_ptr<Entry[]>> segments_;
  size_t slots_ = 0;  // at most half of them in use
  size_t mask_ = 0;   // the least power of two that is not below slots_, less 1
  uint32_t in_use_ = 0;
  uint32_t regions_in_use_ = 0;
  uint32_t windows2_bound_ = 0;
  std::unique_ptr<uint8_t[]> lost_writes_;  // null until there is a null region
};

}  // namespace uroce::transport
