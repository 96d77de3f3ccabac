#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/cm/mad.h"
#include "transport/ids.h"
#include "transport/psn.h"
#include "transport/wire/frame_room.h"

namespace uroce::transport {

// Writes the frame that carries a MAD from queue pair 1 of {source_mac, source_gid} to `to`, whose
// GID is of the same IP version and whose Ethernet address is resolved. `out` needs room for 384
// bytes only, not for kMaxFrameBytes. Returns the frame's length in bytes.
size_t EmitMadFrame(const MacAddress& source_mac, const Gid& source_gid, const cm::MadAddress& to,
                    const MadBytes& mad, Psn psn, FrameRoom out);

}  // namespace uroce::transport
