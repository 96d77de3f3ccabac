#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "transport/ids.h"

namespace uroce::nic {

// A socket does not show the identification of an IPv4 packet, which the ICRC covers. But the ICRC
// is linear: its difference from the ICRC of the packet with identification 0 tells the
// identification, if any explains it.
//
// `difference` is in bits of the ICRC; `ip_bytes` the length of the IP packet, a multiple of 4 up
// to transport::kMaxFrameBytes. nullopt: the packet was damaged.
std::optional<uint16_t> SolveIdentification(uint32_t difference, size_t ip_bytes);

// The change of a packet's ICRC, to be XORed, when identification and UDP source port change from
// `old` to `now`. `udp_bytes` as the UDP header has it, a multiple of 4. IPv6 has no
// identification: give 0 for both.
struct CoveredFields {
  uint16_t identification = 0;
  uint16_t source_port = 0;

  bool operator==(const CoveredFields&) const = default;
};
uint32_t IcrcChange(const CoveredFields& old, const CoveredFields& now, size_t udp_bytes);

// Decides which identifications to believe. Of damaged packets, one in 2^16 has an ICRC that some
// identification explains. Peers that send from a UDP socket number the packets of a call from 0,
// so that only 64 identifications can come from them: then it is one in 2^26. Others, such as
// rdma_rxe, keep counting.
//
//             128 below 64 in a row: no counter does that
//      +-----+ ------------------------------------------> +-------+
//      | any |                                             | exact |
//      +-----+ <------------------------------------------ +-------+
//             4 others in a row: another host took the address
class PeerIdentifications {
 public:
  static constexpr uint16_t kMaxSegments = 64;  // of one call
  static constexpr int kSmallInARow = 128;
  static constexpr int kLargeInARow = 4;

  // Whether to believe a packet of `peer` whose ICRC `identification` explains.
  bool Accept(const transport::Gid& peer, uint16_t identification);

 private:
  struct Peer {
    transport::Gid gid;
    int small_in_a_row = 0;
    int large_in_a_row = 0;
  };
  // A peer that shares its entry with another may be taken for one that counts: nothing is lost.
  std::array<Peer, 256> peers_{};
};

}  // namespace uroce::nic
