#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transport/wire/byte_order.h"
#include "transport/wire/packet.h"

namespace uroce::transport {

// The largest set of extension headers: XRCETH and AtomicETH.
inline constexpr size_t kMaxExtensionBytes = Xrceth::kBytes + AtomicEth::kBytes;

// Bytes between the BTH and the payload.
inline size_t ExtensionBytes(const Opcode& opcode) { return RowOf(opcode).extension_bytes; }

namespace extension_internal {

// One header after the other, in wire order.
inline void ParseOthers(const uint8_t* bytes, TransportHeaders& headers) {
  const Opcode& opcode = headers.opcode;
  const auto take = [&bytes](size_t count) {
    const uint8_t* const taken = bytes;
    bytes += count;
    return taken;
  };
  if (opcode.HasDeth()) headers.deth = ParseDeth(take(Deth::kBytes));
  if (opcode.HasXrceth()) headers.xrceth = ParseXrceth(take(Xrceth::kBytes));
  if (opcode.HasFeth()) headers.feth = ParseFeth(take(Feth::kBytes));
  if (opcode.HasReth()) headers.reth = ParseReth(take(Reth::kBytes));
  if (opcode.HasAtomicEth()) headers.atomic = ParseAtomicEth(take(AtomicEth::kBytes));
  if (opcode.HasAeth()) headers.aeth = ParseAeth(take(Aeth::kBytes));
  if (opcode.HasAtomicAckEth()) headers.atomic_original = Load64(take(AtomicEth::kAckBytes));
  if (opcode.HasImmediate()) std::memcpy(&headers.immediate, take(kImmediateBytes), 4);
  if (opcode.HasIeth()) headers.invalidate_rkey = RKey{Load32(take(kIethBytes))};
}

inline void EmitOthers(const TransportHeaders& headers, uint8_t* bytes) {
  const Opcode& opcode = headers.opcode;
  if (opcode.HasDeth()) {
    EmitDeth(headers.deth, bytes);
    bytes += Deth::kBytes;
  }
  if (opcode.HasXrceth()) {
    EmitXrceth(headers.xrceth, bytes);
    bytes += Xrceth::kBytes;
  }
  if (opcode.HasFeth()) {
    EmitFeth(headers.feth, bytes);
    bytes += Feth::kBytes;
  }
  if (opcode.HasReth()) {
    EmitReth(headers.reth, bytes);
    bytes += Reth::kBytes;
  }
  if (opcode.HasAtomicEth()) EmitAtomicEth(headers.atomic, bytes);
  if (opcode.HasAeth()) {
    EmitAeth(headers.aeth, bytes);
    bytes += Aeth::kBytes;
  }
  if (opcode.HasAtomicAckEth()) Store64(headers.atomic_original, bytes);
  if (opcode.HasImmediate()) std::memcpy(bytes, &headers.immediate, kImmediateBytes);
  if (opcode.HasIeth()) Store32(headers.invalidate_rkey.value, bytes);
}

}  // namespace extension_internal

// Read or write the extension headers of headers.opcode, whose row is `row`: row.extension_bytes
// bytes. Parsing leaves the fields of other headers alone.
inline void ParseExtensions(const OpcodeRow& row, const uint8_t* bytes, TransportHeaders& headers) {
  switch (row.headers) {
    case ExtensionHeaders::kNone:
      return;
    case ExtensionHeaders::kReth:
      headers.reth = ParseReth(bytes);
      return;
    case ExtensionHeaders::kAeth:
      headers.aeth = ParseAeth(bytes);
      return;
    default:
      return extension_internal::ParseOthers(bytes, headers);
  }
}

inline void EmitExtensions(const OpcodeRow& row, const TransportHeaders& headers, uint8_t* bytes) {
  switch (row.headers) {
    case ExtensionHeaders::kNone:
      return;
    case ExtensionHeaders::kReth:
      return EmitReth(headers.reth, bytes);
    case ExtensionHeaders::kAeth:
      return EmitAeth(headers.aeth, bytes);
    default:
      return extension_internal::EmitOthers(headers, bytes);
  }
}

}  // namespace uroce::transport
