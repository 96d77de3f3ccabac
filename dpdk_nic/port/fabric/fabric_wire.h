#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/port/fabric/fabric_links.h"
#include "dpdk_nic/port/packet_port.h"
#include "dpdk_nic/port/udp/udp_port.h"

namespace uroce::nic {

// A process's own way to other hosts, in a fabric whose way out is the host's own network: frames
// of RC, UC and UD queue pairs leave by UDP sockets of the process, and do not cross uroced.
//
//   RC, UC, UD to a host -----------------------> UdpPort
//   connection management, multicast -----------> the ring to uroced, which has to see them
//
// Closed until the process names a host; while it is closed all frames take the ring.
class FabricWire {
 public:
  // `links` outlives it.
  explicit FabricWire(FabricLinks& links);

  // Opens the sockets, on all of the fabric's addresses that the host has now. If that fails, all
  // frames go on taking the ring. Changes nothing if it is open.
  void Open(const control::Welcome& fabric);
  void Close();
  bool is_open() const { return port_ != nullptr; }

  // Only while it is open:
  transport::FrameRoom Acquire();
  void Commit(size_t frame_bytes);
  void Flush() { port_->Flush(); }
  // Whether nothing waits for room.
  bool BeginSleep() { return port_->BeginSleep() && SendHeld(); }
  void EndSleep() { port_->EndSleep(); }
  void ServeLink();
  int wait_fd() const { return port_->wait_fd(); }
  PacketPort::Notice TakeNotice() { return port_->TakeNotice(); }
  PacketPort::Counters counters() const { return port_->counters(); }
  void AbandonAfterFork() { port_->AbandonAfterFork(); }

 private:
  bool SendByRing(std::span<const uint8_t> frame);
  bool SendHeld();

  FabricLinks& links_;
  std::unique_ptr<UdpPort> port_;
  std::span<uint8_t> room_;    // that was acquired last
  std::vector<uint8_t> held_;  // a frame that the ring had no room for; mostly empty
};

}  // namespace uroce::nic
