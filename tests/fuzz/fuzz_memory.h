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

// The memory that an endpoint under test works on: small regions of every kind of access with
// guards between them, and a shadow of all of it that holds what should be there. Regions and
// windows are kept track of independently of the endpoint's own table.
class FuzzMemory {
 public:
  static constexpr size_t kRegions = 7;
  static constexpr size_t kWindows = 3;
  static constexpr size_t kRegionBytes = 2'048;
  static constexpr size_t kOthers = 5;           // of another protection domain
  static constexpr size_t kHuge = kRegions - 1;  // longer than any message; reads as zeros

  explicit FuzzMemory(MemoryTable& table);

  // What one key opens.
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

  // Register and deregister by turns.
  void ToggleRegion(size_t index);
  // Through the table, as a bind request of `qpn` does. A length of 0 unbinds.
  void BindWindow(size_t window, Qpn qpn, size_t region, uint64_t offset, uint64_t length,
                  uint32_t access);
  // A send with invalidate of the peer of `qpn`, or a local invalidate, was carried out. False if
  // it should not be: only a bound window of type 2 of the same queue pair may be invalidated.
  bool Invalidate(RKey key, Qpn qpn);

  // Where an access lands that should be permitted; nullptr if it should not be.
  uint8_t* Remote(PdId pd, Qpn qpn, RKey key, uint64_t address, uint64_t length, uint32_t wanted);
  // Whether the peer should be permitted it for the whole of what the key names.
  bool Permits(PdId pd, Qpn qpn, RKey key, uint32_t wanted);
  uint8_t* Local(PdId pd, LKey key, uint64_t address, uint64_t length, uint32_t wanted);

  // `to` lies in a region: what was written there.
  void Expect(uint8_t* to, std::span<const uint8_t> bytes);
  // What is expected in the eight bytes at `at`, in host byte order.
  uint64_t ExpectedWord(const uint8_t* at) const;
  // Every byte, the guards included, is as it should be.
  void RequireAsExpected() const;

 private:
  static constexpr size_t kGuardBytes = 64;
  static constexpr size_t kSlotBytes = kRegionBytes + kGuardBytes;

  struct Window {
    WindowType type = WindowType::kType1;
    std::optional<size_t> region;  // it is bound to
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
