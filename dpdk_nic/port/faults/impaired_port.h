#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/port/faults/fault_injector.h"
#include "dpdk_nic/port/faults/fault_scenario.h"
#include "dpdk_nic/port/faults/held_frames.h"
#include "dpdk_nic/port/faults/impairments.h"
#include "dpdk_nic/port/packet_port.h"
#include "transport/wire/frame_builder.h"

namespace uroce::nic {

// Spoils the RoCEv2 frames that pass it, as a bad wire would: loses, doubles, reorders, corrupts
// and delays them. Frames that are not RoCEv2 pass untouched.
//
// A scenario decides about the frames that it names exactly, sent or received. For all other sent
// frames the seed draws an impairment; to impair both directions, give impairments to both ends.
// Frames that are held back are released when enough others have passed them or, at the end of a
// burst, when they were held for long enough.
//
// Frames that the process sends to itself pass here as well, so that they meet the same faults, and
// never reach the port below. A multicast frame is impaired once, when it is sent: if it then
// reaches the port below, a copy comes back to the process as well.
class ImpairedPort : public PacketPort {
 public:
  using Clock = transport::Time (*)();

  // `clock` measures how long frames are held.
  ImpairedPort(std::unique_ptr<PacketPort> port, const Impairments& impairments,
               FaultScenario scenario = {}, Clock clock = Now);

  void BeginReceiveBurst() override { port_->BeginReceiveBurst(); }
  ReceivedFrame Receive() override;
  void ReleaseReceived() override;
  transport::FrameRoom AcquireTransmit(transport::Route route) override;
  void CommitTransmit(size_t frame_bytes) override;
  void Flush() override;
  bool carries_loopback() const override { return true; }
  bool carries_ethernet() const override { return port_->carries_ethernet(); }
  bool keeps_frames() const override {
    return !held_.empty() || !arriving_.empty() || !looped_.empty();
  }

  PathState PreparePath(const Path& path) override { return port_->PreparePath(path); }
  uint32_t PathMtu(const Path& path) const override { return port_->PathMtu(path); }
  void ForgetPath(transport::Qpn local) override { port_->ForgetPath(local); }
  PathState JoinGroup(const transport::Gid& group) override { return port_->JoinGroup(group); }
  void LeaveGroup(const transport::Gid& group) override { port_->LeaveGroup(group); }
  ServiceState ReserveService(const Service& service) override {
    return port_->ReserveService(service);
  }
  void ReleaseService(const Service& service) override { port_->ReleaseService(service); }
  bool IsReleased(const Service& service) const override { return port_->IsReleased(service); }
  XrcOpening OpenXrcDomain(const XrcDomain& domain) override {
    return port_->OpenXrcDomain(domain);
  }
  void CloseXrcDomain(uint64_t handle) override { port_->CloseXrcDomain(handle); }
  bool IsXrcDomainClosed(uint64_t handle) const override {
    return port_->IsXrcDomainClosed(handle);
  }

  int wait_fd() const override { return port_->wait_fd(); }
  // Stays awake while frames are held back.
  bool BeginSleep() override { return !keeps_frames() && port_->BeginSleep(); }
  void EndSleep() override { port_->EndSleep(); }
  void ServeLink() override { port_->ServeLink(); }
  void BeforeFork() override { port_->BeforeFork(); }
  void AfterForkInParent() override { port_->AfterForkInParent(); }
  void AbandonAfterFork() override { port_->AbandonAfterFork(); }
  Notice TakeNotice() override { return port_->TakeNotice(); }
  std::optional<std::vector<transport::Gid>> TakeGids() override { return port_->TakeGids(); }

  Counters counters() const override { return port_->counters(); }
  transport::MacAddress mac() const override { return port_->mac(); }
  uint32_t mtu() const override { return port_->mtu(); }
  bool link_up() const override { return port_->link_up(); }
  bool active() const override { return port_->active(); }
  bool failed() const override { return port_->failed(); }

  struct Impaired {
    uint64_t frames = 0;  // RoCEv2 frames given to be sent
    uint64_t dropped = 0;
    uint64_t duplicated = 0;
    uint64_t reordered = 0;
    uint64_t corrupted = 0;
    uint64_t by_scenario = 0;  // sent or received
  };
  const Impaired& impaired() const { return impaired_; }

 private:
  enum class Impairment { kPass, kDrop, kDuplicate, kReorder, kCorrupt };

  Impairment DrawImpairment();
  void Corrupt(std::span<uint8_t> frame);
  // When a frame is due that `delay` and `others_to_pass` hold back.
  transport::Time Due(transport::Duration delay, uint32_t others_to_pass) const;

  void SendAsDrawn(std::span<uint8_t> frame);
  void SendByScenario(const FaultAction& action, std::span<uint8_t> frame);
  // Sends a frame after its own impairments, with the delay that all frames have.
  void SendOn(std::span<const uint8_t> frame);
  void Send(transport::Route route, std::span<const uint8_t> frame);
  // Holds back a frame that is being sent.
  void Hold(std::span<const uint8_t> frame, transport::Time due, uint32_t others_to_pass);
  void ReleaseDue();

  // Whether a frame may go by `route` now.
  bool HasRoom(transport::Route route);
  // The next arriving frame, in turn from the port below and from this process itself.
  ReceivedFrame NextArrival();
  void ReleaseArrival();
  ReceivedFrame GiveOut(HeldFrames::Frame frame);
  // The frame that Receive returns in place of `frame`; nullopt if that is dropped or held back.
  std::optional<ReceivedFrame> ReceiveByScenario(const FaultAction& action,
                                                 const ReceivedFrame& frame);

  const std::unique_ptr<PacketPort> port_;
  const Impairments impairments_;
  const Clock clock_;
  FaultInjector injector_;
  std::mt19937_64 random_;
  HeldFrames held_;                          // to be sent
  HeldFrames arriving_;                      // to be received
  std::deque<std::vector<uint8_t>> looped_;  // sent by ourselves to ourselves
  bool arrival_is_looped_ = false;           // of the last arrival
  bool received_in_place_ = false;
  HeldFrames::Frame received_;                        // that Receive returned, unless in place
  transport::Route route_ = transport::Route::kWire;  // of the frame that is being sent
  Impaired impaired_;
  alignas(64) std::array<uint8_t, transport::kMaxFrameBytes> frame_;    // to be sent
  alignas(64) std::array<uint8_t, transport::kMaxFrameBytes> arrival_;  // headers were missing
};

}  // namespace uroce::nic
