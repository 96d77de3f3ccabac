#pragma once

#include <array>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "dpdk_nic/impairments.h"
#include "dpdk_nic/packet_port.h"
#include "transport/wire/frame_builder.h"

namespace uroce::nic {

// Spoils the RoCEv2 frames that are sent through it, as a bad wire would: loses, doubles, reorders,
// corrupts and delays them. What is received, and frames that are not RoCEv2, pass untouched; for
// both directions give both ends one.
//
// Each frame's fate comes from the seed alone. Frames that are held back are released when enough
// others have passed them or, at the end of a burst, when they were held for long enough.
class ImpairedPort : public PacketPort {
 public:
  ImpairedPort(std::unique_ptr<PacketPort> port, const Impairments& impairments);

  std::span<const uint8_t> Receive() override;
  void ReleaseReceived() override { port_->ReleaseReceived(); }
  std::span<uint8_t> AcquireTransmit() override;
  void CommitTransmit(size_t frame_bytes) override;
  void Flush() override;

  int wait_fd() const override { return port_->wait_fd(); }
  // Stays awake while frames are held back.
  bool BeginSleep() override { return held_.empty() && port_->BeginSleep(); }
  void EndSleep() override { port_->EndSleep(); }
  void ServeLink() override { port_->ServeLink(); }
  void AbandonAfterFork() override { port_->AbandonAfterFork(); }

  Counters counters() const override { return port_->counters(); }
  transport::MacAddress mac() const override { return port_->mac(); }
  uint32_t mtu() const override { return port_->mtu(); }
  bool link_up() const override { return port_->link_up(); }

  struct Impaired {
    uint64_t frames = 0;  // RoCEv2 frames that came to be sent
    uint64_t dropped = 0;
    uint64_t duplicated = 0;
    uint64_t reordered = 0;
    uint64_t corrupted = 0;
    uint64_t delayed = 0;
  };
  const Impaired& impaired() const { return impaired_; }

 private:
  enum class Fate { kPass, kDrop, kDuplicate, kReorder, kCorrupt };

  struct HeldFrame {
    transport::Time due;
    uint32_t others_to_pass;  // 0: only the time counts
    std::vector<uint8_t> bytes;
  };

  Fate DrawFate();
  void Corrupt(std::span<uint8_t> frame);
  void Hold(std::span<const uint8_t> frame, uint32_t others_to_pass);
  void Send(std::span<const uint8_t> frame);
  void CountPassing();
  void ReleaseDue();

  const std::unique_ptr<PacketPort> port_;
  const Impairments impairments_;
  std::mt19937_64 random_;
  std::deque<HeldFrame> held_;
  Impaired impaired_;
  alignas(64) std::array<uint8_t, transport::kMaxFrameBytes> frame_;
};

}  // namespace uroce::nic
