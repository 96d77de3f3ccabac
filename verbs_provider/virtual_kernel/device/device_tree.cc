#include "verbs_provider/virtual_kernel/device/device_tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "verbs_provider/virtual_kernel/device/device.h"

namespace uroce::verbs::virtual_kernel {
namespace {

// No std::string here: a constructor of another library may need the tree before ours have run.
constexpr char kClassPath[] = "/sys/class/infiniband";
constexpr char kVerbsClassPath[] = "/sys/class/infiniband_verbs";
constexpr char kDevPath[] = "/dev/infiniband";
constexpr char kMiscPath[] = "/sys/class/misc";

__attribute__((format(printf, 1, 2))) std::string Format(const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return text;
}

std::string FormatGuid(uint64_t guid) {
  return Format("%04x:%04x:%04x:%04x\n", static_cast<unsigned int>(guid >> 48),
                static_cast<unsigned int>(guid >> 32 & 0xffff),
                static_cast<unsigned int>(guid >> 16 & 0xffff),
                static_cast<unsigned int>(guid & 0xffff));
}

std::string FormatGid(const uroce_gid& gid) {
  std::string text;
  for (size_t at = 0; at < sizeof(gid.raw); at += 2) {
    text += Format("%02x%02x%c", gid.raw[at], gid.raw[at + 1], at == 14 ? '\n' : ':');
  }
  return text;
}

// A mask of the first `processors` processors as the kernel prints it: groups of 32, the last group
// first.
std::string FormatProcessorMask(unsigned int processors) {
  std::string text;
  for (unsigned int first = (processors - 1) / 32 * 32;; first -= 32) {
    const unsigned int bits = std::min(processors - first, 32U);
    const uint32_t mask = bits == 32 ? UINT32_MAX : (uint32_t{1} << bits) - 1;
    text += text.empty() ? Format("%x", mask) : Format(",%08x", mask);
    if (first == 0) return text + '\n';
  }
}

bool IsEmpty(const uroce_gid& gid) {
  return std::all_of(std::begin(gid.raw), std::end(gid.raw),
                     [](uint8_t byte) { return byte == 0; });
}

const char* PortStateName(uint8_t state) {
  static constexpr const char* kNames[] = {"NOP",   "DOWN",   "INIT",
                                           "ARMED", "ACTIVE", "ACTIVE_DEFER"};
  return state < std::size(kNames) ? kNames[state] : "UNKNOWN";
}

const char* PhysicalStateName(uint8_t state) {
  static constexpr const char* kNames[] = {"",
                                           "Sleep",
                                           "Polling",
                                           "Disabled",
                                           "PortConfigurationTraining",
                                           "LinkUp",
                                           "LinkErrorRecovery",
                                           "Phy Test"};
  return state < std::size(kNames) ? kNames[state] : "<unknown>";
}

void AddTables(const uroce_device_description& description, const std::string& port,
               VirtualTree& tree) {
  for (uint32_t index = 0; index < description.pkey_count; ++index) {
    tree.AddFile(port + "/pkeys/" + std::to_string(index),
                 Format("0x%04x\n", description.pkeys[index]));
  }
  tree.AddDirectory(port + "/gid_attrs/types");
  tree.AddDirectory(port + "/gid_attrs/ndevs");
  for (uint32_t index = 0; index < description.gid_count; ++index) {
    const uroce_gid& gid = description.gids[index];
    const std::string name = std::to_string(index);
    tree.AddFile(port + "/gids/" + name, FormatGid(gid));
    if (IsEmpty(gid)) continue;
    tree.AddFile(port + "/gid_attrs/types/" + name, "RoCE v2\n");
    if (gid.netdev_name[0] != '\0') {
      tree.AddFile(port + "/gid_attrs/ndevs/" + name, Format("%.15s\n", gid.netdev_name));
    }
  }
}

void AddPort(const uroce_device_description& description, const std::string& port,
             VirtualTree& tree) {
  tree.AddFile(port + "/state",
               Format("%u: %s\n", description.port_state, PortStateName(description.port_state)));
  tree.AddFile(port + "/phys_state", Format("%u: %s\n", description.port_phys_state,
                                            PhysicalStateName(description.port_phys_state)));
  tree.AddFile(port + "/link_layer", "Ethernet\n");
  tree.AddFile(port + "/rate", Format("%u Gb/sec\n", description.rate_mbps / 1000));
  tree.AddFile(port + "/cap_mask", Format("0x%08x\n", description.port_cap_flags));
  // Subnet management does not exist on Ethernet; the kernel shows zeros.
  tree.AddFile(port + "/lid", "0x0\n");
  tree.AddFile(port + "/lid_mask_count", "0\n");
  tree.AddFile(port + "/sm_lid", "0x0\n");
  tree.AddFile(port + "/sm_sl", "0\n");
  AddTables(description, port, tree);
}

// The attributes of a PCI function that programs read: UCX and libfabric its numbers, MPI libraries
// and NCCL the processors near it, scripts the network interface. The device has no PCI function;
// the missing `subsystem` tells NCCL so.
void AddBusDevice(const uroce_device_description& description, VirtualTree& tree) {
  const std::string device = kBusPath;
  const std::string vendor = Format("0x%04x\n", description.vendor_id);
  const std::string part = Format("0x%04x\n", description.vendor_part_id);
  tree.AddFile(device + "/vendor", vendor);
  tree.AddFile(device + "/device", part);
  tree.AddFile(device + "/subsystem_vendor", vendor);
  tree.AddFile(device + "/subsystem_device", part);
  tree.AddFile(device + "/class", "0x020000\n");  // an Ethernet controller
  tree.AddFile(device + "/revision", "0x00\n");
  tree.AddFile(device + "/numa_node", "-1\n");
  // PCI Express 4.0 with 16 lanes carries the rate that the port shows.
  for (const char* which : {"current", "max"}) {
    tree.AddFile(device + '/' + which + "_link_speed", "16.0 GT/s PCIe\n");
    tree.AddFile(device + '/' + which + "_link_width", "16\n");
  }
  const auto processors = static_cast<unsigned int>(sysconf(_SC_NPROCESSORS_CONF));
  tree.AddFile(device + "/local_cpulist",
               processors == 1 ? "0\n" : Format("0-%u\n", processors - 1));
  tree.AddFile(device + "/local_cpus", FormatProcessorMask(processors));
  for (uint32_t index = 0; index < description.gid_count; ++index) {
    const uroce_gid& gid = description.gids[index];
    if (gid.netdev_ifindex == 0) continue;
    const std::string net = Format("/net/%.15s", gid.netdev_name);
    tree.AddFile(device + net + "/ifindex", Format("%u\n", gid.netdev_ifindex));
    tree.AddFile(device + net + "/dev_port", "0\n");
    tree.AddSymlink(std::string("/sys/class") + net + "/device/infiniband", device + "/infiniband");
  }
}

void AddRdmaCm(VirtualTree& tree) {
  tree.AddCharDevice(std::string(kDevPath) + "/" + kRdmaCmName,
                     makedev(kUverbsMajor, kRdmaCmMinor));
  const std::string misc = std::string(kMiscPath) + "/" + kRdmaCmName;
  tree.AddFile(misc + "/abi_version", Format("%u\n", kRdmaCmAbi));
  tree.AddFile(misc + "/dev", Format("%u:%u\n", kUverbsMajor, kRdmaCmMinor));
}

}  // namespace

VirtualTree MakeDeviceTree(const uroce_device_description& description, bool has_rdma_cm,
                           decltype(&uroce_counter_file) counter_file) {
  VirtualTree tree;
  if (has_rdma_cm) AddRdmaCm(tree);
  const dev_t uverbs = makedev(kUverbsMajor, kUverbsMinor);
  tree.AddCharDevice(std::string(kDevPath) + "/" + kUverbsName, uverbs);

  const std::string bus = kBusPath;
  const std::string to_bus = std::string("../../devices/") + kDeviceName;  // from a class
  const std::string verbs = bus + "/infiniband_verbs/" + kUverbsName;
  tree.AddSymlink(std::string(kVerbsClassPath) + "/" + kUverbsName,
                  to_bus + "/infiniband_verbs/" + kUverbsName);
  tree.AddSymlink(verbs + "/device", std::string("../../../") + kDeviceName);
  tree.AddSymlink(verbs + "/subsystem", "../../../../class/infiniband_verbs");
  tree.AddFile(std::string(kVerbsClassPath) + "/abi_version", Format("%u\n", kUverbsClassAbi));
  tree.AddFile(verbs + "/ibdev", Format("%s\n", kDeviceName));
  tree.AddFile(verbs + "/dev", Format("%u:%u\n", kUverbsMajor, kUverbsMinor));
  tree.AddFile(verbs + "/abi_version", Format("%u\n", kUverbsDeviceAbi));

  const std::string device = bus + "/infiniband/" + kDeviceName;
  tree.AddSymlink(std::string(kClassPath) + "/" + kDeviceName,
                  to_bus + "/infiniband/" + kDeviceName);
  tree.AddSymlink(device + "/device", std::string("../../../") + kDeviceName);
  tree.AddSymlink(device + "/subsystem", "../../../../class/infiniband");
  tree.AddFile(device + "/node_type", "1: CA\n");
  tree.AddFile(device + "/node_guid", FormatGuid(description.node_guid));
  tree.AddFile(device + "/sys_image_guid", FormatGuid(description.sys_image_guid));
  tree.AddFile(device + "/fw_ver", Format("%.63s\n", description.fw_version));
  tree.AddFile(device + "/hca_type", Format("%s\n", kDeviceType));
  tree.AddFile(device + "/board_id", Format("%s\n", kDeviceType));
  tree.AddFile(device + "/hw_rev", "0x0\n");
  tree.AddFile(device + "/node_desc", Format("%.63s\n", description.node_description));
  AddBusDevice(description, tree);
  const std::string port = device + "/ports/1";
  AddPort(description, port, tree);
  for (uint32_t i = 0; counter_file != nullptr && counter_file(i) != nullptr; ++i) {
    tree.AddCounter(port + '/' + counter_file(i), i);
  }
  return tree;
}

}  // namespace uroce::verbs::virtual_kernel
