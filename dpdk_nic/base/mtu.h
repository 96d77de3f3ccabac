#pragma once

#include <cstdint>

// MTUs of a link: the bytes that an Ethernet frame carries behind its header.
namespace uroce::nic {

// Large enough for a path MTU of 4096 with the longest headers over IPv6.
inline constexpr uint32_t kDefaultLinkMtuBytes = 4'200;
// The smallest MTU that IPv4 hosts must take (RFC 791), and the largest of common Ethernet
// switches.
inline constexpr uint32_t kMinMtuBytes = 576;
inline constexpr uint32_t kMaxMtuBytes = 9'600;

}  // namespace uroce::nic
