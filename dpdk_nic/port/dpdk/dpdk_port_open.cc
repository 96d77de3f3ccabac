// Opening and closing a DpdkPort. The data path is in dpdk_port.cc.
#include <rte_mbuf.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "dpdk_nic/base/mtu.h"
#include "dpdk_nic/port/dpdk/dpdk_port.h"
#include "dpdk_nic/port/dpdk/eal/descriptor_shims.h"
#include "dpdk_nic/port/dpdk/eal/eal.h"
#include "dpdk_nic/port/dpdk/eal/xdp_shims.h"
#include "dpdk_nic/port/dpdk/pci_nic.h"
#include "transport/wire/frame_builder.h"

namespace uroce::nic {
namespace {

using Driver = Devargs::Driver;

constexpr uint32_t kEthernetHeaderBytes = 14;
constexpr uint32_t kVlanTagBytes = 4;
// The largest IP packet that uroce sends.
constexpr uint32_t kUsefulMtuBytes = transport::kMaxFrameBytes - kEthernetHeaderBytes;
// Room for one frame, in whole cache lines.
constexpr uint32_t kFrameRoomBytes = 4'352;
constexpr uint32_t kMaxRoomBytes = 60'000;  // the mbuf's fields have 16 bits
// Virtual devices copy: their pool holds little more than the bursts under way, and is small enough
// to stay in the processor's cache. A ring device queues the mbufs themselves, a NIC owns whole
// rings of them. (2^n - 1 is what a ring of 2^n holds.)
constexpr uint32_t kCopyingPoolFrames = 255;
constexpr uint32_t kQueueingPoolFrames = 4'095;
// Of AF_XDP the kernel holds up to 2,048 frames to receive into and as many to send, which are
// given back at the next burst; the rest is for the bursts under way. So the pool is never empty.
constexpr uint32_t kXdpPoolFrames = 2 * 2'048 + 319;
constexpr uint16_t kQueueDescriptors = 1'024;

// The kernel puts a header of its own, aligned, before each frame in the ring.
constexpr uint32_t kPacketRingOverheadBytes = 128;
constexpr uint32_t kPacketRingGranuleBytes = 1'024;

// Sizes of the ring that af_packet shares with the kernel. A slot holds the longest frame of ours
// that the MTU lets through: longer frames are never for us, and arrive cut.
void SetPacketRingDefaults(uint32_t mtu_bytes, Devargs* devargs) {
  const uint32_t longest = std::min(mtu_bytes, kUsefulMtuBytes) + kEthernetHeaderBytes +
                           kVlanTagBytes + kPacketRingOverheadBytes;
  const uint32_t slot_bytes =
      (longest + kPacketRingGranuleBytes - 1) / kPacketRingGranuleBytes * kPacketRingGranuleBytes;
  devargs->SetDefault("qpairs", "1");
  devargs->SetDefault("qdisc_bypass", "1");
  devargs->SetDefault("framesz", std::to_string(slot_bytes));
  devargs->SetDefault("blocksz", std::to_string(4 * slot_bytes));  // whole pages
  devargs->SetDefault("framecnt", "1024");
}

// The kernel leaves room of its own in front of each frame (XDP_PACKET_HEADROOM).
constexpr uint32_t kXdpHeadroomBytes = 256;
// An mbuf with all that belongs to it (headroom, mempool's header and padding) must not be longer
// than a page.
constexpr uint32_t kMaxXdpMtuBytes = 3'400;

// Checks the limits of AF_XDP, and sets the driver's options. `program` is the file that the driver
// loads.
bool PrepareXdp(const KernelInterface& interface, const UniqueFd& program, Devargs* devargs,
                std::string* error) {
  const std::string& name = *devargs->Find("iface");
  if (interface.mtu_bytes() > kMaxXdpMtuBytes) {
    *error = devargs->device() + " cannot be used while the MTU of " + name + " is " +
             std::to_string(interface.mtu_bytes()) + ", as AF_XDP has no jumbo frames: use " +
             "net_af_packet, or 'ip link set " + name + " mtu 1500'";
    return false;
  }
  if (interface.receive_queues() > 1 && devargs->Find("start_queue") == nullptr) {
    *error = devargs->device() + " receives from one queue of " + name + ", which has " +
             std::to_string(interface.receive_queues()) + ": 'ethtool -L " + name +
             " combined 1', or steer UDP port 4791 to one and say start_queue=N";
    return false;
  }
  if (!program) {
    *error = "no memory is left for the XDP program of " + devargs->device();
    return false;
  }
  devargs->SetDefault("start_queue", "0");
  devargs->SetDefault("busy_budget", "0");  // otherwise every empty receive is a system call
  devargs->SetDefault("xdp_prog", "/proc/self/fd/" + std::to_string(program.get()));
  return true;
}

// NICs round the length of a buffer down to a multiple of this.
constexpr uint32_t kNicBufferGranuleBytes = 1'024;

uint32_t FrameRoomBytes(const Devargs& devargs, uint32_t mtu_bytes) {
  uint32_t wanted = mtu_bytes + kEthernetHeaderBytes + kVlanTagBytes;
  if (devargs.driver() == Driver::kAfPacket) {  // the driver wants every mbuf to hold a whole slot
    wanted = static_cast<uint32_t>(std::max(0, atoi(devargs.Find("framesz")->c_str())));
  }
  if (devargs.driver() == Driver::kPci) {  // a frame is to be in one buffer
    wanted = std::max(wanted, kFrameRoomBytes) + kNicBufferGranuleBytes - 1;
    wanted -= wanted % kNicBufferGranuleBytes;
  }
  return std::clamp(wanted, kFrameRoomBytes, kMaxRoomBytes);
}

Ethdev::Config DeviceConfig(const Devargs& devargs, uint32_t mtu_bytes) {
  Ethdev::Config config;
  const Driver driver = devargs.driver();
  const bool queues_mbufs = driver == Driver::kPci || driver == Driver::kRing;
  config.pool_frames = queues_mbufs ? kQueueingPoolFrames : kCopyingPoolFrames;
  config.frame_bytes = static_cast<uint16_t>(FrameRoomBytes(devargs, mtu_bytes));
  if (driver == Driver::kAfXdp) {
    // The kernel reads a frame where it was built, and an element is not longer than a page.
    config.pool_frames = kXdpPoolFrames;
    config.frame_bytes =
        static_cast<uint16_t>(kXdpHeadroomBytes + mtu_bytes + kEthernetHeaderBytes + kVlanTagBytes);
  }
  config.queue_descriptors = kQueueDescriptors;
  if (driver == Driver::kPci) {
    config.mtu_bytes = static_cast<uint16_t>(mtu_bytes);
    config.useful_mtu_bytes = static_cast<uint16_t>(kUsefulMtuBytes);
  }
  config.may_start_later = driver == Driver::kMemif && *devargs.Find("role") == "client";
  return config;
}

// Memory for a PCI NIC: its frames, and what its driver and DPDK take beside them.
constexpr uint64_t kMib = 1 << 20;
constexpr uint64_t kMbufOverheadBytes = 512;  // headers, headroom, ends of pages
constexpr uint64_t kNicDriverBytes = 8 * kMib;

bool PreparePci(const Devargs& devargs, const Ethdev::Config& config, Eal::Options* options,
                std::string* error) {
  const uint64_t needed_bytes =
      config.pool_frames * (config.frame_bytes + kMbufOverheadBytes) + kNicDriverBytes;
  auto nic = PciNic::Find(devargs.device());
  if (!nic.ok()) {
    *error = nic.error();
    return false;
  }
  options->memory_mib = static_cast<uint32_t>(2 * needed_bytes / kMib);
  if (!nic.value().needs_physical_addresses()) return true;
  if (devargs.hugepages() == false) {
    *error = devargs.device() + " needs hugepages, as no IOMMU is sure to translate its " +
             "addresses: leave out hugepages=0";
    return false;
  }
  options->hugepages = true;
  options->physical_addresses = true;
  *error = nic.value().FindMissingMemory(needed_bytes);
  return error->empty();
}

// The largest MTU that can be asked for.
uint32_t MtuLimitBytes(const Devargs& devargs, const KernelInterface* interface) {
  if (interface != nullptr) return interface->mtu_bytes();
  if (devargs.driver() != Driver::kMemif) return kMaxMtuBytes;
  return static_cast<uint32_t>(atoi(devargs.Find("bsize")->c_str())) - kEthernetHeaderBytes;
}

}  // namespace

ErrorOr<std::unique_ptr<DpdkPort>> DpdkPort::Open(Devargs devargs, uint32_t mtu_bytes,
                                                  const transport::MacAddress& fallback_mac) {
  std::unique_ptr<DpdkPort> port(new DpdkPort);
  port->driver_ = devargs.driver();
  port->mac_ = fallback_mac;
  Error error;
  UniqueFd xdp_program;
  if (devargs.driver() == Driver::kAfPacket || devargs.driver() == Driver::kAfXdp) {
    auto interface = KernelInterface::Attach(*devargs.Find("iface"));
    if (!interface.ok()) return Error{interface.error()};
    port->interface_ = std::move(interface).value();
  }
  if (devargs.driver() == Driver::kAfPacket) {
    SetPacketRingDefaults(port->interface_->mtu_bytes(), &devargs);
  }
  if (devargs.driver() == Driver::kAfXdp) {
    xdp_program = XdpProgramFile();
    if (!PrepareXdp(*port->interface_, xdp_program, &devargs, &error.sentence)) return error;
  }
  if (devargs.driver() == Driver::kMemif && !PrepareMemifSocket(devargs, &error.sentence)) {
    return error;
  }
  if (!port->OpenDevice(devargs, mtu_bytes, &error.sentence)) return error;
  return port;
}

bool DpdkPort::OpenDevice(const Devargs& devargs, uint32_t wished_mtu_bytes, std::string* error) {
  const uint32_t limit = MtuLimitBytes(devargs, interface_.get());
  if (wished_mtu_bytes > limit) {
    *error = devargs.device() + " cannot have an MTU of " + std::to_string(wished_mtu_bytes) +
             "; the most it can have is " + std::to_string(limit);
    return false;
  }
  if (wished_mtu_bytes != 0) {
    mtu_bytes_ = wished_mtu_bytes;
  } else if (driver_ != Driver::kPci) {  // a NIC is asked for its own
    mtu_bytes_ = interface_ != nullptr ? limit : std::min(limit, kUsefulMtuBytes);
  }

  const Ethdev::Config config = DeviceConfig(devargs, mtu_bytes_);
  Eal::Options options{.hugepages = devargs.hugepages().value_or(false)};
  if (driver_ == Driver::kPci && !PreparePci(devargs, config, &options, error)) return false;
  auto eal = Eal::Start(options);
  if (!eal.ok()) {
    *error = eal.error();
    return false;
  }
  auto device = Ethdev::Open(eal.value(), devargs, config);
  if (!device.ok()) {
    *error = device.error();
    return false;
  }
  device_ = std::move(device).value();
  if (is_ethernet()) mac_ = device_->mac();
  if (interface_ != nullptr && !PrepareWaiting(error)) return false;
  pci_link_up_ = driver_ == Driver::kPci && device_->link_up();
  if (driver_ == Driver::kPci) mtu_bytes_ = device_->mtu_bytes();
  if (driver_ == Driver::kMemif) {
    if (*devargs.Find("role") == "server") memif_listener_ = std::make_unique<MemifListener>();
    memif_ = std::make_unique<MemifLink>(device_->id(), *devargs.Find("role") == "client",
                                         device_->started());
  }
  return true;
}

// Two things wake a sleeper: frames (BeginSleep), and a carrier that comes or goes.
bool DpdkPort::PrepareWaiting(std::string* error) {
  wait_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{.events = EPOLLIN, .data = {}};
  if (epoll_ctl(wait_.get(), EPOLL_CTL_ADD, interface_->news_fd(), &event) == 0) return true;
  *error = std::string("nothing can be waited for: ") + strerror(errno);
  return false;
}

DpdkPort::~DpdkPort() {
  if (InForkedChild()) {  // what follows would reach into the parent's memory
    static_cast<void>(memif_.release());
    static_cast<void>(memif_listener_.release());
    return;
  }
  if (device_ == nullptr) return;
  rte_pktmbuf_free_bulk(transmit_.data(), transmit_count_);
  rte_pktmbuf_free_bulk(received_.data(), received_count_);
  rte_pktmbuf_free_bulk(spare_.data(), spare_count_);
  rte_pktmbuf_free(building_);
}

bool DpdkPort::is_ethernet() const { return interface_ != nullptr || driver_ == Driver::kPci; }

}  // namespace uroce::nic
