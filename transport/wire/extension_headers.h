#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transport/wire/byte_order.h"
#include "transport/wire/packet.h"

namespace uroce::transport {

// The largest set of extension headers: AtomicETH.
inline constexpr size_t kMaxExtensionBytes = AtomicEth::kBytes;

inline constexpr size_t kImmediateBytes = 4;  // ImmDt (IBA 9.3.6)
inline constexpr size_t kIethBytes = 4;       // IETH (IBA 9.3.7)

// Bytes between the BTH and the payload.
inline size_t ExtensionBytes(const Opcode& opcode) {
  return (opcode.HasDeth() ? Deth::kBytes : 0) + (opcode.HasReth() ? Reth::kBytes : 0) +
         (opcode.HasAtomicEth() ? AtomicEth::kBytes : 0) + (opcode.HasAeth() ? Aeth::kBytes : 0) +
         (opcode.HasAtomicAckEth() ? AtomicEth::kAckBytes : 0) +
         (opcode.HasImmediate() ? kImmediateBytes : 0) + (opcode.HasIeth() ? kIethBytes : 0);
}

// Read or write the extension headers that headers.opcode has, ExtensionBytes(headers.opcode) of
// them. Parsing makes the fields of all others zero.
inline void ParseExtensions(const uint8_t* bytes, TransportHeaders& headers) {
  const Opcode& opcode = headers.opcode;
  const auto take = [&bytes](size_t count) {
    const uint8_t* const taken = bytes;
    bytes += count;
    return taken;
  };
  headers.deth = opcode.HasDeth() ? ParseDeth(take(Deth::kBytes)) : Deth{};
  headers.reth = opcode.HasReth() ? ParseReth(take(Reth::kBytes)) : Reth{};
  headers.atomic = opcode.HasAtomicEth() ? ParseAtomicEth(take(AtomicEth::kBytes)) : AtomicEth{};
  headers.aeth = opcode.HasAeth() ? ParseAeth(take(Aeth::kBytes)) : Aeth{};
  headers.atomic_original = opcode.HasAtomicAckEth() ? Load64(take(AtomicEth::kAckBytes)) : 0;
  headers.immediate = 0;
  if (opcode.HasImmediate()) std::memcpy(&headers.immediate, take(kImmediateBytes), 4);
  headers.invalidate_rkey = opcode.HasIeth() ? RKey{Load32(take(kIethBytes))} : RKey{};
}

inline void EmitExtensions(const TransportHeaders& headers, uint8_t* bytes) {
  const Opcode& opcode = headers.opcode;
  if (opcode.HasDeth()) {
    EmitDeth(headers.deth, bytes);
    bytes += Deth::kBytes;
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

}  // namespace uroce::transport
