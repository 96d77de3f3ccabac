#include "transport/wire/opcode.h"

#include <utility>

#include "transport/wire/aeth.h"
#include "transport/wire/atomic_eth.h"
#include "transport/wire/deth.h"
#include "transport/wire/feth.h"
#include "transport/wire/reth.h"
#include "transport/wire/xrceth.h"

namespace uroce::transport {
namespace {

constexpr int kServiceShift = 5;

// Every opcode as a number below kOpcodes, to find its code.
constexpr size_t kOpcodes = 8 * 16 * 4 * 4;
constexpr size_t IndexOf(const Opcode& opcode) {
  return static_cast<size_t>(opcode.service) << 8 | static_cast<size_t>(opcode.operation) << 4 |
         static_cast<size_t>(opcode.position) << 2 | static_cast<size_t>(opcode.suffix);
}

constexpr bool Has(Service service, Offer offer) {
  switch (service) {
    case Service::kReliableConnection:
    case Service::kExtendedReliableConnection:
      return offer <= Offer::kReliable;
    case Service::kUnreliableConnection:
      return offer <= Offer::kConnections;
    case Service::kUnreliableDatagram:
      return offer == Offer::kAll;
    case Service::kUroce:
      return offer == Offer::kUroce;
    default:
      return false;
  }
}

// Not by FindOperation: when g++ compiles for the sanitizer of undefined behaviour, no comparison
// with a null pointer is a constant.
constexpr std::optional<Opcode> Find(uint8_t code) {
  const auto service = static_cast<Service>(code >> kServiceShift);
  for (const OperationRow& row : kOperations) {
    if (row.code != code % (1 << kServiceShift) || !Has(service, row.offer)) continue;
    return Opcode{service, row.operation, row.position, row.suffix};
  }
  return std::nullopt;
}

constexpr ExtensionHeaders HeadersOf(const Opcode& opcode) {
  const bool has_others = opcode.HasDeth() || opcode.HasXrceth() || opcode.HasFeth() ||
                          opcode.HasAtomicEth() || opcode.HasAtomicAckEth() ||
                          opcode.suffix != Suffix::kNone;
  if (has_others) return ExtensionHeaders::kOthers;
  if (opcode.HasReth()) return ExtensionHeaders::kReth;
  return opcode.HasAeth() ? ExtensionHeaders::kAeth : ExtensionHeaders::kNone;
}

constexpr uint8_t ExtensionBytesOf(const Opcode& opcode) {
  const size_t bytes =
      (opcode.HasDeth() ? Deth::kBytes : 0) + (opcode.HasXrceth() ? Xrceth::kBytes : 0) +
      (opcode.HasFeth() ? Feth::kBytes : 0) + (opcode.HasReth() ? Reth::kBytes : 0) +
      (opcode.HasAtomicEth() ? AtomicEth::kBytes : 0) + (opcode.HasAeth() ? Aeth::kBytes : 0) +
      (opcode.HasAtomicAckEth() ? AtomicEth::kAckBytes : 0) +
      (opcode.HasImmediate() ? kImmediateBytes : 0) + (opcode.HasIeth() ? kIethBytes : 0);
  return static_cast<uint8_t>(bytes);
}

constexpr OpcodeRow MakeRow(uint8_t code) {
  const auto opcode = Find(code);
  if (!opcode) return {};
  return {.opcode = *opcode,
          .is_known = true,
          .has_payload = opcode->HasPayload(),
          .headers = HeadersOf(*opcode),
          .extension_bytes = ExtensionBytesOf(*opcode)};
}

template <size_t... kCodes>
constexpr auto MakeRows(std::index_sequence<kCodes...> /*codes*/) {
  return std::array<OpcodeRow, sizeof...(kCodes)>{MakeRow(kCodes)...};
}

constexpr auto kRows = MakeRows(std::make_index_sequence<256>());

constexpr std::array<uint8_t, kOpcodes> kCodeOf = [] {
  std::array<uint8_t, kOpcodes> code_of{};
  for (size_t code = 0; code < kRows.size(); ++code) {
    if (kRows[code].is_known) code_of[IndexOf(kRows[code].opcode)] = static_cast<uint8_t>(code);
  }
  return code_of;
}();

}  // namespace

constexpr std::array<OpcodeRow, 256> kOpcodeRows = kRows;

uint8_t EncodeOpcode(const Opcode& opcode) { return kCodeOf[IndexOf(opcode)]; }

}  // namespace uroce::transport
