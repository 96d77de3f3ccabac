#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "dpdk_nic/port/port_drops.h"
#include "dpdk_nic/port/udp/identification.h"
#include "transport/ids.h"
#include "transport/wire/flow.h"
#include "transport/wire/received_packet.h"

namespace uroce::nic {

// The data that the kernel reports of a datagram beside its bytes.
struct DatagramInfo {
  transport::Flow flow;  // to an address of this host or a group
  // The length of all but the last of several datagrams that were received as one (UDP_GRO).
  size_t segment_bytes = 0;
};

// Reads the control messages and the address of a message of `bytes`, as recvmmsg left them.
// Returns false and counts the reason if the message is to be dropped. `own` is the address that
// its socket is bound to; if that is a wildcard, a control message has to name the destination.
bool ReadDatagramInfo(const msghdr& message, size_t bytes, const transport::Gid& own,
                      DatagramInfo* info, PortDrops* drops);

// A received message as a run of packets of one flow. Computes their ICRCs, and by them finds the
// identifications of IPv4 (SolveIdentification); a packet whose ICRC none explains has 0.
class DatagramRun {
 public:
  DatagramRun() = default;
  DatagramRun(std::span<const uint8_t> bytes, const DatagramInfo& info);

  // The next packet, until the next call; nullptr when there is none left. Its ICRC lies behind it.
  const transport::ReceivedPacket* Next(PeerIdentifications* peers, PortDrops* drops);
  bool empty() const { return rest_.empty(); }

 private:
  void Read(std::span<const uint8_t> datagram, PeerIdentifications* peers, PortDrops* drops);
  uint32_t IcrcDifferenceOf(std::span<const uint8_t> datagram);

  std::span<const uint8_t> rest_;
  DatagramInfo info_;
  transport::ReceivedPacket packet_;
  // Of datagrams of the same length: that of their headers, and the ICRC's state behind them, for
  // IPv4 with an identification of 0.
  size_t datagram_bytes_ = 0;
  size_t header_bytes_ = 0;
  uint32_t crc_after_headers_ = 0;
};

}  // namespace uroce::nic
