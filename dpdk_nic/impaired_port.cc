#include "dpdk_nic/impaired_port.h"

#include <algorithm>
#include <utility>

#include "dpdk_nic/clock.h"

namespace uroce::nic {
namespace {

constexpr size_t kEthernetHeaderBytes = 14;
constexpr uint16_t kRocePort = 4791;

// A reordered frame is overtaken by one to this many.
constexpr uint32_t kMaxOvertaking = 4;
// When nothing follows that could overtake it: well below any sensible retransmission timeout.
constexpr transport::Duration kReorderPatience = transport::Microseconds(200);
// Two windows of a queue pair. A delay that needs more gets back-pressure.
constexpr size_t kMaxHeldFrames = 512;

bool IsRoce(std::span<const uint8_t> frame) {
  const auto read16 = [&](size_t at) {
    return static_cast<uint16_t>(frame[at] << 8 | frame[at + 1]);
  };
  constexpr uint8_t kUdp = 17;
  if (frame.size() < 58) return false;  // Ethernet, IPv4, UDP, BTH and ICRC
  if (read16(12) == 0x0800) return frame[23] == kUdp && read16(36) == kRocePort;
  if (read16(12) == 0x86dd) return frame[20] == kUdp && read16(56) == kRocePort;
  return false;
}

}  // namespace

ImpairedPort::ImpairedPort(std::unique_ptr<PacketPort> port, const Impairments& impairments)
    : port_(std::move(port)), impairments_(impairments), random_(impairments.seed) {}

std::span<const uint8_t> ImpairedPort::Receive() {
  if (!held_.empty()) Flush();  // nothing else comes by while nobody sends
  return port_->Receive();
}

std::span<uint8_t> ImpairedPort::AcquireTransmit() {
  // Room below too, so that no frame is lost that was not meant to be.
  if (held_.size() >= kMaxHeldFrames || port_->AcquireTransmit().empty()) return {};
  return frame_;
}

void ImpairedPort::CommitTransmit(size_t frame_bytes) {
  const std::span<uint8_t> frame(frame_.data(), frame_bytes);
  if (!IsRoce(frame)) return Send(frame);
  ++impaired_.frames;
  switch (DrawFate()) {
    case Fate::kDrop:
      ++impaired_.dropped;
      return;
    case Fate::kReorder:
      ++impaired_.reordered;
      return Hold(frame, 1 + static_cast<uint32_t>(random_() % kMaxOvertaking));
    case Fate::kDuplicate:
      ++impaired_.duplicated;
      Hold(frame, 1);
      break;
    case Fate::kCorrupt:
      ++impaired_.corrupted;
      Corrupt(frame);
      break;
    case Fate::kPass:
      break;
  }
  if (impairments_.delay.ns > 0) {
    ++impaired_.delayed;
    Hold(frame, 0);
  } else {
    Send(frame);
    CountPassing();
  }
}

void ImpairedPort::Flush() {
  ReleaseDue();
  port_->Flush();
}

ImpairedPort::Fate ImpairedPort::DrawFate() {
  double draw = std::uniform_real_distribution<>(0, 1)(random_);
  for (const auto& [probability, fate] : {std::pair{impairments_.drop, Fate::kDrop},
                                          std::pair{impairments_.duplicate, Fate::kDuplicate},
                                          std::pair{impairments_.reorder, Fate::kReorder},
                                          std::pair{impairments_.corrupt, Fate::kCorrupt}}) {
    if (draw < probability) return fate;
    draw -= probability;
  }
  return Fate::kPass;
}

void ImpairedPort::Corrupt(std::span<uint8_t> frame) {
  const size_t bits = (frame.size() - kEthernetHeaderBytes) * 8;
  const size_t bit = kEthernetHeaderBytes * 8 + random_() % bits;
  frame[bit / 8] = static_cast<uint8_t>(frame[bit / 8] ^ 1u << bit % 8);
}

void ImpairedPort::Hold(std::span<const uint8_t> frame, uint32_t others_to_pass) {
  const transport::Duration patience =
      others_to_pass == 0 ? impairments_.delay : impairments_.delay + kReorderPatience;
  held_.push_back({Now() + patience, others_to_pass, {frame.begin(), frame.end()}});
}

// A wire that takes nothing more loses the frame: it is one of ours that we held too long.
void ImpairedPort::Send(std::span<const uint8_t> frame) {
  const std::span<uint8_t> room = port_->AcquireTransmit();
  if (room.size() < frame.size()) {
    ++impaired_.dropped;
    return;
  }
  std::copy(frame.begin(), frame.end(), room.begin());
  port_->CommitTransmit(frame.size());
}

// A frame was sent: those that waited for it to overtake them are nearer to being sent.
void ImpairedPort::CountPassing() {
  for (size_t i = 0; i < held_.size();) {
    if (held_[i].others_to_pass == 0 || --held_[i].others_to_pass != 0) {
      ++i;
      continue;
    }
    const HeldFrame frame = std::move(held_[i]);
    held_.erase(held_.begin() + static_cast<ptrdiff_t>(i));
    Send(frame.bytes);
  }
}

void ImpairedPort::ReleaseDue() {
  if (held_.empty()) return;
  const transport::Time now = Now();
  for (size_t i = 0; i < held_.size();) {
    if (held_[i].due > now) {
      ++i;
      continue;
    }
    if (port_->AcquireTransmit().empty()) return;
    const HeldFrame frame = std::move(held_[i]);
    held_.erase(held_.begin() + static_cast<ptrdiff_t>(i));
    Send(frame.bytes);
    if (frame.others_to_pass == 0) CountPassing();
  }
}

}  // namespace uroce::nic
