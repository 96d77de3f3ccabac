#include "dpdk_nic/shm_port.h"

#include <sys/eventfd.h>

namespace uroce::nic {

static_assert(kSlotBytes - SlotWord::kAlignedOffset >= transport::kMaxFrameBytes);

ShmPort::ShmPort(std::string_view link_name, const transport::MacAddress& mac, uint32_t mtu_bytes)
    : mac_(mac), mtu_bytes_(mtu_bytes), link_(link_name) {}

ShmPort::~ShmPort() = default;

ErrorOr<int> ShmPort::Join() {
  ErrorOr<int> side = link_.Join();
  UpdateSession();
  return side;
}

PacketPort::ReceivedFrame ShmPort::Receive() {
  if (!session_) return {};
  const std::span<const uint8_t> frame = session_->consumer.Receive();
  if (session_->consumer.broken()) [[unlikely]]
    TurnAwayPeer();
  return {frame};
}

void ShmPort::ReleaseReceived() { session_->consumer.Release(); }

std::span<uint8_t> ShmPort::AcquireTransmit(transport::Route /*route*/) {
  acquired_from_ring_ = link_up();
  if (!acquired_from_ring_) return discarded_frame_;
  const std::span<uint8_t> room = session_->producer.Acquire();
  if (session_->producer.broken()) [[unlikely]]
    TurnAwayPeer();
  return room;
}

void ShmPort::CommitTransmit(size_t frame_bytes) {
  if (acquired_from_ring_) {
    session_->producer.Commit(frame_bytes);
  } else {
    ++counters_.transmit_dropped_no_link;
  }
}

void ShmPort::Flush() {
  if (!session_) return;
  session_->consumer.PublishPosition();
  if (session_->producer.ConsumerNeedsWake()) {
    // Fails only if the counter is full, and then the sleeper is awake.
    [[maybe_unused]] const int result = eventfd_write(session_->pairing.wake_peer.get(), 1);
  }
}

bool ShmPort::BeginSleep() {
  UpdateSession();
  asleep_ = !session_ || session_->consumer.BeginSleep();
  return asleep_;
}

void ShmPort::EndSleep() {
  asleep_ = false;
  if (session_) {
    session_->consumer.EndSleep();
    eventfd_t wakes;
    [[maybe_unused]] const int result = eventfd_read(session_->pairing.wake_self.get(), &wakes);
  }
  ServeLink();
}

void ShmPort::ServeLink() {
  link_.Serve();
  UpdateSession();
}

// Follows what happened to the link: a peer that is gone, and the next one.
void ShmPort::UpdateSession() {
  if (session_ && session_->peer_alive && (!link_.connected() || link_.has_pairing())) {
    session_->peer_alive = false;
  }
  if (session_ && !session_->peer_alive && session_->consumer.Receive().empty()) {
    link_.Unwatch(session_->pairing.wake_self);
    session_.reset();
  }
  if (!session_) {
    if (auto pairing = link_.TakePairing()) {
      link_.Watch(pairing->wake_self);
      session_.emplace(std::move(*pairing), *link_.side());
      SleepInNewSession();
    }
  }
}

// The peer may come while one thread sleeps, and be let in by another: the sleeper is not woken by
// the link any more, and has to be by the first frame.
void ShmPort::SleepInNewSession() {
  if (!asleep_ || session_->consumer.BeginSleep()) return;
  [[maybe_unused]] const int result = eventfd_write(session_->pairing.wake_self.get(), 1);
}

// It wrote what no correct peer writes: nothing more it says can be trusted.
void ShmPort::TurnAwayPeer() {
  ++counters_.receive_malformed;
  link_.Disconnect();
  link_.Unwatch(session_->pairing.wake_self);
  session_.reset();
}

void ShmPort::AbandonAfterFork() {
  link_.Abandon();
  if (session_) {
    session_->pairing.wake_self.reset();
    session_->pairing.wake_peer.reset();
  }
}

}  // namespace uroce::nic
