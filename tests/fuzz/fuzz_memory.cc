#include "tests/fuzz/fuzz_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "tests/fuzz/require.h"

namespace uroce::transport {
namespace {

using A = AccessFlags;

constexpr uint32_t kRemote = A::kRemoteWrite | A::kRemoteRead | A::kRemoteAtomic | A::kFlushGlobal;

constexpr struct {
  PdId pd;
  uint32_t access;
} kKinds[FuzzMemory::kRegions] = {
    {kOurPd, A::kLocalWrite | kRemote | A::kWindowBind},
    {kOurPd, A::kLocalWrite | A::kRemoteRead | A::kWindowBind},
    {kOurPd, A::kLocalWrite | A::kRemoteWrite},
    {kOurPd, A::kRemoteRead | A::kWindowBind},
    {kOurPd, A::kLocalWrite},
    {kOtherPd, A::kLocalWrite | kRemote},
    {kOurPd, A::kRemoteRead},
};

// Beyond 2^32, so that every 32-bit length fits. Never written, so it takes no memory.
constexpr size_t kHugeBytes = size_t{9} << 30;

uint8_t* HugeBytes() {
  static void* const bytes =
      mmap(nullptr, kHugeBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  UROCE_REQUIRE(bytes != MAP_FAILED);
  return static_cast<uint8_t*>(bytes);
}

}  // namespace

FuzzMemory::FuzzMemory(MemoryTable& table)
    : table_(table), bytes_(kHuge * kSlotBytes + kGuardBytes) {
  for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<uint8_t>(i * 7 + i / 256);
  shadow_ = bytes_;
  for (size_t region = 0; region < kRegions; ++region) ToggleRegion(region);
  for (size_t window = 0; window < kWindows; ++window) {
    windows_[window].type = window == 0 ? WindowType::kType1 : WindowType::kType2;
    const auto key = table_.AllocateWindow(kOurPd, windows_[window].type);
    UROCE_REQUIRE(key);
    grants_[kRegions + window].key = key->value;
    grants_[kRegions + window].is_window = true;
  }
}

uint8_t* FuzzMemory::BytesOf(size_t region) {
  return region == kHuge ? HugeBytes() : &bytes_[region * kSlotBytes + kGuardBytes];
}

void FuzzMemory::ToggleRegion(size_t index) {
  Grant& grant = grants_[index];
  if (grant.valid) {
    const bool has_window = std::ranges::any_of(
        windows_, [index](const Window& window) { return window.region == index; });
    const Status status = table_.Deregister(LKey{grant.key});
    UROCE_REQUIRE(status == (has_window ? Status::kBusy : Status::kOk));
    grant.valid = has_window;
    return;
  }
  grant = {.valid = true,
           .pd = kKinds[index].pd,
           .access = kKinds[index].access,
           .length = index == kHuge ? kHugeBytes : kRegionBytes,
           .bytes = BytesOf(index)};
  // One region begins at address 0 and one ends at the last address: sums must not overflow.
  grant.iova = index == 3   ? 0
               : index == 1 ? uint64_t{0} - kRegionBytes
                            : reinterpret_cast<uint64_t>(grant.bytes);
  const auto key = table_.Register({.pd = grant.pd,
                                    .iova = grant.iova,
                                    .host_address = grant.bytes,
                                    .length = grant.length,
                                    .access = AccessFlags(grant.access)});
  UROCE_REQUIRE(key);
  grant.key = key->value;
}

void FuzzMemory::BindWindow(size_t window, Qpn qpn, size_t region, uint64_t offset, uint64_t length,
                            uint32_t access) {
  constexpr uint32_t kModifies = A::kRemoteWrite | A::kRemoteAtomic;
  Grant& grant = grants_[kRegions + window];
  const Grant& parent = grants_[region];
  const bool zero_based = (access & A::kZeroBased) != 0;
  const RKey next{(grant.key & ~0xffu) | ((grant.key + 1) & 0xff)};
  const Status status =
      table_.BindWindow(kOurPd, qpn, RKey{grant.key}, next,
                        {LKey{parent.key}, parent.iova + offset, length, AccessFlags(access)});
  if (status != Status::kOk) return;

  const bool type1 = windows_[window].type == WindowType::kType1;
  UROCE_REQUIRE(type1 ? !zero_based : !grant.valid && length != 0);
  grant.key = next.value;
  windows_[window].region.reset();
  grant.valid = false;
  if (length == 0) return;
  UROCE_REQUIRE(parent.valid && parent.pd == kOurPd && (parent.access & A::kWindowBind) != 0);
  UROCE_REQUIRE((access & kModifies) == 0 || (parent.access & A::kLocalWrite) != 0);
  UROCE_REQUIRE(offset <= parent.length && length <= parent.length - offset);
  windows_[window].region = region;
  grant.valid = true;
  grant.pd = kOurPd;
  grant.access = access;
  grant.iova = zero_based ? 0 : parent.iova + offset;
  grant.length = length;
  grant.bytes = parent.bytes + offset;
  grant.only_for = type1 ? std::nullopt : std::optional(qpn);
}

FuzzMemory::Grant* FuzzMemory::Find(uint32_t key) {
  const auto found = std::ranges::find_if(
      grants_, [key](const Grant& grant) { return grant.valid && grant.key == key; });
  return found == grants_.end() ? nullptr : &*found;
}

bool FuzzMemory::Invalidate(RKey key, Qpn qpn) {
  Grant* grant = Find(key.value);
  if (grant == nullptr || !grant->is_window || grant->only_for != qpn) return false;
  grant->valid = false;
  windows_[grant - &grants_[kRegions]].region.reset();
  return true;
}

bool FuzzMemory::Permits(PdId pd, Qpn qpn, RKey key, uint32_t wanted) {
  const Grant* grant = Find(key.value);
  if (grant == nullptr || grant->pd != pd || (grant->access & wanted) != wanted) return false;
  return !grant->only_for || *grant->only_for == qpn;
}

uint8_t* FuzzMemory::Remote(PdId pd, Qpn qpn, RKey key, uint64_t address, uint64_t length,
                            uint32_t wanted) {
  if (!Permits(pd, qpn, key, wanted)) return nullptr;
  const Grant* grant = Find(key.value);
  const uint64_t offset = address - grant->iova;
  if (offset > grant->length || length > grant->length - offset) return nullptr;
  return grant->bytes + offset;
}

uint8_t* FuzzMemory::Local(PdId pd, LKey key, uint64_t address, uint64_t length, uint32_t wanted) {
  const Grant* grant = Find(key.value);
  if (grant == nullptr || grant->is_window) return nullptr;
  return Remote(pd, Qpn{}, RKey{key.value}, address, length, wanted);
}

void FuzzMemory::Expect(uint8_t* to, std::span<const uint8_t> bytes) {
  if (bytes.empty()) return;
  UROCE_REQUIRE(to >= bytes_.data() && to + bytes.size() <= bytes_.data() + bytes_.size());
  std::memcpy(&shadow_[to - bytes_.data()], bytes.data(), bytes.size());
}

uint64_t FuzzMemory::ExpectedWord(const uint8_t* at) const {
  uint64_t word;
  std::memcpy(&word, &shadow_[at - bytes_.data()], sizeof word);
  return word;
}

void FuzzMemory::RequireAsExpected() const { UROCE_REQUIRE(bytes_ == shadow_); }

}  // namespace uroce::transport
