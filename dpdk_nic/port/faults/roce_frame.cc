#include "dpdk_nic/port/faults/roce_frame.h"

#include <algorithm>

#include "transport/wire/bth.h"
#include "transport/wire/byte_order.h"
#include "transport/wire/encapsulation.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/extension_headers.h"
#include "transport/wire/icrc.h"
#include "transport/wire/opcode.h"

namespace uroce::nic {
namespace {

using transport::Bth;
using transport::EthernetHeader;
using transport::Load16;
using transport::Store16;

constexpr size_t kIp = EthernetHeader::kBytes;
constexpr uint8_t kCongestionExperienced = 3;

}  // namespace

std::optional<RoceFrame> FindRoce(std::span<const uint8_t> frame) {
  const auto headers = transport::FindRocePacket(frame);
  if (!headers) return std::nullopt;
  RoceFrame roce{.is_ipv6 = headers->version == transport::IpVersion::kIpv6,
                 .bth = headers->bth_at(),
                 .payload = 0,
                 .icrc = headers->end() - transport::kIcrcBytes,
                 .end = headers->end()};
  const auto opcode = transport::ParseOpcode(frame[roce.bth]);
  const size_t extensions = opcode ? transport::ExtensionBytes(*opcode) : 0;
  roce.payload = std::min(roce.bth + Bth::kBytes + extensions, roce.icrc);
  return roce;
}

void MarkCongestionExperienced(const RoceFrame& roce, std::span<uint8_t> frame) {
  uint8_t* ip = &frame[kIp];
  if (roce.is_ipv6) {
    ip[1] |= kCongestionExperienced << 4;  // the traffic class lies across bytes 0 and 1
    return;
  }
  // RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
  constexpr size_t kChecksum = 10;
  uint32_t sum = static_cast<uint16_t>(~Load16(&ip[kChecksum]));
  sum += static_cast<uint16_t>(~Load16(ip));
  ip[1] |= kCongestionExperienced;
  sum += Load16(ip);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  Store16(static_cast<uint16_t>(~sum), &ip[kChecksum]);
}

}  // namespace uroce::nic
