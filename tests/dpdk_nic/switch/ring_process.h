#pragma once

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "dpdk_nic/port/ring/ring_link.h"
#include "dpdk_nic/port/ring/shm_ring.h"

namespace uroce::nic {

// A process of the fabric as the switch sees it: the peer on an uplink.
class RingProcess {
 public:
  // `keeps_socket`: keeps a copy of the switch's end of the socket, which the process created.
  explicit RingProcess(bool keeps_socket = false) {
    auto offer = RingLink::Create();
    raw_memory_.reset(dup(offer->memory.get()));
    Raw(0);  // maps the memory before it is sealed
    if (keeps_socket) switch_socket_.reset(dup(offer->socket.get()));
    switch_end_ = RingLink::Accept(std::move(offer->memory), std::move(offer->socket));
    link_ = std::move(offer->link);
  }

  // The switch's end of the uplink.
  std::unique_ptr<RingLink> TakeSwitchEnd() { return std::move(switch_end_); }
  RingLink& link() { return *link_; }
  void Die() { link_.reset(); }
  // Makes the switch believe that the process died, and keeps the link open.
  void FeignDeath() { shutdown(link_->socket(), SHUT_WR); }

  // Returns false if the ring is full.
  bool Send(std::span<const uint8_t> frame) {
    const std::span<uint8_t> room = link_->Acquire();
    if (room.empty()) return false;
    std::copy(frame.begin(), frame.end(), room.begin());
    link_->Commit(frame.size());
    link_->Flush();
    return true;
  }
  // Takes all frames that have arrived.
  std::vector<std::vector<uint8_t>> Receive() {
    std::vector<std::vector<uint8_t>> frames;
    for (auto frame = link_->Receive(); !frame.empty(); frame = link_->Receive()) {
      frames.emplace_back(frame.begin(), frame.end());
      link_->Release();
    }
    link_->Flush();
    return frames;
  }

  // Whether the switch woke this process since the last call.
  bool WasWoken() {
    pollfd poll_fd{link_->socket(), POLLIN, 0};
    const bool woken = poll(&poll_fd, 1, 0) == 1;
    link_->peer_alive();
    return woken;
  }
  // Whether the switch asked to be woken.
  bool switch_sleeps() {
    return reinterpret_cast<RingControl*>(Raw(0))->consumer_asleep.load() != 0;
  }

  // Puts a frame of no bytes, which is invalid, into the first slot of the ring that the switch
  // reads.
  void PublishNonsense() {
    constexpr uint16_t kEmptyFrameOfTheFirstLap = 1;
    std::copy_n(reinterpret_cast<const uint8_t*>(&kEmptyFrameOfTheFirstLap), 2, Raw(kControlBytes));
  }
  // Writes into the ring that this process reads that it received more frames than were sent.
  void ReleaseNonsense() {
    constexpr uint64_t kManyFrames = 1'000'000;
    std::copy_n(reinterpret_cast<const uint8_t*>(&kManyFrames), 8, Raw(kRingBytes));
  }

 private:
  static constexpr size_t kControlBytes = 4'096;
  static constexpr size_t kRingBytes = kControlBytes + kSlots * kSlotBytes;

  uint8_t* Raw(size_t offset) {
    if (raw_ == nullptr) {
      raw_ = static_cast<uint8_t*>(
          mmap(nullptr, 2 * kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED, raw_memory_.get(), 0));
    }
    return raw_ + offset;
  }

  UniqueFd raw_memory_;
  UniqueFd switch_socket_;
  uint8_t* raw_ = nullptr;  // stays mapped until the test ends
  std::unique_ptr<RingLink> link_;
  std::unique_ptr<RingLink> switch_end_;
};

}  // namespace uroce::nic
