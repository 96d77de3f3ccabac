#pragma once

#include <cstdint>
#include <string>

#include "dpdk_nic/base/error_or.h"

namespace uroce::nic {

// A PCI NIC as sysfs shows it, checked before DPDK opens it: DPDK logs the same failure for a NIC
// with a kernel driver, a VFIO group of another user and a missing IOMMU.
class PciNic {
 public:
  // Fails if DPDK could not open the NIC; the error says what to do. `address` is with its domain,
  // as in "0000:3b:00.0"; `root` stands in front of /sys, /proc and /dev in tests.
  static ErrorOr<PciNic> Find(const std::string& address, const std::string& root = "");

  // Whether DMA needs physical addresses, because no IOMMU is sure to translate others.
  bool needs_physical_addresses() const { return needs_physical_addresses_; }

  // Why there cannot be `bytes` of memory with known physical addresses; empty if there can. Such
  // memory is hugepages, which the kernel does not move.
  std::string FindMissingMemory(uint64_t bytes) const;

 private:
  PciNic(const std::string& address, const std::string& root) : address_(address), root_(root) {}
  bool CheckDriver(std::string* error);
  std::string FindForbidden(const std::string& node) const;

  std::string address_;
  std::string root_;
  bool needs_physical_addresses_ = false;
};

}  // namespace uroce::nic
