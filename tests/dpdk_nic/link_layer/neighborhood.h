#pragma once

#include "transport/ids.h"

namespace uroce::nic {

// The host under test, a neighbour, and another neighbour.
inline constexpr transport::MacAddress kOurMac = {0x02, 0, 0, 0, 0, 0x0a};
inline constexpr transport::MacAddress kPeerMac = {0x02, 0, 0, 0, 0, 0x0b};
inline constexpr transport::MacAddress kOtherMac = {0x02, 0, 0, 0, 0, 0x0c};
inline constexpr transport::Gid kOurIpv4 = transport::Gid::FromIpv4({192, 0, 2, 1});
inline constexpr transport::Gid kPeerIpv4 = transport::Gid::FromIpv4({192, 0, 2, 2});
inline constexpr transport::Gid kOurLinkLocal = transport::Gid::LinkLocal(kOurMac);
inline constexpr transport::Gid kPeerLinkLocal = transport::Gid::LinkLocal(kPeerMac);

}  // namespace uroce::nic
