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

inline constexpr size_t kImmediateBytes = 4;  // ImmDt (IBA 9.3.6)
inline constexpr size_t kIethBytes = 4;       // IETH (IBA 9.3.7)

// The extension headers of a packet. For nearly all packets one table look-up says none, a RETH or
// an AETH; for the others each header is tested.
enum class ExtensionHeaders : uint8_t { kNone, kReth, kAeth, kOthers };

inline ExtensionHeaders ExtensionHeadersOf(const Opcode& opcode) {
  constexpr size_t kOperations = static_cast<size_t>(Operation::kAtomicWrite) + 1;
  constexpr size_t kPositions = 4;
  static constexpr auto kTable = [] {
    std::array<ExtensionHeaders, kOperations * kPositions> table{};
    for (size_t i = 0; i < table.size(); ++i) {
      const Opcode row{.operation = static_cast<Operation>(i / kPositions),
                       .position = static_cast<Position>(i % kPositions)};
      const bool has_others = row.HasAtomicEth() || row.HasAtomicAckEth() || row.HasFeth();
      table[i] = has_others      ? ExtensionHeaders::kOthers
                 : row.HasReth() ? ExtensionHeaders::kReth
                 : row.HasAeth() ? ExtensionHeaders::kAeth
                                 : ExtensionHeaders::kNone;
    }
    return table;
  }();
  const bool has_own_header = opcode.service > Service::kUnreliableConnection;  // DETH, XRCETH
  if (has_own_header || opcode.suffix != Suffix::kNone) return ExtensionHeaders::kOthers;
  return kTable[static_cast<size_t>(opcode.operation) * kPositions +
                static_cast<size_t>(opcode.position)];
}

// Bytes between the BTH and the payload.
inline size_t ExtensionBytes(const Opcode& opcode) {
  switch (ExtensionHeadersOf(opcode)) {
    case ExtensionHeaders::kNone:
      return 0;
    case ExtensionHeaders::kReth:
      return Reth::kBytes;
    case ExtensionHeaders::kAeth:
      return Aeth::kBytes;
    default:
      return (opcode.HasDeth() ? Deth::kBytes : 0) + (opcode.HasXrceth() ? Xrceth::kBytes : 0) +
             (opcode.HasFeth() ? Feth::kBytes : 0) + (opcode.HasReth() ? Reth::kBytes : 0) +
             (opcode.HasAtomicEth() ? AtomicEth::kBytes : 0) +
             (opcode.HasAeth() ? Aeth::kBytes : 0) +
             (opcode.HasAtomicAckEth() ? AtomicEth::kAckBytes : 0) +
             (opcode.HasImmediate() ? kImmediateBytes : 0) + (opcode.HasIeth() ? kIethBytes : 0);
  }
}

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

// Read or write the extension headers of headers.opcode, ExtensionBytes(headers.opcode) bytes.
// Parsing leaves the fields of other headers alone.
inline void ParseExtensions(const uint8_t* bytes, TransportHeaders& headers) {
  switch (ExtensionHeadersOf(headers.opcode)) {
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

inline void EmitExtensions(const TransportHeaders& headers, uint8_t* bytes) {
  switch (ExtensionHeadersOf(headers.opcode)) {
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
