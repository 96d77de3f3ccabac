#pragma once

#include <array>
#include <memory>
#include <string>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/link_layer/kernel_interface.h"
#include "dpdk_nic/port/devargs.h"
#include "dpdk_nic/port/dpdk/ethdev.h"
#include "dpdk_nic/port/dpdk/memif_link.h"
#include "dpdk_nic/port/dpdk/memif_socket.h"
#include "dpdk_nic/port/packet_port.h"

struct rte_mbuf;

namespace uroce::nic {

// Frames over any DPDK Ethernet device, polled in bursts of 32. A received burst stays in the port
// and is handed out one by one; frames to send are built in mbufs and leave at Flush. What the
// device does not take is tried again at the next Receive or Flush; while there is no link it is
// dropped and counted.
//
// In a fork()ed child the port receives nothing and takes nothing: DPDK's memory belongs to the
// parent.
class DpdkPort final : public PacketPort {
 public:
  // `mtu_bytes` 0: the interface's own, or what RoCEv2 needs. `fallback_mac` is for devices that
  // have no address of their own (memif, ring, null).
  static ErrorOr<std::unique_ptr<DpdkPort>> Open(Devargs devargs, uint32_t mtu_bytes,
                                                 const transport::MacAddress& fallback_mac);
  ~DpdkPort() override;

  ReceivedFrame Receive() override;
  void ReleaseReceived() override;
  transport::FrameRoom AcquireTransmit(transport::Route route) override;
  void CommitTransmit(size_t frame_bytes) override;
  void Flush() override;

  // Only af_packet and af_xdp can wake a sleeper.
  int wait_fd() const override { return wait_.get(); }
  bool BeginSleep() override;
  void EndSleep() override;
  void ServeLink() override;

  bool carries_ethernet() const override { return !sees_roce_only(); }
  Counters counters() const override { return counters_; }
  transport::MacAddress mac() const override { return mac_; }
  uint32_t mtu() const override { return mtu_bytes_; }
  bool link_up() const override;
  bool active() const override { return !is_ethernet() || link_up(); }
  bool failed() const override {
    return device_->removed() || (interface_ != nullptr && interface_->is_gone());
  }

  // Whether the port sees RoCEv2 frames only; then only the kernel answers ARP for its addresses.
  bool sees_roce_only() const { return driver_ == Devargs::Driver::kAfXdp; }
  // Whether neighbours are asked for their MACs (otherwise these follow from the GID), and the
  // kernel's interface that the port shares, 0 if none.
  bool is_ethernet() const;
  int kernel_interface_index() const { return interface_ == nullptr ? 0 : interface_->index(); }

 private:
  static constexpr uint16_t kBurstFrames = 32;

  DpdkPort() = default;
  bool OpenDevice(const Devargs& devargs, uint32_t wished_mtu_bytes, std::string* error);
  bool ReceiveBurst();
  bool PrepareWaiting(std::string* error);
  void TransmitBurst();
  void DropTransmit();
  void WatchMemif();
  rte_mbuf* AllocateFrame();
  void KickKernel();
  bool WatchSocket(bool watched);
  uint16_t DeviceReceive();
  uint16_t DeviceTransmit();

  std::unique_ptr<KernelInterface> interface_;  // af_packet and af_xdp only
  std::unique_ptr<Ethdev> device_;
  // These are destroyed before the device.
  std::unique_ptr<MemifListener> memif_listener_;  // memif servers only
  std::unique_ptr<MemifLink> memif_;               // memif only
  UniqueFd wait_;                                  // an epoll set; only with interface_
  bool socket_watched_ = false;                    // the frames' socket is in wait_
  transport::MacAddress mac_{};
  uint32_t mtu_bytes_ = 0;
  Devargs::Driver driver_ = Devargs::Driver::kNull;
  Counters counters_;

  std::array<rte_mbuf*, kBurstFrames> received_{};  // freed together, before the next burst
  uint16_t received_count_ = 0;
  uint16_t received_next_ = 0;
  std::array<rte_mbuf*, kBurstFrames> transmit_{};
  uint16_t transmit_count_ = 0;
  bool flushed_ = true;                          // transmit_ has only what the device refused
  rte_mbuf* building_ = nullptr;                 // acquired, not committed
  std::array<rte_mbuf*, kBurstFrames> spare_{};  // allocated together, for AcquireTransmit
  uint16_t spare_count_ = 0;
  uint32_t empty_receives_ = 0;
  uint32_t serves_ = 0;
  bool pci_link_up_ = false;
  bool kick_due_ = false;  // the kernel may not have sent the whole ring of packet_socket()
};

}  // namespace uroce::nic
