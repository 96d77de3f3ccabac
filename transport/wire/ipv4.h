#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace uroce::transport {

// IPv4 header without options (RFC 791), 20 bytes on the wire. Never a fragment: RoCEv2 packets are
// not fragmented (IBA annex A17), so DF is always set on emit.
struct Ipv4Header {
  static constexpr size_t kBytes = 20;

  uint8_t traffic_class = 0;   // type of service: DSCP and the two ECN bits
  uint16_t total_length = 0;   // of the IP packet, this header included
  uint16_t identification = 0;
  uint8_t time_to_live = 0;
  uint8_t protocol = 0;
  std::array<uint8_t, 4> source{};
  std::array<uint8_t, 4> destination{};

  constexpr bool operator==(const Ipv4Header&) const = default;
};

// nullopt if the version is not 4, there are options, it is a fragment or the checksum is wrong.
std::optional<Ipv4Header> ParseIpv4(const uint8_t* bytes);
void EmitIpv4(const Ipv4Header& ip, uint8_t* bytes);

// Sets the total length of a header that was emitted with a total length of 0, and corrects its
// checksum.
void SetIpv4TotalLength(uint16_t total_length, uint8_t* bytes);

}  // namespace uroce::transport
