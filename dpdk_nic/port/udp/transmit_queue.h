#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dpdk_nic/port/udp/identification.h"
#include "transport/wire/encapsulation.h"
#include "transport/wire/flow.h"
#include "transport/wire/frame_builder.h"

namespace uroce::nic {

// The fields of a frame that a socket has to be told: the kernel makes the headers from them.
struct OutgoingFrame {
  transport::Flow flow;
  size_t payload_at = 0;       // where the BTH begins in the frame
  uint16_t payload_bytes = 0;  // from the BTH to the ICRC
  CoveredFields covered;       // the values that the ICRC is right for

  // Whether both frames may leave by one call: same addresses, traffic class and hop limit.
  bool SharesCallWith(const OutgoingFrame& other) const;
};

// nullopt unless it is a whole packet to UDP port 4791 without fragments and options, whose IPv4
// header checksum is right: a NIC would send others too, and their receiver would drop them.
std::optional<OutgoingFrame> ReadOutgoingFrame(std::span<const uint8_t> frame);

// The frames that a UdpPort has been given and the kernel has not taken yet, in order. Groups them
// into runs, each of which leaves as one datagram or is cut into several by the kernel
// (UDP_SEGMENT), and corrects their ICRCs for the headers that the kernel will write.
//
// Payloads lie one behind the other, so that a run is one piece of memory. A frame is built with
// its headers over the end of the payload before it, which is restored when the frame is complete:
//
//   ... payload | payload
//         headers | payload   <- Room()
class TransmitQueue {
 public:
  static constexpr size_t kFrames = 64;
  // The payload of one call: what an IPv4 packet can carry.
  static constexpr size_t kMaxCallBytes = 65'507;

  // Room to build the next frame; empty if the queue is full. Until Commit or CloseRoom the queued
  // frames must not be read.
  std::span<uint8_t> Room();
  // Where that room begins. Valid until Commit.
  const uint8_t* room() const { return bytes_.data() + end_ - header_bytes_; }
  // Adds the frame that was built in the room. Returns false and forgets it if it cannot be sent.
  bool Commit(size_t frame_bytes);
  // Gives the room back: no frame will be built there. Changes nothing if there is no room.
  void CloseRoom();

  size_t size() const { return count_; }
  // `index` counts from the oldest frame.
  const OutgoingFrame& frame(size_t index) const { return slots_[first_ + index].frame; }
  std::span<const uint8_t> payload(size_t index) const { return payloads(index, 1); }
  // The payloads of a run.
  std::span<const uint8_t> payloads(size_t index, size_t frames) const;

  // How many frames from `index` on can leave by one call: all are as long as the first but the
  // last, which may be shorter. 1 unless `may_segment`. index < size().
  size_t RunAt(size_t index, bool may_segment) const;
  // Corrects the ICRCs of frames that leave by one call from `source_port`.
  void Seal(size_t index, size_t frames, uint16_t source_port);
  // Forgets the oldest frames.
  void Drop(size_t frames);

 private:
  static constexpr size_t kMaxHeaderBytes = transport::kMaxNetworkHeaderBytes;

  std::optional<OutgoingFrame> Read(std::span<const uint8_t> frame);

  struct Slot {
    OutgoingFrame frame;
    size_t at;  // of the payload, in bytes_
  };

  std::array<Slot, kFrames> slots_;
  size_t first_ = 0;  // index in slots_ of the oldest frame
  size_t count_ = 0;

  alignas(64) std::array<uint8_t, kMaxHeaderBytes + kFrames * transport::kMaxFrameBytes> bytes_;
  size_t end_ = kMaxHeaderBytes;           // of the last payload
  size_t header_bytes_ = kMaxHeaderBytes;  // of the last frame; the next one has as many, mostly
  bool has_room_ = false;                  // a room was asked for
  std::array<uint8_t, kMaxHeaderBytes> kept_;  // payload bytes under the headers in the room

  OutgoingFrame last_;  // as it was committed
  size_t last_frame_bytes_ = 0;
  std::array<uint8_t, kMaxHeaderBytes> last_headers_;
};

}  // namespace uroce::nic
