#include "dpdk_nic/port/dpdk/ethdev.h"

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mempool.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "dpdk_nic/port/dpdk/eal/descriptor_shims.h"
#include "dpdk_nic/port/dpdk/eal/eal.h"
#include "dpdk_nic/port/dpdk/eal/interrupt_registration.h"
#include "dpdk_nic/port/dpdk/eal/interrupt_thread.h"
#include "dpdk_nic/port/dpdk/eal/process_shims.h"
#include "dpdk_nic/port/dpdk/eal/xdp_shims.h"
#include "dpdk_nic/port/dpdk/frame_pool.h"

namespace uroce::nic {
namespace {

std::string UniquePoolName() {
  static std::atomic<uint32_t> next{0};
  return "uroce-frames-" + std::to_string(next++);
}

int SetFlag(uint16_t /*port*/, rte_eth_event_type /*event*/, void* flag, void* /*result*/) {
  static_cast<std::atomic<bool>*>(flag)->store(true, std::memory_order_relaxed);
  return 0;
}

}  // namespace

ErrorOr<std::unique_ptr<Ethdev>> Ethdev::Open(Eal* eal, const Devargs& devargs,
                                              const Config& config) {
  std::unique_ptr<Ethdev> device(new Ethdev(eal, devargs));
  Error error;
  bool opened = false;
  eal->Run([&] { opened = device->OpenDevice(config, &error.sentence); });
  if (!opened) return error;
  return device;
}

Ethdev::~Ethdev() {
  if (InForkedChild()) return;
  eal_->Run([this] { Close(); });
}

const char* Ethdev::bus() const {
  return devargs_.driver() == Devargs::Driver::kPci ? "pci" : "vdev";
}

std::string Ethdev::Explain(const std::string& what, int result) const {
  std::string sentence = devargs_.device() + " " + what + ": " + strerror(std::abs(result));
  const std::string log = eal_->log().LastLines(3);
  if (!log.empty()) sentence += " (" + log + ")";
  return sentence;
}

bool Ethdev::OpenDevice(const Config& config, std::string* error) {
  eal_->log().Clear();
  pool_ = CreateFramePool(UniquePoolName(), config.pool_frames, config.frame_bytes);
  if (pool_ == nullptr) {
    *error = "no DPDK memory is left for " + devargs_.device() + "; close another port first";
    return false;
  }
  if (!Probe(error) || !Configure(config, error)) return false;
  rte_eth_dev_callback_register(id_, RTE_ETH_EVENT_INTR_RMV, SetFlag, &removed_);
  const int result = rte_eth_dev_start(id_);
  started_ = result == 0;
  if (!started_ && !config.may_start_later) {
    *error = Explain("cannot be started", result);
    return false;
  }
  uint16_t mtu = 0;
  if (rte_eth_dev_get_mtu(id_, &mtu) == 0) mtu_bytes_ = mtu;
  // Solicited-node multicast must reach us (RFC 4861). Virtual devices have no filter to open.
  if (devargs_.driver() == Devargs::Driver::kPci) rte_eth_allmulticast_enable(id_);
  return true;
}

bool Ethdev::Probe(std::string* error) {
  const std::string& name = devargs_.device();
  uint16_t existing = 0;
  if (rte_eth_dev_get_port_by_name(name.c_str(), &existing) == 0) {
    *error = name + " is open in this process already; give this one another number";
    return false;
  }
  if (devargs_.driver() == Devargs::Driver::kPci && !EnablePciAndVfio()) {
    *error = Explain("cannot be opened, as VFIO does not work here", rte_errno);
    return false;
  }
  TakeLastPacketSocket();  // what another device left
  TakeLastInterruptRegistration();
  const int result = rte_eal_hotplug_add(bus(), name.c_str(), devargs_.DriverOptions().c_str());
  if (result != 0) {
    *error = Explain("cannot be opened", result);
    return false;
  }
  probed_ = true;
  if (rte_eth_dev_get_port_by_name(name.c_str(), &id_) != 0) {
    *error = name + " is not an Ethernet device that this build has a driver for";
    return false;
  }
  return true;
}

// If no MTU is asked for, a NIC keeps the one it comes with, as it does under the kernel: 1500, or
// what the hypervisor says. Virtual devices have none of their own.
bool Ethdev::ChooseMtu(const Config& config, uint32_t most_bytes, uint32_t* chosen,
                       std::string* error) const {
  if (devargs_.driver() != Devargs::Driver::kPci) return true;
  if (config.mtu_bytes > most_bytes) {
    *error = devargs_.device() + " cannot have an MTU of " + std::to_string(config.mtu_bytes) +
             "; the most it can have is " + std::to_string(most_bytes);
    return false;
  }
  uint16_t own_bytes = 0;
  if (config.mtu_bytes == 0) rte_eth_dev_get_mtu(id_, &own_bytes);
  *chosen = config.mtu_bytes != 0 ? config.mtu_bytes : std::min(own_bytes, config.useful_mtu_bytes);
  return true;
}

bool Ethdev::Configure(const Config& config, std::string* error) {
  rte_eth_dev_info info;
  int result = rte_eth_dev_info_get(id_, &info);
  if (result != 0) {
    *error = Explain("does not describe itself", result);
    return false;
  }
  rte_eth_conf device_config{};
  if (!ChooseMtu(config, info.max_mtu, &device_config.rxmode.mtu, error)) return false;
  // There is one queue, so RSS and flow rules have nothing to divide. Nor does the NIC compute
  // checksums: that of IPv4 costs less than to ask for it, and UDP's is 0.
  device_config.rxmode.offloads = info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER;
  // The driver gives back sent frames many at a time: they are all of one pool, and have one owner.
  device_config.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
  uint16_t receive_descriptors = config.queue_descriptors;
  uint16_t transmit_descriptors = config.queue_descriptors;
  result = rte_eth_dev_configure(id_, 1, 1, &device_config);
  if (result == 0) {
    result = rte_eth_dev_adjust_nb_rx_tx_desc(id_, &receive_descriptors, &transmit_descriptors);
  }
  if (result == 0) {
    result = rte_eth_rx_queue_setup(id_, 0, receive_descriptors, SOCKET_ID_ANY, nullptr, pool_);
  }
  if (result == 0) {
    result = rte_eth_tx_queue_setup(id_, 0, transmit_descriptors, SOCKET_ID_ANY, nullptr);
  }
  packet_socket_ = TakeLastPacketSocket();
  if (result != 0) *error = Explain("cannot be configured", result) + Advice();
  return result == 0;
}

const char* Ethdev::Advice() const {
  if (devargs_.driver() != Devargs::Driver::kAfXdp) return "";
  return "; AF_XDP needs a kernel with it, the capabilities CAP_NET_ADMIN, CAP_NET_RAW and "
         "CAP_BPF, "
         "and an interface without another XDP program: use net_af_packet otherwise";
}

void Ethdev::Close() {
  if (probed_) {
    const auto stop_and_close = [this] {
      rte_eth_dev_callback_unregister(id_, RTE_ETH_EVENT_INTR_RMV, SetFlag, &removed_);
      rte_eth_dev_stop(id_);
      rte_eth_dev_close(id_);
    };
    // A memif peer that hangs up at this moment makes the interrupt thread disconnect as well.
    if (devargs_.driver() == Devargs::Driver::kMemif) {
      RunOnInterruptThread(stop_and_close);
    } else {
      stop_and_close();
    }
    rte_eal_hotplug_remove(bus(), devargs_.device().c_str());
    if (devargs_.driver() == Devargs::Driver::kAfXdp) FreeLeakedXdpMemory(packet_socket_);
  }
  rte_mempool_free(pool_);
}

transport::MacAddress Ethdev::mac() const {
  rte_ether_addr address{};
  transport::MacAddress mac{};
  if (rte_eth_macaddr_get(id_, &address) == 0) {
    std::copy_n(address.addr_bytes, mac.size(), mac.begin());
  }
  return mac;
}

bool Ethdev::link_up() const {
  rte_eth_link link{};
  return rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

}  // namespace uroce::nic
