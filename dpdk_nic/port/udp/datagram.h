#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "dpdk_nic/port/udp/identification.h"
#include "transport/ids.h"

namespace uroce::nic {

// Why a datagram, or a part of it, is no frame. One counter each.
struct DatagramDrops {
  uint64_t truncated = 0;         // longer than any that we have room for
  uint64_t no_control = 0;        // the kernel did not say how it was marked
  uint64_t bad_segment = 0;       // a segment size that makes no sense
  uint64_t own_address = 0;       // somebody says to be us
  uint64_t too_short = 0;         // no room for a BTH and an ICRC
  uint64_t too_long = 0;          // longer than any frame of RoCEv2
  uint64_t unexplained_icrc = 0;  // passed on: the transport drops and counts it, too

  uint64_t malformed() const {
    return truncated + no_control + bad_segment + own_address + too_short + too_long;
  }
};

// What the kernel says of a datagram beside its bytes.
struct DatagramInfo {
  transport::Gid source;
  uint16_t source_port = 0;
  uint8_t traffic_class = 0;
  // Several datagrams that were received as one (UDP_GRO) are as long as this, but for the last.
  size_t segment_bytes = 0;
};

// Reads the control messages and the address of a message of `bytes`, as recvmmsg left them.
// Returns false and counts why not if the message is to be dropped. `own` is the address that it
// came to.
bool ReadDatagramInfo(const msghdr& message, size_t bytes, const transport::Gid& own,
                      DatagramInfo* info, DatagramDrops* drops);

// Turns a received message into frames, one by one and where it lies: the headers of a frame are
// written in front of its BTH, over what was there before. So a frame is good until the next one is
// asked for. Identifications of IPv4 are found as SolveIdentification can; a frame whose ICRC none
// explains has 0, and its ICRC stays wrong.
class DatagramFrames {
 public:
  // Room that has to be in front of the first byte: Ethernet, IPv6 and UDP headers, aligned.
  static constexpr size_t kHeadroomBytes = 64;

  DatagramFrames() = default;
  DatagramFrames(std::span<uint8_t> bytes, const DatagramInfo& info, const transport::Gid& own,
                 const transport::MacAddress& mac)
      : rest_(bytes), info_(info), own_(own), mac_(mac) {}

  // The next frame, or an empty span when there is none left.
  std::span<const uint8_t> Next(PeerIdentifications* peers, DatagramDrops* drops);
  bool empty() const { return rest_.empty(); }

 private:
  std::span<const uint8_t> MakeFrame(std::span<uint8_t> payload, PeerIdentifications* peers,
                                     DatagramDrops* drops);
  uint16_t FindIdentification(std::span<const uint8_t> frame, PeerIdentifications* peers,
                              DatagramDrops* drops) const;

  std::span<uint8_t> rest_;
  DatagramInfo info_;
  transport::Gid own_;
  transport::MacAddress mac_{};
};

}  // namespace uroce::nic
