#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "transport/access.h"
#include "transport/ids.h"
#include "transport/memory/memory_table.h"
#include "transport/work_request.h"

namespace uroce::transport {

inline constexpr PdId kOurPd{1};
inline constexpr PdId kOtherPd{2};

// The memory that an endpoint under test works on: small regions with every kind of access, guards
// between them, and a shadow that holds the expected bytes of both. Tracks regions and windows
// independently of the endpoint's own table.
class FuzzMemory {
 public:
  static constexpr size_t kRegions = 7;
  static constexpr size_t kWindows = 3;
  static constexpr size_t kRegionBytes = 2'048;
  static constexpr size_t kOthers = 5;           // of another protection domain
  static constexpr size_t kHuge = kRegions - 1;  // longer than any message; reads as zeros

  explicit FuzzMemory(MemoryTable& table);

  // The access that one key gives.
  struct Grant {
    bool valid = false;
    uint32_t key = 0;
    PdId pd;
    uint32_t access = 0;
    uint64_t iova = 0;
    uint64_t length = 0;
    uint8_t* bytes = nullptr;
    bool is_window = false;
    std::optional<Qpn> only_for{};  // bound windows of type 2
  };
  // Regions first, then windows.
  const Grant& grant(size_t index) const { return grants_[index % grants_.size()]; }
  static constexpr size_t kGrants = kRegions + kWindows;

  // Registers and deregisters by turns.
  void ToggleRegion(size_t index);
  // Through the table, as a bind request of `qpn` does. A length of 0 unbinds.
  void BindWindow(size_t window, Qpn qpn, size_t region, uint64_t offset, uint64_t length,
                  uint32_t access);
  // An incoming send with invalidate, or a local invalidate, of `qpn` was carried out. False if it
  // must not be: only a bound window of type 2 of the same queue pair may be invalidated.
  bool Invalidate(RKey key, Qpn qpn);

  // The bytes that a permitted access reaches; nullptr if the access must not be permitted.
  uint8_t* Remote(PdId pd, Qpn qpn, RKey key, uint64_t address, uint64_t length, uint32_t wanted);
  // Whether the peer must be permitted the whole range that the key names.
  bool Permits(PdId pd, Qpn qpn, RKey key, uint32_t wanted);
  uint8_t* Local(PdId pd, LKey key, uint64_t address, uint64_t length, uint32_t wanted);

  // `bytes` was written at `to`, which lies in a region.
  void Expect(uint8_t* to, std::span<const uint8_t> bytes);
  // The expected eight bytes at `at`, in host byte order.
  uint64_t ExpectedWord(const uint8_t* at) const;
  // Every byte, the guards included, must be as expected.
  void RequireAsExpected() const;

 private:
  static constexpr size_t kGuardBytes = 64;
  static constexpr size_t kSlotBytes = kRegionBytes + kGuardBytes;

  struct Window {
    WindowType type = WindowType::kType1;
    std::optional<size_t> region;  // that it is bound to
  };

  uint8_t* BytesOf(size_t region);
  Grant* Find(uint32_t key);

  MemoryTable& table_;
  std::vector<uint8_t> bytes_;  // guard, region, guard, region, ..., guard
  std::vector<uint8_t> shadow_;
  std::array<Grant, kGrants> grants_;
  std::array<Window, kWindows> windows_;
};

}  // namespace uroce::transport
