#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dpdk_nic/port/udp/identification.h"
#include "transport/wire/flow.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/frame_room.h"

namespace uroce::nic {

// A packet that is to leave: the kernel makes its headers from the flow.
struct OutgoingPacket {
  transport::Flow flow;
  uint16_t payload_bytes = 0;  // from the BTH to the ICRC
  CoveredFields covered;       // the values that the ICRC is right for

  // Whether both packets may leave by one call: same addresses, traffic class and hop limit.
  bool SharesCallWith(const OutgoingPacket& other) const;
};

// The packets that a UdpPort has been given and the kernel has not taken yet, in order. Groups them
// into runs, each of which leaves as one datagram or is cut into several by the kernel
// (UDP_SEGMENT), and corrects their ICRCs for the headers that the kernel will write. They lie one
// behind the other, so that a run is one piece of memory.
class TransmitQueue {
 public:
  static constexpr size_t kPackets = 64;
  // The payload of one call: what an IPv4 packet can carry.
  static constexpr size_t kMaxCallBytes = 65'507;

  // Room to build the next packet; empty if the queue is full.
  transport::FrameRoom Room();
  // The same room, if it was not empty, with what was built there.
  transport::FrameRoom built();
  // Adds the packet that was built in the room, whose frame would have `frame_bytes`. Returns false
  // and forgets it if its flow has no destination.
  bool Commit(size_t frame_bytes);

  size_t size() const { return count_; }
  // `index` counts from the oldest packet.
  const OutgoingPacket& packet(size_t index) const { return slots_[first_ + index].packet; }
  std::span<const uint8_t> payload(size_t index) const { return payloads(index, 1); }
  // The payloads of a run.
  std::span<const uint8_t> payloads(size_t index, size_t packets) const;

  // How many packets from `index` on can leave by one call: all are as long as the first but the
  // last, which may be shorter. 1 unless `may_segment`. index < size().
  size_t RunAt(size_t index, bool may_segment) const;
  // Corrects the ICRCs of packets that leave by one call from `source_port`.
  void Seal(size_t index, size_t packets, uint16_t source_port);
  // Forgets the oldest packets.
  void Drop(size_t packets);

 private:
  struct Slot {
    OutgoingPacket packet;
    size_t at;  // of the payload, in bytes_
  };

  std::array<Slot, kPackets> slots_;
  size_t first_ = 0;  // index in slots_ of the oldest packet
  size_t count_ = 0;
  size_t end_ = 0;  // of the last payload
  alignas(64) std::array<uint8_t, kPackets * transport::kMaxFrameBytes> bytes_;
};

}  // namespace uroce::nic
