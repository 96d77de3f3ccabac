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
// of RC, UC and UD queue pairs leave by UDP sockets of the process, and arrive by sockets that
// uroced gives it. They do not cross uroced.
//
//   RC, UC, UD to a host -----------------------> UdpPort
//   connection management, multicast -----------> the ring to uroced, which has to see them
//   UdpPort, for a queue pair of this process --> the engine
//   UdpPort, for another -----------------------> the ring to uroced, which passes it on
//
// In the last case the kernel steered a frame wrongly: the order of the sockets has just changed,
// or frames for two processes came together (UDP_GRO).
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
  // The fabric's addresses have changed. Only while it is open.
  void Follow(const control::Welcome& fabric);
  bool is_open() const { return port_ != nullptr; }

  // Takes a socket that uroced gives. False, and the socket is closed, if it does not receive
  // RoCEv2, or if there are too many.
  bool AddReceiver(UniqueFd socket);
  // Closes these sockets: a new uroced cannot have the port while they are open, and gives others.
  void DropReceivers();

  // Whether to poll the sockets in this pass: that is a system call, so a wire that was quiet for
  // long is polled only now and then.
  bool IsToBeLookedAt() {
    ++passes_without_frame_;
    return is_open() && (passes_without_frame_ < kBusyPasses ||
                         passes_without_frame_ % kPassesBetweenLooks == 0);
  }

  // A socket is readable.
  void OnReadable() { passes_without_frame_ = 0; }

  // Only while it is open:
  // The next frame for a queue pair of this process.
  PacketPort::ReceivedFrame Receive();
  transport::FrameRoom Acquire();
  void Commit(size_t frame_bytes);
  void Flush() { port_->Flush(); }
  // False while a frame waits for room.
  bool BeginSleep() { return port_->BeginSleep() && SendHeld(); }
  void EndSleep() { port_->EndSleep(); }
  void ServeLink();
  int wait_fd() const { return port_->wait_fd(); }
  PacketPort::Notice TakeNotice() { return port_->TakeNotice(); }
  PacketPort::Counters counters() const;
  void AbandonAfterFork() { port_->AbandonAfterFork(); }

 private:
  static constexpr uint32_t kBusyPasses = 10'000;
  static constexpr uint32_t kPassesBetweenLooks = 64;
  static constexpr size_t kMaxReceivers = 2;  // one of each IP version

  void PassOn(const PacketPort::ReceivedFrame& frame);
  bool SendByRing(std::span<const uint8_t> frame);
  bool SendHeld();

  FabricLinks& links_;
  std::unique_ptr<UdpPort> port_;
  size_t receivers_ = 0;
  uint32_t block_ = 0;  // of this process's queue pairs
  uint32_t passes_without_frame_ = 0;
  uint64_t not_passed_on_ = 0;
  std::vector<uint8_t> held_;  // a frame that the ring had no room for; mostly empty
};

}  // namespace uroce::nic
