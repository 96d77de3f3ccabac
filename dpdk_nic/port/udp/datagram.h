#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dpdk_nic/port/port_drops.h"
#include "dpdk_nic/port/udp/identification.h"
#include "transport/ids.h"
#include "transport/wire/icrc.h"

namespace uroce::nic {

// What the kernel says of a datagram beside its bytes.
struct DatagramInfo {
  transport::Gid source;
  transport::Gid destination;  // of ours
  uint16_t source_port = 0;
  uint8_t traffic_class = 0;
  // Several datagrams that were received as one (UDP_GRO) are as long as this, but for the last.
  size_t segment_bytes = 0;
};

// Reads the control messages and the address of a message of `bytes`, as recvmmsg left them.
// Returns false and counts why not if the message is to be dropped. `own` is the address that its
// socket is bound to; if that is a wildcard, a control message has to say which one it came to.
bool ReadDatagramInfo(const msghdr& message, size_t bytes, const transport::Gid& own,
                      DatagramInfo* info, PortDrops* drops);

// Turns a received message into frames, one by one and where it lies: the headers of a frame are
// written in front of its BTH, over what was there before. So a frame is good until the next one is
// asked for. Identifications of IPv4 are found as SolveIdentification can; a frame whose ICRC none
// explains has 0, and its ICRC stays wrong.
class DatagramFrames {
 public:
  // Room that has to be in front of the first byte: Ethernet, IPv6 and UDP headers, aligned.
  static constexpr size_t kHeadroomBytes = 64;

  DatagramFrames() = default;
  // `mac` is what the frames' Ethernet headers are to name as their destination.
  DatagramFrames(std::span<uint8_t> bytes, const DatagramInfo& info,
                 const transport::MacAddress& mac);

  // The next frame; without bytes when there is none left.
  std::span<const uint8_t> Next(PeerIdentifications* peers, PortDrops* drops);
  // Of that frame. kDone: its ICRC is right. Otherwise nothing is known of it yet, or it is wrong.
  transport::IcrcCheck icrc_check() const { return icrc_check_; }
  bool empty() const { return rest_.empty(); }

 private:
  bool is_ipv6() const { return !info_.destination.IsIpv4Mapped(); }
  size_t header_bytes() const;
  uint8_t* headers() { return room_.data() + kHeadroomBytes - header_bytes(); }
  void WriteHeaders(size_t payload_bytes);
  std::span<const uint8_t> MakeFrame(std::span<uint8_t> payload, PeerIdentifications* peers,
                                     PortDrops* drops);
  std::optional<uint16_t> FindIdentification(std::span<const uint8_t> payload,
                                             PeerIdentifications* peers, PortDrops* drops) const;

  std::span<uint8_t> rest_;
  transport::IcrcCheck icrc_check_ = transport::IcrcCheck::kNeeded;
  DatagramInfo info_;
  transport::MacAddress mac_{};
  transport::MacAddress source_mac_{};
  // The headers of frames of one length end where the headroom does.
  alignas(64) std::array<uint8_t, kHeadroomBytes> room_{};
  size_t payload_bytes_ = 0;        // what they are for
  uint32_t crc_after_headers_ = 0;  // of IPv4, with an identification of 0
};

}  // namespace uroce::nic
