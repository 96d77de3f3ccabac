#include "transport/wire/opcode.h"

#include <array>
#include <cstddef>
#include <utility>

namespace uroce::transport {
namespace {

struct Row {
  uint8_t operation_code;  // bits 4:0 of the BTH opcode
  Operation operation;
  Position position;
  Suffix suffix = Suffix::kNone;
};

// IBA table 38. The operation codes mean the same in every service that has them.
constexpr Row kSendAndWrite[] = {
    {0x00, Operation::kSend, Position::kFirst},
    {0x01, Operation::kSend, Position::kMiddle},
    {0x02, Operation::kSend, Position::kLast},
    {0x03, Operation::kSend, Position::kLast, Suffix::kImmediate},
    {0x04, Operation::kSend, Position::kOnly},
    {0x05, Operation::kSend, Position::kOnly, Suffix::kImmediate},
    {0x06, Operation::kWrite, Position::kFirst},
    {0x07, Operation::kWrite, Position::kMiddle},
    {0x08, Operation::kWrite, Position::kLast},
    {0x09, Operation::kWrite, Position::kLast, Suffix::kImmediate},
    {0x0a, Operation::kWrite, Position::kOnly},
    {0x0b, Operation::kWrite, Position::kOnly, Suffix::kImmediate},
};
constexpr Row kReadAndAtomic[] = {
    {0x0c, Operation::kReadRequest, Position::kOnly},
    {0x0d, Operation::kReadResponse, Position::kFirst},
    {0x0e, Operation::kReadResponse, Position::kMiddle},
    {0x0f, Operation::kReadResponse, Position::kLast},
    {0x10, Operation::kReadResponse, Position::kOnly},
    {0x11, Operation::kAcknowledge, Position::kOnly},
    {0x12, Operation::kAtomicAcknowledge, Position::kOnly},
    {0x13, Operation::kCompareAndSwap, Position::kOnly},
    {0x14, Operation::kFetchAndAdd, Position::kOnly},
    {0x16, Operation::kSend, Position::kLast, Suffix::kInvalidate},
    {0x17, Operation::kSend, Position::kOnly, Suffix::kInvalidate},
    {0x1c, Operation::kFlush, Position::kOnly},
    {0x1d, Operation::kAtomicWrite, Position::kOnly},
};
constexpr Row kDatagram[] = {
    {0x04, Operation::kSend, Position::kOnly},
    {0x05, Operation::kSend, Position::kOnly, Suffix::kImmediate},
};

constexpr int kServiceShift = 5;

// Every opcode as a number below kOpcodes, to find its code.
constexpr size_t kOpcodes = 8 * 16 * 4 * 4;
constexpr size_t IndexOf(const Opcode& opcode) {
  return static_cast<size_t>(opcode.service) << 8 | static_cast<size_t>(opcode.operation) << 4 |
         static_cast<size_t>(opcode.position) << 2 | static_cast<size_t>(opcode.suffix);
}

template <size_t kRows>
constexpr std::optional<Opcode> Find(uint8_t code, Service service, const Row (&rows)[kRows]) {
  for (const Row& row : rows) {
    if (code == (static_cast<uint8_t>(service) << kServiceShift | row.operation_code)) {
      return Opcode{service, row.operation, row.position, row.suffix};
    }
  }
  return std::nullopt;
}

constexpr std::optional<Opcode> Find(uint8_t code) {
  if (const auto found = Find(code, Service::kReliableConnection, kSendAndWrite)) return found;
  if (const auto found = Find(code, Service::kReliableConnection, kReadAndAtomic)) return found;
  if (const auto found = Find(code, Service::kUnreliableConnection, kSendAndWrite)) return found;
  constexpr auto kExtended = Service::kExtendedReliableConnection;
  if (const auto found = Find(code, kExtended, kSendAndWrite)) return found;
  if (const auto found = Find(code, kExtended, kReadAndAtomic)) return found;
  return Find(code, Service::kUnreliableDatagram, kDatagram);
}

// Built from finished elements: assigning an optional is no constant expression before g++ 12.
template <size_t... kCodes>
constexpr auto FindAll(std::index_sequence<kCodes...> /*codes*/) {
  return std::array<std::optional<Opcode>, sizeof...(kCodes)>{Find(kCodes)...};
}

constexpr auto kByCode = FindAll(std::make_index_sequence<256>());

constexpr std::array<uint8_t, kOpcodes> kCodeOf = [] {
  std::array<uint8_t, kOpcodes> code_of{};
  for (size_t code = 0; code < kByCode.size(); ++code) {
    if (kByCode[code]) code_of[IndexOf(*kByCode[code])] = static_cast<uint8_t>(code);
  }
  return code_of;
}();

}  // namespace

std::optional<Opcode> ParseOpcode(uint8_t bth_opcode) { return kByCode[bth_opcode]; }

uint8_t EncodeOpcode(const Opcode& opcode) { return kCodeOf[IndexOf(opcode)]; }

}  // namespace uroce::transport
