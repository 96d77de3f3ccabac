#pragma once

#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/port/packet_port.h"
#include "transport/wire/frame_builder.h"

namespace uroce::nic {

// Receives as many frames as a test says (by default frames that the engine ignores), and takes
// frames to send only while it has room.
class ScriptedPort final : public PacketPort {
 public:
  ReceivedFrame Receive() override {
    static constexpr std::array<uint8_t, 60> kFrame{};
    if (frames_to_receive == 0) return {};
    return next_frame ? next_frame() : ReceivedFrame{.bytes = kFrame};
  }
  void ReleaseReceived() override {
    --frames_to_receive;
    longest_burst = std::max(longest_burst, ++burst_);
  }
  transport::FrameRoom AcquireTransmit(transport::Route route) override {
    ++asked_for_room;
    acquired_ = route;
    return has_room ? std::span<uint8_t>(frame_) : std::span<uint8_t>();
  }
  void CommitTransmit(size_t frame_bytes) override {
    frame_bytes_ = frame_bytes;
    sent.push_back(acquired_);
    received_before.push_back(burst_);
    ++frames_sent;
  }
  void BeginReceiveBurst() override {
    burst_ = 0;
    ++(IsTestsThread() ? receive_bursts : receive_bursts_of_progress);
  }
  void Flush() override {
    flushes += IsTestsThread();
    frames_flushed = frames_sent.load();
  }
  void FlushSoon() override { flushes_soon += IsTestsThread(); }
  bool keeps_frames() const override { return keeps; }
  int wait_fd() const override { return wait_fd_.get(); }
  bool BeginSleep() override {
    ++sleeps;
    return is_asleep = true;
  }
  void EndSleep() override {
    is_asleep = false;
    eventfd_t ignored;
    eventfd_read(wait_fd_.get(), &ignored);
    if (on_end_of_sleep) on_end_of_sleep();
  }
  void AbandonAfterFork() override { is_abandoned = true; }
  void ServeLink() override { ++served; }
  PathState PreparePath(const Path&) override {
    return served >= paths_are_ready_when_served ? PathState::kReady : PathState::kPending;
  }
  void LeaveGroup(const transport::Gid&) override { ++groups_left; }
  transport::MacAddress mac() const override { return {2, 0, 0, 0, 0, 1}; }
  uint32_t mtu() const override { return 1'500; }
  bool link_up() const override { return true; }
  bool active() const override { return is_active; }

  void WakeSleeper() { eventfd_write(wait_fd_.get(), 1); }

  std::span<const uint8_t> last_frame() const { return std::span(frame_).first(frame_bytes_); }

  std::atomic<bool> has_room{true};
  std::atomic<uint64_t> asked_for_room{0};
  std::atomic<size_t> frames_sent{0};
  std::atomic<size_t> frames_flushed{0};
  std::atomic<int> receive_bursts_of_progress{0};
  std::atomic<int> sleeps{0};          // of the progress thread
  std::atomic<bool> is_asleep{false};  // the progress thread
  std::atomic<int> served{0};
  // Under the engine's lock.
  std::function<void()> on_end_of_sleep;
  int frames_to_receive = 0;
  std::function<ReceivedFrame()> next_frame;
  int longest_burst = 0;
  bool keeps = false;
  bool is_active = true;
  int paths_are_ready_when_served = 0;
  std::vector<transport::Route> sent;
  std::vector<int> received_before;  // for each frame sent: frames of the burst received before
  int groups_left = 0;
  bool is_abandoned = false;
  // Counts of the test's thread, without those of the progress thread.
  std::atomic<int> receive_bursts{0};
  std::atomic<int> flushes{0};
  int flushes_soon = 0;

 private:
  bool IsTestsThread() const { return std::this_thread::get_id() == tests_thread_; }

  const std::thread::id tests_thread_ = std::this_thread::get_id();
  const UniqueFd wait_fd_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::array<uint8_t, transport::kMaxFrameBytes> frame_{};
  size_t frame_bytes_ = 0;
  int burst_ = 0;
  transport::Route acquired_{};
};

// Has the deadline and the neighbour's change that a test sets. All under the engine's lock.
class ScriptedLinkLayer final : public StaticNeighbors {
 public:
  bool OnFrame(transport::Time, std::span<const uint8_t>) override { return takes_frames; }
  transport::Time NextDeadline() const override { return deadline; }
  void OnDeadline(transport::Time) override {
    deadline = transport::kNever;
    ++deadlines_met;
  }
  std::optional<Neighbor> TakeChange() override { return std::exchange(change, std::nullopt); }

  transport::Time deadline = transport::kNever;
  int deadlines_met = 0;
  bool takes_frames = false;
  std::optional<Neighbor> change;
};

}  // namespace uroce::nic
