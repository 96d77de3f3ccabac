#include "dpdk_nic/port/dpdk/pci_nic.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "dpdk_nic/base/unique_fd.h"

namespace uroce::nic {
namespace {

using std::filesystem::path;

constexpr char kNetworkClass[] = "0x02";  // of "0x020000": base class, sub-class, interface
constexpr char kVirtioVendor[] = "0x1af4";
constexpr char kVfio[] = "vfio-pci";
constexpr char kUioGeneric[] = "uio_pci_generic";
constexpr char kUioIntel[] = "igb_uio";
constexpr uint64_t kMib = 1 << 20;
constexpr uint64_t kHugepageBytes = 2 * kMib;

std::string FirstLine(const path& file) {
  std::string line;
  std::getline(std::ifstream(file), line);
  return line;
}

uint64_t ReadNumber(const path& file) { return strtoull(FirstLine(file).c_str(), nullptr, 10); }

// The last part of what the link points to; empty if there is no link.
std::string LinkedName(const path& link) {
  std::error_code error;
  return std::filesystem::read_symlink(link, error).filename();
}

std::string HowToBind(const std::string& address, const std::string& driver) {
  return "bind it to " + driver + " ('dpdk-devbind.py --bind=" + driver + " " + address + "')";
}

std::string UioNode(const path& device) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(device / "uio", error)) {
    return "/dev/" + entry.path().filename().string();
  }
  return "/dev/uio";
}

std::string NotBound(const std::string& address, const std::string& driver, bool has_iommu) {
  const std::string state = driver.empty() ? address + " has no driver"
                                           : address + " is driven by the kernel's " + driver;
  if (has_iommu) return state + ": " + HowToBind(address, kVfio);
  return state + ", and no IOMMU is in use: " + HowToBind(address, kUioGeneric) +
         ", or switch the IOMMU on (intel_iommu=on or amd_iommu=on on the kernel's command line) "
         "and bind it to " +
         kVfio;
}

struct Hugepages {
  uint64_t free_bytes = 0;
  uint64_t default_pages = 0;  // reserved, of 2 MiB
};

Hugepages LookForHugepages(const std::string& root) {
  constexpr std::string_view kPrefix = "hugepages-";  // hugepages-2048kB
  Hugepages found;
  std::error_code error;
  const path folder = root + "/sys/kernel/mm/hugepages";
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    const uint64_t page_bytes = strtoull(&name[kPrefix.size()], nullptr, 10) * 1'024;
    found.free_bytes += page_bytes * ReadNumber(entry.path() / "free_hugepages");
    if (page_bytes == kHugepageBytes)
      found.default_pages = ReadNumber(entry.path() / "nr_hugepages");
  }
  return found;
}

// The kernel shows page frame number 0 to a process that must not know the number.
bool SeesPhysicalAddresses(const std::string& root) {
  constexpr uint64_t kFrameNumberMask = (uint64_t{1} << 55) - 1;  // pagemap.rst
  const volatile char touched = 1;
  const uint64_t page =
      reinterpret_cast<uintptr_t>(&touched) / static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const UniqueFd file(open((root + "/proc/self/pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  uint64_t entry = 0;
  const auto at = static_cast<off_t>(page * sizeof entry);
  return file && pread(file.get(), &entry, sizeof entry, at) == sizeof entry &&
         (entry & kFrameNumberMask) != 0;
}

std::string Mib(uint64_t bytes) { return std::to_string(bytes / kMib) + " MiB"; }

}  // namespace

ErrorOr<PciNic> PciNic::Find(const std::string& address, const std::string& root) {
  PciNic nic(address, root);
  Error error;
  if (!nic.CheckDriver(&error.sentence)) return error;
  return nic;
}

bool PciNic::CheckDriver(std::string* error) {
  const path device = path(root_ + "/sys/bus/pci/devices") / address_;
  std::error_code failure;
  if (!std::filesystem::exists(device, failure)) {
    *error = "there is no PCI device " + address_ + "; 'lspci -D' lists those that there are";
    return false;
  }
  if (!FirstLine(device / "class").starts_with(kNetworkClass)) {
    *error = address_ + " is not a network device; 'lspci -D' tells which are";
    return false;
  }
  const std::string driver = LinkedName(device / "driver");
  const std::string group = LinkedName(device / "iommu_group");
  const path group_folder = path(root_ + "/sys/kernel/iommu_groups") / group;
  const bool has_iommu = !group.empty() && FirstLine(group_folder / "name") != "vfio-noiommu";
  if (driver == kVfio) {
    // A virtio NIC whose hypervisor does not offer VIRTIO_F_ACCESS_PLATFORM bypasses the IOMMU.
    // Physical addresses are right both ways, as the IOMMU then translates them to themselves.
    needs_physical_addresses_ = !has_iommu || FirstLine(device / "vendor") == kVirtioVendor;
    *error = FindForbidden((has_iommu ? "/dev/vfio/" : "/dev/vfio/noiommu-") + group);
  } else if (driver == kUioGeneric || driver == kUioIntel) {
    needs_physical_addresses_ = true;
    if (has_iommu && FirstLine(group_folder / "type") != "identity") {
      *error = address_ + " is behind an IOMMU, which " + driver +
               " does not program: " + HowToBind(address_, kVfio);
    } else {
      *error = FindForbidden(UioNode(device));
    }
  } else {
    *error = NotBound(address_, driver, has_iommu);
  }
  return error->empty();
}

// Explains why the device file of the NIC cannot be opened; empty if it can. Does not open the
// file: a group of VFIO can be open once only.
std::string PciNic::FindForbidden(const std::string& node) const {
  if (access((root_ + node).c_str(), R_OK | W_OK) == 0) return {};
  return address_ + " needs " + node + ", which cannot be opened (" + strerror(errno) +
         "): 'chown' the file to this user, or give it to the container";
}

std::string PciNic::FindMissingMemory(uint64_t bytes) const {
  const std::string need =
      address_ + " needs physical addresses, as no IOMMU is sure to translate others for it";
  if (!SeesPhysicalAddresses(root_)) {
    return need + ", and only root sees those: start this as root, or use an IOMMU and vfio-pci";
  }
  const Hugepages there = LookForHugepages(root_);
  if (there.free_bytes >= bytes) return {};
  const uint64_t missing_pages = (bytes - there.free_bytes + kHugepageBytes - 1) / kHugepageBytes;
  return need + ", and so " + Mib(bytes) + " of hugepages, of which " + Mib(there.free_bytes) +
         " are free: 'sysctl vm.nr_hugepages=" +
         std::to_string(there.default_pages + missing_pages) + "'";
}

}  // namespace uroce::nic
