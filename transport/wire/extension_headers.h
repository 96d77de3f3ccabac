#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/wire/packet.h"

namespace uroce::transport {

// The largest set of extension headers: AtomicETH.
inline constexpr size_t kMaxExtensionBytes = AtomicEth::kBytes;

// Bytes between the BTH and the payload.
size_t ExtensionBytes(const Opcode& opcode);

// Read or write the extension headers that headers.opcode has, ExtensionBytes(headers.opcode) of
// them. Parsing leaves the fields of all others as they are.
void ParseExtensions(const uint8_t* bytes, TransportHeaders& headers);
void EmitExtensions(const TransportHeaders& headers, uint8_t* bytes);

}  // namespace uroce::transport
