#include "verbs_provider/virtual_kernel/device/device_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cctype>
#include <iterator>
#include <optional>
#include <string>

#include "tests/verbs_provider/virtual_kernel/test_description.h"

namespace uroce::verbs::virtual_kernel {
namespace {

using ::testing::ElementsAre;

class DeviceTreeTest : public testing::Test {
 protected:
  DeviceTreeTest() {
    uroce_device_description description = {};
    DescribeTestDevice(description);
    tree_ = MakeDeviceTree(description, true);
  }

  std::string Content(const std::string& path) const {
    const TreeNode* node = tree_.Find(tree_.Walk(path, true).path);
    return node == nullptr ? "(no such file)" : node->content;
  }
  std::string OfDevice(const std::string& name) const {
    return Content("/sys/class/infiniband/uroce0/" + name);
  }

  VirtualTree tree_;
};

TEST_F(DeviceTreeTest, DeviceAttributesReadAsTheKernelWritesThem) {
  EXPECT_EQ(OfDevice("node_type"), "1: CA\n");
  EXPECT_EQ(OfDevice("node_guid"), "02aa:bbff:fe00:0001\n");
  EXPECT_EQ(OfDevice("sys_image_guid"), "02aa:bbff:fe00:0002\n");
  EXPECT_EQ(OfDevice("fw_ver"), "test-1\n");
  EXPECT_EQ(OfDevice("node_desc"), "test node\n");
  EXPECT_EQ(OfDevice("board_id"), "uroce\n");
  EXPECT_EQ(OfDevice("device/vendor"), "0xfeed\n");
}

TEST_F(DeviceTreeTest, BusDeviceHasThePciAttributesThatProgramsRead) {
  EXPECT_EQ(OfDevice("device/class"), "0x020000\n");
  EXPECT_EQ(OfDevice("device/subsystem_device"), "0x0001\n");
  EXPECT_EQ(OfDevice("device/numa_node"), "-1\n");
  EXPECT_EQ(OfDevice("device/max_link_speed"), "16.0 GT/s PCIe\n");
  EXPECT_EQ(OfDevice("device/max_link_width"), "16\n");
  EXPECT_EQ(OfDevice("device/net/lo/ifindex"), "1\n");
  EXPECT_THAT(tree_.List("/sys/devices/uroce0/net"), ElementsAre("lo"));
  const long processors = sysconf(_SC_NPROCESSORS_CONF);
  const std::string mask = OfDevice("device/local_cpus");
  long bits = 0;
  for (const char digit : mask) {
    if (isxdigit(digit) != 0)
      bits += __builtin_popcountl(std::stoul(std::string(1, digit), nullptr, 16));
  }
  EXPECT_EQ(bits, processors) << mask;
  EXPECT_EQ(OfDevice("device/local_cpulist"),
            processors == 1 ? "0\n" : "0-" + std::to_string(processors - 1) + "\n");
}

TEST_F(DeviceTreeTest, PortAttributesReadAsTheKernelWritesThem) {
  EXPECT_EQ(OfDevice("ports/1/state"), "4: ACTIVE\n");
  EXPECT_EQ(OfDevice("ports/1/phys_state"), "5: LinkUp\n");
  EXPECT_EQ(OfDevice("ports/1/link_layer"), "Ethernet\n");
  EXPECT_EQ(OfDevice("ports/1/rate"), "100 Gb/sec\n");
  EXPECT_EQ(OfDevice("ports/1/cap_mask"), "0x04010000\n");
  EXPECT_EQ(OfDevice("ports/1/lid"), "0x0\n");
}

TEST_F(DeviceTreeTest, TablesHaveOneFileARow) {
  EXPECT_EQ(OfDevice("ports/1/pkeys/0"), "0xffff\n");
  EXPECT_EQ(OfDevice("ports/1/pkeys/1"), "(no such file)");
  EXPECT_EQ(OfDevice("ports/1/gids/0"), "fe80:0000:0000:0000:02aa:bbff:fe00:0001\n");
  EXPECT_EQ(OfDevice("ports/1/gids/1"), "0000:0000:0000:0000:0000:ffff:7f00:0001\n");
  EXPECT_EQ(OfDevice("ports/1/gid_attrs/types/1"), "RoCE v2\n");
  EXPECT_EQ(OfDevice("ports/1/gid_attrs/ndevs/1"), "lo\n");
}

TEST_F(DeviceTreeTest, EmptyGidRowIsZerosWithoutAttributes) {
  EXPECT_EQ(OfDevice("ports/1/gids/3"), "0000:0000:0000:0000:0000:0000:0000:0000\n");
  EXPECT_EQ(OfDevice("ports/1/gid_attrs/types/3"), "(no such file)");
  EXPECT_EQ(OfDevice("ports/1/gids/4"), "(no such file)");
}

TEST_F(DeviceTreeTest, GidWithoutANetworkInterfaceNamesNone) {
  uroce_device_description description = {};
  DescribeTestDevice(description);
  description.gids[1].netdev_name[0] = '\0';
  tree_ = MakeDeviceTree(description, true);
  EXPECT_EQ(OfDevice("ports/1/gid_attrs/ndevs/0"), "lo\n");
  EXPECT_EQ(OfDevice("ports/1/gid_attrs/ndevs/1"), "(no such file)");
  EXPECT_EQ(OfDevice("ports/1/gid_attrs/types/1"), "RoCE v2\n");
}

TEST_F(DeviceTreeTest, UverbsNodeAndItsClassAgree) {
  const TreeNode* node = tree_.Find("/dev/infiniband/uverbs900");
  ASSERT_NE(node, nullptr);
  struct stat status;
  tree_.Stat("/dev/infiniband/uverbs900", *node, &status);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  EXPECT_EQ(
      Content("/sys/class/infiniband_verbs/uverbs900/dev"),
      std::to_string(major(status.st_rdev)) + ":" + std::to_string(minor(status.st_rdev)) + "\n");
  EXPECT_EQ(Content("/sys/class/infiniband_verbs/uverbs900/ibdev"), "uroce0\n");
  EXPECT_EQ(Content("/sys/class/infiniband_verbs/abi_version"), "6\n");
}

TEST_F(DeviceTreeTest, DirectoriesListTheirOwnNamesOnly) {
  EXPECT_THAT(tree_.List("/sys/class/infiniband"), ElementsAre("uroce0"));
  EXPECT_THAT(tree_.List("/sys/devices/uroce0/infiniband/uroce0/ports/1/gids"),
              ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(tree_.List("/dev/infiniband"), ElementsAre("rdma_cm", "uverbs900"));
}

TEST_F(DeviceTreeTest, RdmaCmNodeAndItsClassAgree) {
  const TreeNode* node = tree_.Find("/dev/infiniband/rdma_cm");
  ASSERT_NE(node, nullptr);
  struct stat status;
  tree_.Stat("/dev/infiniband/rdma_cm", *node, &status);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  EXPECT_EQ(
      Content("/sys/class/misc/rdma_cm/dev"),
      std::to_string(major(status.st_rdev)) + ":" + std::to_string(minor(status.st_rdev)) + "\n");
  EXPECT_EQ(Content("/sys/class/misc/rdma_cm/abi_version"), "4\n");
}

TEST_F(DeviceTreeTest, HasNoRdmaCmIfTheProviderHasNone) {
  uroce_device_description description = {};
  DescribeTestDevice(description);
  const VirtualTree tree = MakeDeviceTree(description, false);
  EXPECT_EQ(tree.Find("/dev/infiniband/rdma_cm"), nullptr);
  EXPECT_EQ(tree.Find("/sys/class/misc/rdma_cm/abi_version"), nullptr);
}

TEST_F(DeviceTreeTest, CountersOfTheProviderAreFilesOfThePort) {
  uroce_device_description description = {};
  DescribeTestDevice(description);
  const auto file = [](uint32_t index) -> const char* {
    constexpr const char* kFiles[] = {"counters/port_xmit_data", "hw_counters/out_of_sequence"};
    return index < std::size(kFiles) ? kFiles[index] : nullptr;
  };
  const VirtualTree tree = MakeDeviceTree(description, false, +file);
  const std::string port = "/sys/devices/uroce0/infiniband/uroce0/ports/1/";
  EXPECT_THAT(tree.List(port + "counters"), ElementsAre("port_xmit_data"));
  const TreeNode* node = tree.Find(port + "hw_counters/out_of_sequence");
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(node->counter, 1u);
  EXPECT_EQ(tree.Find(port + "state")->counter, std::nullopt);
}

TEST_F(DeviceTreeTest, ClassesHoldSymbolicLinks) {
  const struct {
    const char* path;
    const char* leads_to;
  } rows[] = {
      {"/sys/class/infiniband/uroce0", "/sys/devices/uroce0/infiniband/uroce0"},
      {"/sys/class/infiniband/uroce0/device", "/sys/devices/uroce0"},
      {"/sys/class/infiniband/uroce0/subsystem", "/sys/class/infiniband"},
      {"/sys/class/infiniband_verbs/uverbs900", "/sys/devices/uroce0/infiniband_verbs/uverbs900"},
      {"/sys/class/infiniband_verbs/uverbs900/device/infiniband/uroce0",
       "/sys/devices/uroce0/infiniband/uroce0"},
      {"/sys/class/net/lo/device/infiniband/uroce0", "/sys/devices/uroce0/infiniband/uroce0"},
  };
  for (const auto& [path, leads_to] : rows) {
    EXPECT_EQ(tree_.Walk(path, true).path, leads_to) << path;
    EXPECT_NE(tree_.Find(leads_to), nullptr) << path;
  }
}

TEST(VirtualTreeTest, WalkRemovesRedundantSlashesAndDots) {
  VirtualTree tree;
  tree.AddDirectory("/a/b");
  const auto walk = [&](const char* path) { return tree.Walk(path, true).path; };
  EXPECT_EQ(walk("/a/b/"), "/a/b");
  EXPECT_EQ(walk("//a///./b/."), "/a/b");
  EXPECT_EQ(walk("/a/b/../x"), "/a/x");
  EXPECT_EQ(walk("/x/../a/b"), "/a/b");
  EXPECT_EQ(walk("/.."), "/");
  EXPECT_EQ(walk("/"), "/");
}

TEST(VirtualTreeTest, WalkFollowsSymbolicLinks) {
  VirtualTree tree;
  tree.AddFile("/far/file", "x");
  tree.AddSymlink("/near/link", "../far");
  tree.AddSymlink("/near/absolute", "/far");
  EXPECT_EQ(tree.Walk("/near/link/file", false).path, "/far/file");
  EXPECT_EQ(tree.Walk("/near/absolute/file", false).path, "/far/file");
  EXPECT_EQ(tree.Walk("/near/link", true).path, "/far");
  EXPECT_EQ(tree.Walk("/near/link", false).path, "/near/link");
  EXPECT_EQ(tree.Walk("/near/link/", false).path, "/far");
  EXPECT_EQ(tree.Walk("/near/link/..", false).path, "/");
}

TEST(VirtualTreeTest, WalkTellsWhetherThePathLedThroughTheTree) {
  VirtualTree tree;
  tree.AddSymlink("/a/link", "/b");
  EXPECT_TRUE(tree.Walk("/a/../c", true).left_tree);
  EXPECT_TRUE(tree.Walk("/a/link/c", true).left_tree);
  EXPECT_FALSE(tree.Walk("/c/../d", true).left_tree);
  EXPECT_FALSE(tree.Walk("/a/c", true).left_tree);
}

TEST(VirtualTreeTest, LinksInACircleEnd) {
  VirtualTree tree;
  tree.AddSymlink("/a", "/b");
  tree.AddSymlink("/b", "/a");
  EXPECT_TRUE(tree.Walk("/a", true).is_loop);
}

}  // namespace
}  // namespace uroce::verbs::virtual_kernel
