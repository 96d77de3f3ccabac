#pragma once

#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/port/packet_port.h"
#include "tests/dpdk_nic/switch/switch_frames.h"
#include "transport/wire/frame_builder.h"

namespace uroce::nic {

using FrameBytes = std::vector<uint8_t>;

// A test's view of a FakeWire, which the switch owns. Any thread.
class FakeCable {
 public:
  explicit FakeCable(bool can_wake = true)
      : wake_fd_(can_wake ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1) {}

  // The wire receives a frame from the host beyond it.
  void Deliver(FrameBytes frame) {
    const std::lock_guard guard(mutex_);
    incoming_.push_back(std::move(frame));
    if (std::exchange(asleep_, false)) eventfd_write(wake_fd_.get(), 1);
  }
  // The frames sent since the last call.
  std::vector<FrameBytes> TakeSent() {
    const std::lock_guard guard(mutex_);
    return std::exchange(sent_, {});
  }
  // The next notice of the wire.
  void SetNotice(PacketPort::Notice notice) {
    const std::lock_guard guard(mutex_);
    notice_ = std::move(notice);
  }
  void SetGids(std::vector<transport::Gid> gids) {
    const std::lock_guard guard(mutex_);
    gids_ = std::move(gids);
  }
  // The answer to JoinGroup from now on.
  void SetJoinAnswer(PacketPort::PathState answer) {
    const std::lock_guard guard(mutex_);
    join_answer_ = answer;
  }
  std::set<transport::Gid> groups() {
    const std::lock_guard guard(mutex_);
    return groups_;
  }
  size_t sent_count() {
    const std::lock_guard guard(mutex_);
    return sent_.size();
  }

  std::atomic<size_t> room{SIZE_MAX};  // for how many frames more
  std::atomic<bool> is_up{true};
  std::atomic<bool> has_failed{false};
  std::atomic<int> flushes{0};

 private:
  friend class FakeWire;

  std::mutex mutex_;
  std::deque<FrameBytes> incoming_;
  std::vector<FrameBytes> sent_;
  PacketPort::Notice notice_;
  std::optional<std::vector<transport::Gid>> gids_;
  PacketPort::PathState join_answer_ = PacketPort::PathState::kReady;
  std::set<transport::Gid> groups_;  // joined now
  bool asleep_ = false;
  const UniqueFd wake_fd_;
};

// The NIC of the fabric under test.
class FakeWire final : public PacketPort {
 public:
  static constexpr size_t kMaxGroups = 1'234;

  explicit FakeWire(std::shared_ptr<FakeCable> cable, uint32_t mtu_bytes = 4'200)
      : cable_(std::move(cable)), mtu_bytes_(mtu_bytes) {}

  ReceivedFrame Receive() override {
    const std::lock_guard guard(cable_->mutex_);
    if (cable_->incoming_.empty()) return {};
    received_ = cable_->incoming_.front();
    return {received_};
  }
  void ReleaseReceived() override {
    const std::lock_guard guard(cable_->mutex_);
    cable_->incoming_.pop_front();
  }
  transport::FrameRoom AcquireTransmit(transport::Route) override {
    if (cable_->room == 0) return {};
    return building_;
  }
  void CommitTransmit(size_t frame_bytes) override {
    const std::lock_guard guard(cable_->mutex_);
    cable_->sent_.emplace_back(building_.begin(), building_.begin() + frame_bytes);
    --cable_->room;
  }
  void Flush() override { ++cable_->flushes; }

  int wait_fd() const override { return cable_->wake_fd_.get(); }
  bool BeginSleep() override {
    const std::lock_guard guard(cable_->mutex_);
    cable_->asleep_ = cable_->incoming_.empty();
    return cable_->asleep_;
  }
  void EndSleep() override {
    const std::lock_guard guard(cable_->mutex_);
    cable_->asleep_ = false;
    eventfd_t wakes;
    eventfd_read(wait_fd(), &wakes);
  }

  PathState JoinGroup(const transport::Gid& group) override {
    const std::lock_guard guard(cable_->mutex_);
    if (cable_->join_answer_ != PathState::kRefused) cable_->groups_.insert(group);
    return cable_->join_answer_;
  }
  void LeaveGroup(const transport::Gid& group) override {
    const std::lock_guard guard(cable_->mutex_);
    cable_->groups_.erase(group);
  }
  size_t max_groups() const override { return kMaxGroups; }

  Notice TakeNotice() override {
    const std::lock_guard guard(cable_->mutex_);
    return std::exchange(cable_->notice_, {});
  }

  std::optional<std::vector<transport::Gid>> TakeGids() override {
    const std::lock_guard guard(cable_->mutex_);
    return std::exchange(cable_->gids_, std::nullopt);
  }

  transport::MacAddress mac() const override { return kOurMac; }
  uint32_t mtu() const override { return mtu_bytes_; }
  bool link_up() const override { return cable_->is_up; }
  bool active() const override { return cable_->is_up; }
  bool failed() const override { return cable_->has_failed; }

 private:
  const std::shared_ptr<FakeCable> cable_;
  const uint32_t mtu_bytes_;
  FrameBytes received_;
  std::array<uint8_t, transport::kMaxFrameBytes> building_;
};

// Neighbours that a test scripts. One thread.
struct FakeNeighborhood {
  std::vector<LinkLayer::Neighbor> known;
  std::deque<LinkLayer::Neighbor> changes;
  std::deque<FrameBytes> outgoing;
  transport::Time deadline = transport::kNever;
  std::vector<FrameBytes> received;  // frames that were not RoCE
  int asked = 0;
  int deadlines = 0;
};

class FakeLinkLayer final : public LinkLayer {
 public:
  explicit FakeLinkLayer(std::shared_ptr<FakeNeighborhood> neighborhood)
      : neighborhood_(std::move(neighborhood)) {}

  bool OnFrame(transport::Time, std::span<const uint8_t> frame) override {
    neighborhood_->received.emplace_back(frame.begin(), frame.end());
    return true;
  }
  size_t PollTransmit(transport::Time, std::span<uint8_t> out) override {
    const FrameBytes frame = neighborhood_->outgoing.front();
    neighborhood_->outgoing.pop_front();
    std::copy(frame.begin(), frame.end(), out.begin());
    return frame.size();
  }
  bool HasTransmit() const override { return !neighborhood_->outgoing.empty(); }
  std::optional<transport::MacAddress> Resolve(transport::Time,
                                               const transport::Gid& gid) override {
    ++neighborhood_->asked;
    for (const Neighbor& neighbor : neighborhood_->known) {
      if (neighbor.gid == gid) return neighbor.mac;
    }
    return std::nullopt;
  }
  transport::Time NextDeadline() const override { return neighborhood_->deadline; }
  void OnDeadline(transport::Time) override {
    ++neighborhood_->deadlines;
    neighborhood_->deadline = transport::kNever;
  }
  std::optional<Neighbor> TakeChange() override {
    if (neighborhood_->changes.empty()) return std::nullopt;
    const Neighbor change = neighborhood_->changes.front();
    neighborhood_->changes.pop_front();
    return change;
  }

 private:
  const std::shared_ptr<FakeNeighborhood> neighborhood_;
};

}  // namespace uroce::nic
