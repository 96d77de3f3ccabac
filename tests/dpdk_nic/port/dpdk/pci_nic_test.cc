#include "dpdk_nic/port/dpdk/pci_nic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace uroce::nic {
namespace {

using std::filesystem::path;
using ::testing::HasSubstr;

constexpr char kAddress[] = "0000:3b:00.0";
constexpr uint64_t kMib = 1 << 20;
constexpr uint64_t kPageMapBytes = uint64_t{1} << 39;  // of 8-byte entries for 2^48 bytes

// A machine with one PCI device, as its files show it.
class PciNicTest : public ::testing::Test {
 protected:
  PciNicTest() {
    std::string name = ::testing::TempDir() + "/machine-XXXXXX";
    root_ = mkdtemp(name.data());
    Write(device_ / "class", "0x020000\n");
    Write(device_ / "vendor", "0x8086\n");
  }
  ~PciNicTest() override { std::filesystem::remove_all(root_); }

  void Write(const path& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  void Link(const path& link, const path& target) {
    std::filesystem::create_symlink(target, root_ / link);
  }
  void BindTo(const std::string& driver) { Link(device_ / "driver", path("../drivers") / driver); }
  void PutInGroup(const std::string& type, const std::string& name = "") {
    Link(device_ / "iommu_group", "../kernel/iommu_groups/7");
    Write("sys/kernel/iommu_groups/7/type", type + "\n");
    if (!name.empty()) Write("sys/kernel/iommu_groups/7/name", name + "\n");
  }
  void GiveUio() {
    BindTo("uio_pci_generic");
    Write(device_ / "uio/uio4/name", "uio_pci_generic\n");
    Write("dev/uio4", "");
  }
  // Makes /proc/self/pagemap read as zeros, as an unprivileged user sees page frame numbers.
  void HideFrameNumbers() {
    Write("proc/self/pagemap", "");
    std::filesystem::resize_file(root_ / "proc/self/pagemap", kPageMapBytes);
  }
  // Uses the genuine pagemap, which shows frame numbers only to privileged users.
  void ShowFrameNumbers() {
    std::filesystem::create_directories(root_ / "proc/self");
    Link("proc/self/pagemap", "/proc/self/pagemap");
  }

  ErrorOr<PciNic> Find(const std::string& address = kAddress) {
    return PciNic::Find(address, root_.string());
  }
  std::string Refusal() {
    const auto nic = Find();
    return nic.ok() ? "" : nic.error();
  }

  path root_;
  path device_ = path("sys/bus/pci/devices") / kAddress;
};

TEST_F(PciNicTest, AddressWithoutDeviceIsRefused) {
  EXPECT_EQ(Find("0000:00:1f.7").error(),
            "there is no PCI device 0000:00:1f.7; 'lspci -D' lists those that there are");
}

TEST_F(PciNicTest, NonNetworkDeviceIsRefused) {
  Write(device_ / "class", "0x010601\n");
  EXPECT_THAT(Refusal(), HasSubstr("is not a network device"));
}

TEST_F(PciNicTest, NicOfTheKernelBehindAnIommuIsToBeBoundToVfio) {
  BindTo("ixgbe");
  PutInGroup("DMA-FQ");
  EXPECT_EQ(Refusal(),
            "0000:3b:00.0 is driven by the kernel's ixgbe: bind it to vfio-pci "
            "('dpdk-devbind.py --bind=vfio-pci 0000:3b:00.0')");
}

TEST_F(PciNicTest, NicWithoutDriverOrIommuIsToBeBoundToUio) {
  EXPECT_THAT(Refusal(), HasSubstr("0000:3b:00.0 has no driver, and no IOMMU is in use: bind it to "
                                   "uio_pci_generic"));
}

TEST_F(PciNicTest, NicBehindAnIommuUsesVirtualAddresses) {
  BindTo("vfio-pci");
  PutInGroup("DMA-FQ");
  Write("dev/vfio/7", "");
  const auto nic = Find();
  ASSERT_TRUE(nic.ok()) << nic.error();
  EXPECT_FALSE(nic.value().needs_physical_addresses());
}

TEST_F(PciNicTest, VirtioMayGoPastTheIommu) {
  BindTo("vfio-pci");
  PutInGroup("DMA-FQ");
  Write("dev/vfio/7", "");
  Write(device_ / "vendor", "0x1af4\n");
  const auto nic = Find();
  ASSERT_TRUE(nic.ok()) << nic.error();
  EXPECT_TRUE(nic.value().needs_physical_addresses());
}

TEST_F(PciNicTest, VfioWithoutIommuUsesPhysicalAddresses) {
  BindTo("vfio-pci");
  PutInGroup("", "vfio-noiommu");
  EXPECT_THAT(Refusal(), HasSubstr("/dev/vfio/noiommu-7"));
  Write("dev/vfio/noiommu-7", "");
  const auto nic = Find();
  ASSERT_TRUE(nic.ok()) << nic.error();
  EXPECT_TRUE(nic.value().needs_physical_addresses());
}

TEST_F(PciNicTest, MissingVfioGroupIsNamed) {
  BindTo("vfio-pci");
  PutInGroup("DMA-FQ");
  EXPECT_THAT(Refusal(), HasSubstr("needs /dev/vfio/7, which cannot be opened (No such file"));
}

TEST_F(PciNicTest, UioUsesPhysicalAddresses) {
  GiveUio();
  const auto nic = Find();
  ASSERT_TRUE(nic.ok()) << nic.error();
  EXPECT_TRUE(nic.value().needs_physical_addresses());
}

TEST_F(PciNicTest, UioBehindAnIommuThatTranslatesIsRefused) {
  GiveUio();
  PutInGroup("DMA-FQ");
  EXPECT_THAT(Refusal(), HasSubstr("is behind an IOMMU, which uio_pci_generic does not program"));
}

TEST_F(PciNicTest, UioBehindAnIommuThatPassesThroughIsTaken) {
  GiveUio();
  PutInGroup("identity");
  EXPECT_EQ(Refusal(), "");
}

TEST_F(PciNicTest, HiddenPhysicalAddressesAreReported) {
  GiveUio();
  HideFrameNumbers();
  EXPECT_THAT(Find().value().FindMissingMemory(kMib), HasSubstr("only root sees those"));
}

TEST_F(PciNicTest, HugepagesAreCounted) {
  if (geteuid() != 0) GTEST_SKIP() << "only root sees physical addresses";
  GiveUio();
  ShowFrameNumbers();
  Write("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "3\n");
  Write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "5\n");
  EXPECT_EQ(Find().value().FindMissingMemory(6 * kMib), "");
  EXPECT_THAT(Find().value().FindMissingMemory(9 * kMib),
              HasSubstr("9 MiB of hugepages, of which 6 MiB are free: 'sysctl vm.nr_hugepages=7'"));
  Write("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "1\n");
  EXPECT_EQ(Find().value().FindMissingMemory(9 * kMib), "");
}

}  // namespace
}  // namespace uroce::nic
