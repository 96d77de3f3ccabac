#include "dpdk_nic/port/faults/impaired_port.h"

#include <algorithm>
#include <utility>

#include "dpdk_nic/port/faults/roce_frame.h"

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::Route;
using transport::Time;

constexpr size_t kEthernetHeaderBytes = 14;

// A frame that the seed reorders is overtaken by one to this many.
constexpr uint32_t kMaxOvertaking = 4;
// How long a reordered frame waits for others: well below any sensible retransmission timeout.
constexpr Duration kReorderTimeout = transport::Microseconds(200);
// Two windows of a queue pair. A delay that needs more gets back-pressure.
constexpr size_t kMaxHeldFrames = 512;
// Half as many as the ring of a link between two processes has slots.
constexpr size_t kMaxLoopedFrames = 256;
// Received frames that one call of Receive drops before it returns none.
constexpr int kMaxDropsPerReceive = 64;

// Whether the frame is RoCEv2 to a multicast group: queue pairs of the sender may be members.
bool GoesToAGroup(std::span<const uint8_t> frame) {
  return (frame[0] & 1) != 0 && FindRoce(frame).has_value();
}

}  // namespace

ImpairedPort::ImpairedPort(std::unique_ptr<PacketPort> port, const Impairments& impairments,
                           FaultScenario scenario, Clock clock)
    : port_(std::move(port)),
      impairments_(impairments),
      clock_(clock),
      injector_(std::move(scenario)),
      random_(impairments.seed) {}

PacketPort::ReceivedFrame ImpairedPort::Receive() {
  if (!held_.empty()) Flush();  // without frames to send nothing else releases them
  received_in_place_ = false;
  if (!arriving_.empty()) {
    if (auto due = arriving_.TakeDue(clock_())) return GiveOut(*std::move(due));
  }
  for (int dropped = 0; dropped < kMaxDropsPerReceive; ++dropped) {
    const ReceivedFrame frame = NextArrival();
    if (frame.bytes.empty()) return {};
    const FaultAction* action = injector_.OnFrame(FaultDirection::kReceived, frame.bytes);
    if (action == nullptr) {
      arriving_.Overtaken();
      received_in_place_ = true;
      return frame;
    }
    ++impaired_.by_scenario;
    const auto instead = ReceiveByScenario(*action, frame);
    ReleaseArrival();
    if (instead) return *instead;
  }
  return {};
}

PacketPort::ReceivedFrame ImpairedPort::NextArrival() {
  const bool is_turn_of_port = arrival_is_looped_ || looped_.empty();
  arrival_is_looped_ = !is_turn_of_port;
  if (is_turn_of_port) {
    const ReceivedFrame frame = port_->ReceiveEthernet(arrival_);
    if (!frame.bytes.empty() || looped_.empty()) return frame;
    arrival_is_looped_ = true;
  }
  return {looped_.front(), Route::kLoopback};
}

void ImpairedPort::ReleaseArrival() {
  if (arrival_is_looped_) {
    looped_.pop_front();
  } else {
    port_->ReleaseReceived();
  }
}

std::optional<PacketPort::ReceivedFrame> ImpairedPort::ReceiveByScenario(
    const FaultAction& action, const ReceivedFrame& frame) {
  using Kind = FaultAction::Kind;
  if (action.kind == Kind::kDrop) return std::nullopt;
  const bool holds_back = action.kind == Kind::kDelay || action.kind == Kind::kReorder;
  HeldFrames::Frame copy{frame.from, {frame.bytes.begin(), frame.bytes.end()}};
  if (holds_back && arriving_.size() < kMaxHeldFrames) {
    arriving_.Hold(std::move(copy), Due(action.delay, action.frames), action.frames);
    return std::nullopt;
  }
  if (action.kind == Kind::kDuplicate) {
    arriving_.Hold(copy, clock_());
  } else if (!holds_back) {
    ChangeFrame(action, copy.bytes);
  }
  arriving_.Overtaken();
  return GiveOut(std::move(copy));
}

PacketPort::ReceivedFrame ImpairedPort::GiveOut(HeldFrames::Frame frame) {
  received_ = std::move(frame);
  return {received_.bytes, received_.route};
}

void ImpairedPort::ReleaseReceived() {
  if (received_in_place_) ReleaseArrival();
}

bool ImpairedPort::HasRoom(Route route) {
  if (looped_.size() >= kMaxLoopedFrames) return false;
  return route == Route::kLoopback || !port_->AcquireTransmit(route).empty();
}

transport::FrameRoom ImpairedPort::AcquireTransmit(Route route) {
  // Requires room in the port below, too, so that only chosen faults lose frames.
  if (held_.size() >= kMaxHeldFrames || !HasRoom(route)) return {};
  route_ = route;
  return frame_;
}

void ImpairedPort::CommitTransmit(size_t frame_bytes) {
  const std::span<uint8_t> frame(frame_.data(), frame_bytes);
  if (!FindRoce(frame)) return Send(route_, frame);
  ++impaired_.frames;
  if (const FaultAction* action = injector_.OnFrame(FaultDirection::kSent, frame)) {
    ++impaired_.by_scenario;
    SendByScenario(*action, frame);
  } else {
    SendAsDrawn(frame);
  }
}

void ImpairedPort::SendByScenario(const FaultAction& action, std::span<uint8_t> frame) {
  switch (action.kind) {
    case FaultAction::Kind::kDrop:
      return;
    case FaultAction::Kind::kDuplicate:
      Hold(frame, Due(impairments_.delay, 1), 1);
      break;
    case FaultAction::Kind::kDelay:
    case FaultAction::Kind::kReorder:
      return Hold(frame, Due(impairments_.delay + action.delay, action.frames), action.frames);
    case FaultAction::Kind::kMarkCongestion:
    case FaultAction::Kind::kCorrupt:
      ChangeFrame(action, frame);
      break;
  }
  SendOn(frame);
}

void ImpairedPort::SendAsDrawn(std::span<uint8_t> frame) {
  switch (DrawImpairment()) {
    case Impairment::kDrop:
      ++impaired_.dropped;
      return;
    case Impairment::kReorder: {
      ++impaired_.reordered;
      const auto others_to_pass = 1 + static_cast<uint32_t>(random_() % kMaxOvertaking);
      return Hold(frame, Due(impairments_.delay, others_to_pass), others_to_pass);
    }
    case Impairment::kDuplicate:
      ++impaired_.duplicated;
      Hold(frame, Due(impairments_.delay, 1), 1);
      break;
    case Impairment::kCorrupt:
      ++impaired_.corrupted;
      Corrupt(frame);
      break;
    case Impairment::kPass:
      break;
  }
  SendOn(frame);
}

void ImpairedPort::SendOn(std::span<const uint8_t> frame) {
  if (impairments_.delay.ns > 0) {
    Hold(frame, Due(impairments_.delay, 0), 0);
    return;
  }
  Send(route_, frame);
  held_.Overtaken();
  ReleaseDue();
}

void ImpairedPort::Hold(std::span<const uint8_t> frame, Time due, uint32_t others_to_pass) {
  held_.Hold({route_, {frame.begin(), frame.end()}}, due, others_to_pass);
}

void ImpairedPort::Flush() {
  ReleaseDue();
  port_->Flush();
}

ImpairedPort::Impairment ImpairedPort::DrawImpairment() {
  double draw = std::uniform_real_distribution<>(0, 1)(random_);
  for (const auto& [probability, impairment] :
       {std::pair{impairments_.drop, Impairment::kDrop},
        std::pair{impairments_.duplicate, Impairment::kDuplicate},
        std::pair{impairments_.reorder, Impairment::kReorder},
        std::pair{impairments_.corrupt, Impairment::kCorrupt}}) {
    if (draw < probability) return impairment;
    draw -= probability;
  }
  return Impairment::kPass;
}

void ImpairedPort::Corrupt(std::span<uint8_t> frame) {
  const size_t bits = (frame.size() - kEthernetHeaderBytes) * 8;
  const size_t bit = kEthernetHeaderBytes * 8 + random_() % bits;
  frame[bit / 8] = static_cast<uint8_t>(frame[bit / 8] ^ 1u << bit % 8);
}

Time ImpairedPort::Due(Duration delay, uint32_t others_to_pass) const {
  return clock_() + (others_to_pass == 0 ? delay : delay + kReorderTimeout);
}

// Without room below the frame is lost, and counted as dropped.
void ImpairedPort::Send(Route route, std::span<const uint8_t> frame) {
  if (!HasRoom(route)) {
    ++impaired_.dropped;
    return;
  }
  const bool is_looped_back = route == Route::kLoopback;
  if (is_looped_back || GoesToAGroup(frame)) looped_.emplace_back(frame.begin(), frame.end());
  if (is_looped_back) return;
  port_->SendEthernet(route, frame);
}

void ImpairedPort::ReleaseDue() {
  if (held_.empty()) return;
  const Time now = clock_();
  while (const auto route = held_.NextRoute(now)) {
    if (!HasRoom(*route)) return;
    Send(*route, held_.TakeDue(now)->bytes);
  }
}

}  // namespace uroce::nic
