#include "transport/wire/ipv4.h"

#include <cstring>

#include "transport/wire/byte_order.h"

namespace uroce::transport {
namespace {

constexpr uint8_t kVersionAndLength = 0x45;  // version 4, five words
constexpr uint16_t kDontFragment = 0x4000;
constexpr uint16_t kFragment = 0x3fff;  // MF and the fragment offset
constexpr size_t kChecksumOffset = 10;

// The one's complement sum of RFC 1071 over the header. Adding words in the machine's byte order and
// folding gives the sum in the machine's byte order.
uint16_t Sum(const uint8_t* bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i < Ipv4Header::kBytes; i += 4) {
    uint32_t word;
    std::memcpy(&word, bytes + i, sizeof word);
    sum += word;
  }
  sum = (sum & 0xffff'ffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

}  // namespace

std::optional<Ipv4Header> ParseIpv4(const uint8_t* bytes) {
  if (bytes[0] != kVersionAndLength) return std::nullopt;
  if ((Load16(bytes + 6) & kFragment) != 0) return std::nullopt;
  if (Sum(bytes) != 0xffff) return std::nullopt;
  Ipv4Header ip{.traffic_class = bytes[1],
                .total_length = Load16(bytes + 2),
                .identification = Load16(bytes + 4),
                .time_to_live = bytes[8],
                .protocol = bytes[9]};
  std::memcpy(ip.source.data(), bytes + 12, 4);
  std::memcpy(ip.destination.data(), bytes + 16, 4);
  return ip;
}

void EmitIpv4(const Ipv4Header& ip, uint8_t* bytes) {
  bytes[0] = kVersionAndLength;
  bytes[1] = ip.traffic_class;
  Store16(ip.total_length, bytes + 2);
  Store16(ip.identification, bytes + 4);
  Store16(kDontFragment, bytes + 6);
  bytes[8] = ip.time_to_live;
  bytes[9] = ip.protocol;
  Store16(0, bytes + kChecksumOffset);
  std::memcpy(bytes + 12, ip.source.data(), 4);
  std::memcpy(bytes + 16, ip.destination.data(), 4);
  const auto checksum = static_cast<uint16_t>(~Sum(bytes));
  std::memcpy(bytes + kChecksumOffset, &checksum, sizeof checksum);
}

void SetIpv4TotalLength(uint16_t total_length, uint8_t* bytes) {
  Store16(total_length, bytes + 2);
  // RFC 1624, equation 3, with an old value of zero: HC' = ~(~HC + m').
  uint32_t sum = static_cast<uint16_t>(~Load16(bytes + kChecksumOffset));
  sum += total_length;
  sum = (sum & 0xffff) + (sum >> 16);
  Store16(static_cast<uint16_t>(~sum), bytes + kChecksumOffset);
}

}  // namespace uroce::transport
