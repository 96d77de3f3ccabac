#include "dpdk_nic/port/udp/identification.h"

#include <algorithm>

#include "transport/wire/crc32_shift.h"
#include "transport/wire/icrc.h"
#include "transport/wire/ipv4.h"

namespace uroce::nic {
namespace {

constexpr size_t kIdentificationOffset = 4;  // in the IPv4 header
// From the identification to the UDP source port behind it.
constexpr size_t kIdentificationToUdp = transport::Ipv4Header::kBytes - kIdentificationOffset;

// A big-endian field of two bytes, as the difference that it makes at its place.
constexpr uint32_t AsDifference(uint16_t field) {
  return static_cast<uint32_t>(field >> 8 | (field & 0xff) << 8);
}

}  // namespace

std::optional<uint16_t> SolveIdentification(uint32_t difference, size_t ip_bytes) {
  if (difference == 0) return 0;
  const size_t covered = ip_bytes - kIdentificationOffset - transport::kIcrcBytes;
  const uint32_t field = transport::RewindCrc32(difference, covered);
  if (field >> 16 != 0) return std::nullopt;
  return static_cast<uint16_t>(AsDifference(static_cast<uint16_t>(field)));
}

uint32_t IcrcChange(const CoveredFields& old, const CoveredFields& now, size_t udp_bytes) {
  const auto changed = [](uint16_t a, uint16_t b) {
    return AsDifference(static_cast<uint16_t>(a ^ b));
  };
  uint32_t difference = changed(old.source_port, now.source_port);
  if (old.identification != now.identification) {
    difference ^= transport::AdvanceCrc32(changed(old.identification, now.identification),
                                          kIdentificationToUdp);
  }
  if (difference == 0) return 0;
  return transport::AdvanceCrc32(difference, udp_bytes - transport::kIcrcBytes);
}

bool PeerIdentifications::Accept(const transport::Gid& peer, uint16_t identification) {
  const auto& b = peer.bytes;
  Peer& entry = peers_[(b[15] + 31u * b[14] + 17u * b[13]) % peers_.size()];
  if (entry.gid != peer) entry = {.gid = peer};
  if (identification < kMaxSegments) {
    entry.small_in_a_row = std::min(entry.small_in_a_row + 1, kSmallInARow);
    entry.large_in_a_row = 0;
    return true;
  }
  const bool is_exact = entry.small_in_a_row == kSmallInARow;
  if (is_exact && ++entry.large_in_a_row < kLargeInARow) return false;
  entry.small_in_a_row = 0;
  return true;
}

}  // namespace uroce::nic
