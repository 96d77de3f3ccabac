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

// The data that the kernel reports of a datagram beside its bytes.
struct DatagramInfo {
  transport::Gid source;
  transport::Gid destination;  // an address of this host or a group
  uint16_t source_port = 0;
  uint8_t traffic_class = 0;
  // The length of all but the last of several datagrams that were received as one (UDP_GRO).
  size_t segment_bytes = 0;
};

// Reads the control messages and the address of a message of `bytes`, as recvmmsg left them.
// Returns false and counts the reason if the message is to be dropped. `own` is the address that
// its socket is bound to; if that is a wildcard, a control message has to name the destination.
bool ReadDatagramInfo(const msghdr& message, size_t bytes, const transport::Gid& own,
                      DatagramInfo* info, PortDrops* drops);

// Turns a received message into frames, one by one and in place: the headers of a frame are written
// in front of its BTH, over the bytes before it. So a frame is valid until the next call of Next.
// SolveIdentification finds identifications of IPv4; a frame whose ICRC none explains has 0, and
// its ICRC stays wrong.
class DatagramFrames {
 public:
  // Room that must be in front of the first byte: Ethernet, IPv6 and UDP headers, aligned.
  static constexpr size_t kHeadroomBytes = 64;

  DatagramFrames() = default;
  // `mac` is the destination in the frames' Ethernet headers.
  DatagramFrames(std::span<uint8_t> bytes, const DatagramInfo& info,
                 const transport::MacAddress& mac);

  // The next frame; without bytes when there is none left.
  std::span<const uint8_t> Next(PeerIdentifications* peers, PortDrops* drops);
  // Of the last frame. kDone: its ICRC is right. Otherwise it was not checked yet, or is wrong.
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
  // Headers for frames with payloads of payload_bytes_. They end where the headroom does.
  alignas(64) std::array<uint8_t, kHeadroomBytes> room_{};
  size_t payload_bytes_ = 0;
  uint32_t crc_after_headers_ = 0;  // of IPv4, with an identification of 0
};

}  // namespace uroce::nic
