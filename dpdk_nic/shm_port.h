#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "dpdk_nic/packet_port.h"
#include "dpdk_nic/shm_link.h"
#include "dpdk_nic/shm_ring.h"
#include "transport/wire/frame_builder.h"

namespace uroce::nic {

// The shared-memory link between two processes of one user: frames are built in a slot of a shared
// ring and read where they lie. Needs no privileges and no daemon.
//
// Until Join, and whenever the other process is not there, the link is down: frames to be sent are
// counted and dropped. When a new process takes the other side the link comes up again, with fresh
// memory. What a process has sent before it ended is still received.
class ShmPort : public PacketPort {
 public:
  ShmPort(std::string_view link_name, const transport::MacAddress& mac, uint32_t mtu_bytes);
  ~ShmPort() override;

  // Takes a side of the link and returns its number, 0 or 1; an error if both are taken. Does not
  // wait for the other process. May be called again after an error; afterwards does nothing.
  ErrorOr<int> Join();

  // Whether the other process is there and the link is about to come up.
  bool is_coming_up() const { return link_.awaits_pairing(); }

  ReceivedFrame Receive() override;
  void ReleaseReceived() override;
  std::span<uint8_t> AcquireTransmit(transport::Route route) override;
  void CommitTransmit(size_t frame_bytes) override;
  void Flush() override;

  int wait_fd() const override { return link_.wait_fd(); }
  bool BeginSleep() override;
  void EndSleep() override;
  void ServeLink() override;
  void AbandonAfterFork() override;

  Counters counters() const override { return counters_; }
  transport::MacAddress mac() const override { return mac_; }
  uint32_t mtu() const override { return mtu_bytes_; }
  bool link_up() const override { return session_.has_value() && session_->peer_alive; }

 private:
  // The time with one peer process.
  struct Session {
    Session(ShmLink::Pairing pairing_in, int side)
        : pairing(std::move(pairing_in)),
          producer(pairing.memory->ring(side)),
          consumer(pairing.memory->ring(1 - side)) {}

    ShmLink::Pairing pairing;
    FrameProducer producer;
    FrameConsumer consumer;
    bool peer_alive = true;  // false: only what it sent before is still to be received
  };

  void UpdateSession();
  void SleepInNewSession();
  void TurnAwayPeer();

  const transport::MacAddress mac_;
  const uint32_t mtu_bytes_;
  ShmLink link_;
  std::optional<Session> session_;
  bool acquired_from_ring_ = false;
  bool asleep_ = false;  // between BeginSleep and EndSleep
  Counters counters_;
  // Where frames are built that nobody will get.
  alignas(64) std::array<uint8_t, transport::kMaxFrameBytes> discarded_frame_;
};

}  // namespace uroce::nic
