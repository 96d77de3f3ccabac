// The data path of a DpdkPort.
#include "dpdk_nic/port/dpdk/dpdk_port.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "dpdk_nic/base/cancellation_guard.h"
#include "dpdk_nic/port/dpdk/eal/descriptor_shims.h"

namespace uroce::nic {
namespace {

// A memif port looks at its link after so many empty receives: every fraction of a millisecond.
constexpr uint32_t kReceivesBetweenLinkChecks = 1'024;
// A NIC is asked for its carrier once in so many calls of ServeLink: ten times a second, as some
// answer slowly.
constexpr uint32_t kServesBetweenPciLinkChecks = 100;

}  // namespace

PacketPort::ReceivedFrame DpdkPort::Receive() {
  while (received_next_ < received_count_ || ReceiveBurst()) {
    rte_mbuf* frame = received_[received_next_];
    if (frame->nb_segs == 1 || rte_pktmbuf_linearize(frame) == 0) {
      return {.bytes = {rte_pktmbuf_mtod(frame, const uint8_t*), rte_pktmbuf_data_len(frame)}};
    }
    ++counters_.receive_malformed;  // longer than any frame of ours
    ReleaseReceived();
  }
  return {};
}

void DpdkPort::ReleaseReceived() {
  if (!InForkedChild()) ++received_next_;
}

bool DpdkPort::ReceiveBurst() {
  if (InForkedChild()) return false;
  std::optional<CancellationGuard> guard;
  if (memif_ == nullptr) guard.emplace();  // memif's own system calls are guarded (memif_shims.cc)
  if (flushed_ && transmit_count_ > 0) TransmitBurst();  // what the device refused before
  if (kick_due_) KickKernel();
  rte_pktmbuf_free_bulk(received_.data(), received_count_);
  received_next_ = 0;
  received_count_ = DeviceReceive();
  if (received_count_ > 0) return true;
  if (memif_ != nullptr) {
    memif_->CountEmptyReceive();
    if (++empty_receives_ % kReceivesBetweenLinkChecks == 0) WatchMemif();
  }
  return false;
}

uint16_t DpdkPort::DeviceReceive() {
  if (memif_ != nullptr && !memif_->BeginBurst()) return 0;
  const uint16_t count = rte_eth_rx_burst(device_->id(), 0, received_.data(), kBurstFrames);
  if (memif_ != nullptr) memif_->EndBurst();
  return count;
}

transport::FrameRoom DpdkPort::AcquireTransmit(transport::Route /*route*/) {
  if (InForkedChild()) return {};
  if (building_ == nullptr) {
    if (transmit_count_ == kBurstFrames) TransmitBurst();
    if (transmit_count_ == kBurstFrames) return {};
    building_ = AllocateFrame();
    if (building_ == nullptr) return {};  // all frames are queued in the device
  }
  return std::span(rte_pktmbuf_mtod(building_, uint8_t*), rte_pktmbuf_tailroom(building_));
}

rte_mbuf* DpdkPort::AllocateFrame() {
  if (spare_count_ == 0) {
    if (rte_pktmbuf_alloc_bulk(device_->pool(), spare_.data(), kBurstFrames) != 0) return nullptr;
    spare_count_ = kBurstFrames;
  }
  return spare_[--spare_count_];
}

void DpdkPort::CommitTransmit(size_t frame_bytes) {
  if (building_ == nullptr) return;
  building_->data_len = static_cast<uint16_t>(frame_bytes);
  building_->pkt_len = static_cast<uint32_t>(frame_bytes);
  transmit_[transmit_count_++] = building_;
  building_ = nullptr;
  flushed_ = false;
}

void DpdkPort::Flush() {
  if (transmit_count_ > 0 && !InForkedChild()) TransmitBurst();
  flushed_ = true;
}

void DpdkPort::WatchMemif() {
  const CancellationGuard guard;
  memif_->Watch();
}

void DpdkPort::TransmitBurst() {
  std::optional<CancellationGuard> guard;
  if (memif_ == nullptr) guard.emplace();
  // The kernel would keep the frames and send them, stale, when the carrier is back.
  if (interface_ != nullptr && !interface_->has_carrier()) {
    DropTransmit();
    return;
  }
  const uint16_t taken = DeviceTransmit();
  if (taken == 0 && !link_up()) {
    DropTransmit();
    return;
  }
  std::copy(transmit_.begin() + taken, transmit_.begin() + transmit_count_, transmit_.begin());
  transmit_count_ = static_cast<uint16_t>(transmit_count_ - taken);
}

uint16_t DpdkPort::DeviceTransmit() {
  if (memif_ != nullptr && !memif_->BeginBurst()) return 0;
  const uint16_t count = rte_eth_tx_burst(device_->id(), 0, transmit_.data(), transmit_count_);
  if (memif_ != nullptr) memif_->EndBurst();
  kick_due_ = device_->packet_socket() >= 0;
  return count;
}

// The kernel stops sending its ring when the socket's send buffer is full, and goes on only when it
// is told again. The driver tells it only with new frames: the last ones would wait for ever.
void DpdkPort::KickKernel() {
  const ssize_t sent = sendto(device_->packet_socket(), nullptr, 0, MSG_DONTWAIT, nullptr, 0);
  const bool congested = sent > 0 || (sent < 0 && (errno == EAGAIN || errno == ENOBUFS));
  kick_due_ = congested;  // 0: nothing was left
}

void DpdkPort::DropTransmit() {
  rte_pktmbuf_free_bulk(transmit_.data(), transmit_count_);
  counters_.transmit_dropped_no_link += transmit_count_;
  transmit_count_ = 0;
  if (memif_ != nullptr) WatchMemif();
}

bool DpdkPort::BeginSleep() {
  if (InForkedChild()) return true;
  if (wait_ && !WatchSocket(true)) return false;
  const bool idle = received_next_ == received_count_ && !ReceiveBurst();
  return idle && transmit_count_ == 0 && !kick_due_;
}

// The socket is watched only while a thread sleeps: watching costs the kernel a tenth of its work
// for a frame.
bool DpdkPort::WatchSocket(bool watched) {
  if (socket_watched_ == watched) return true;
  epoll_event event{.events = EPOLLIN, .data = {}};
  const int operation = watched ? EPOLL_CTL_ADD : EPOLL_CTL_DEL;
  if (epoll_ctl(wait_.get(), operation, device_->packet_socket(), &event) != 0) return false;
  socket_watched_ = watched;
  return true;
}

// Frames keep the socket readable until they are received. An error (the interface went down) would
// keep it readable for ever: reading SO_ERROR clears it.
void DpdkPort::EndSleep() {
  if (!wait_ || InForkedChild()) return;
  WatchSocket(false);
  int error = 0;
  socklen_t error_bytes = sizeof error;
  getsockopt(device_->packet_socket(), SOL_SOCKET, SO_ERROR, &error, &error_bytes);
  interface_->Serve();
}

void DpdkPort::ServeLink() {
  if (InForkedChild()) return;
  if (interface_ != nullptr) interface_->Serve();
  if (driver_ == Devargs::Driver::kPci && serves_++ % kServesBetweenPciLinkChecks == 0) {
    pci_link_up_ = device_->link_up();
  }
}

bool DpdkPort::link_up() const {
  if (InForkedChild()) return false;
  if (interface_ != nullptr) return interface_->has_carrier();
  return driver_ == Devargs::Driver::kPci ? pci_link_up_ : device_->link_up();
}

}  // namespace uroce::nic
