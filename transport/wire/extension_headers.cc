#include "transport/wire/extension_headers.h"

#include <cstring>

#include "transport/wire/byte_order.h"

namespace uroce::transport {
namespace {

constexpr size_t kImmediateBytes = 4;  // ImmDt (IBA 9.3.6)
constexpr size_t kIethBytes = 4;       // IETH (IBA 9.3.7)

}  // namespace

size_t ExtensionBytes(const Opcode& opcode) {
  return (opcode.HasDeth() ? Deth::kBytes : 0) + (opcode.HasReth() ? Reth::kBytes : 0) +
         (opcode.HasAtomicEth() ? AtomicEth::kBytes : 0) + (opcode.HasAeth() ? Aeth::kBytes : 0) +
         (opcode.HasAtomicAckEth() ? AtomicEth::kAckBytes : 0) +
         (opcode.HasImmediate() ? kImmediateBytes : 0) + (opcode.HasIeth() ? kIethBytes : 0);
}

void ParseExtensions(const uint8_t* bytes, TransportHeaders& headers) {
  const Opcode& opcode = headers.opcode;
  if (opcode.HasDeth()) {
    headers.deth = ParseDeth(bytes);
    bytes += Deth::kBytes;
  }
  if (opcode.HasReth()) {
    headers.reth = ParseReth(bytes);
    bytes += Reth::kBytes;
  }
  if (opcode.HasAtomicEth()) headers.atomic = ParseAtomicEth(bytes);
  if (opcode.HasAeth()) {
    headers.aeth = ParseAeth(bytes);
    bytes += Aeth::kBytes;
  }
  if (opcode.HasAtomicAckEth()) headers.atomic_original = Load64(bytes);
  if (opcode.HasImmediate()) std::memcpy(&headers.immediate, bytes, kImmediateBytes);
  if (opcode.HasIeth()) headers.invalidate_rkey = RKey{Load32(bytes)};
}

void EmitExtensions(const TransportHeaders& headers, uint8_t* bytes) {
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
