#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace uroce::nic {

// Where the parts of a RoCEv2 frame begin, in bytes from the beginning of the frame. Found without
// looking at any checksum, so that damaged frames have parts too.
struct RoceFrame {
  bool is_ipv6;
  size_t bth;
  size_t payload;  // behind the extension headers; `icrc` if there is none
  size_t icrc;
  size_t end;  // behind the ICRC; Ethernet padding may follow
};

// nullopt unless the frame is UDP to port 4791 over IPv4 or IPv6, with room for a BTH and an ICRC.
// The frame may lie in memory that another process changes: every byte is read once.
std::optional<RoceFrame> FindRoce(std::span<const uint8_t> frame);

// Sets the ECN field of the IP header to "congestion experienced" (RFC 3168), as a congested switch
// does, and corrects the checksum of an IPv4 header. The ICRC does not cover the field.
void MarkCongestionExperienced(const RoceFrame& roce, std::span<uint8_t> frame);

}  // namespace uroce::nic
