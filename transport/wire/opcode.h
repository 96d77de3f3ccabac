#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace uroce::transport {

// Bits 7:5 of the BTH opcode.
enum class Service : uint8_t {
  kReliableConnection = 0,
  kUnreliableConnection = 1,
  kReliableDatagram = 2,
  kUnreliableDatagram = 3,
  kCongestionNotification = 4,
  kExtendedReliableConnection = 5,
};

enum class Operation : uint8_t {
  kSend,
  kWrite,
  kReadRequest,
  kReadResponse,
  kAcknowledge,
  kAtomicAcknowledge,
  kCompareAndSwap,
  kFetchAndAdd,
  kFlush,
  kAtomicWrite,
};

// The position of a packet in its message.
enum class Position : uint8_t { kFirst, kMiddle, kLast, kOnly };

constexpr Position PositionOf(bool first, bool last) {
  if (first) return last ? Position::kOnly : Position::kFirst;
  return last ? Position::kLast : Position::kMiddle;
}

// The extension header that the end of a SEND or WRITE may have besides: ImmDt or IETH.
enum class Suffix : uint8_t { kNone, kImmediate, kInvalidate };

// A BTH opcode, parsed once. Operations of a single packet have Position::kOnly.
struct alignas(4) Opcode {
  Service service = Service::kReliableConnection;
  Operation operation = Operation::kSend;
  Position position = Position::kOnly;
  Suffix suffix = Suffix::kNone;

  constexpr bool operator==(const Opcode&) const = default;

  constexpr bool StartsMessage() const {
    return position == Position::kFirst || position == Position::kOnly;
  }
  constexpr bool EndsMessage() const {
    return position == Position::kLast || position == Position::kOnly;
  }
  // Travels from responder to requester.
  constexpr bool IsResponse() const {
    return operation == Operation::kReadResponse || operation == Operation::kAcknowledge ||
           operation == Operation::kAtomicAcknowledge;
  }

  // Its messages may have several packets.
  constexpr bool HasPositions() const {
    return operation == Operation::kSend || operation == Operation::kWrite ||
           operation == Operation::kReadResponse;
  }

  // The extension headers that lie between BTH and payload, in wire order (IBA 9.2, table 38).
  constexpr bool HasDeth() const { return service == Service::kUnreliableDatagram; }
  constexpr bool HasXrceth() const {
    return service == Service::kExtendedReliableConnection && !IsResponse();
  }
  constexpr bool HasFeth() const { return operation == Operation::kFlush; }
  constexpr bool HasReth() const {
    return operation == Operation::kReadRequest || operation == Operation::kFlush ||
           operation == Operation::kAtomicWrite ||
           (operation == Operation::kWrite && StartsMessage());
  }
  constexpr bool HasAtomicEth() const {
    return operation == Operation::kCompareAndSwap || operation == Operation::kFetchAndAdd;
  }
  constexpr bool HasAeth() const {
    return operation == Operation::kAcknowledge || operation == Operation::kAtomicAcknowledge ||
           (operation == Operation::kReadResponse && position != Position::kMiddle);
  }
  constexpr bool HasAtomicAckEth() const { return operation == Operation::kAtomicAcknowledge; }
  constexpr bool HasImmediate() const { return suffix == Suffix::kImmediate; }
  constexpr bool HasIeth() const { return suffix == Suffix::kInvalidate; }
  constexpr bool HasPayload() const {
    return HasPositions() || operation == Operation::kAtomicWrite;
  }
};

// The extension headers of a packet. Nearly all packets have none, a RETH or an AETH; for the
// others each header is tested.
enum class ExtensionHeaders : uint8_t { kNone, kReth, kAeth, kOthers };

inline constexpr size_t kImmediateBytes = 4;  // ImmDt (IBA 9.3.6)
inline constexpr size_t kIethBytes = 4;       // IETH (IBA 9.3.7)

// One row an opcode of the BTH. Parser, builder and printer read it.
struct OpcodeRow {
  Opcode opcode;
  bool is_known = false;  // the specification defines it, and this device speaks it
  bool has_payload = false;
  ExtensionHeaders headers = ExtensionHeaders::kNone;
  uint8_t extension_bytes = 0;  // of the headers between BTH and payload
};
extern const std::array<OpcodeRow, 256> kOpcodeRows;
static_assert(sizeof(OpcodeRow) == 8);

// nullopt for an opcode that is not known.
inline std::optional<Opcode> ParseOpcode(uint8_t bth_opcode) {
  const OpcodeRow& row = kOpcodeRows[bth_opcode];
  return row.is_known ? std::optional(row.opcode) : std::nullopt;
}

// The inverse; the opcode must be one that ParseOpcode can give.
uint8_t EncodeOpcode(const Opcode& opcode);
inline const OpcodeRow& RowOf(const Opcode& opcode) { return kOpcodeRows[EncodeOpcode(opcode)]; }

// One row an operation code, bits 4:0 of the BTH opcode (IBA table 38). The codes mean the same in
// every service that has them.
struct OperationRow {
  uint8_t code;
  Operation operation;
  Position position;
  Suffix suffix = Suffix::kNone;
};
// UC and XRC have these, and UD those of one packet among the SENDs.
inline constexpr OperationRow kSendAndWrite[] = {
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
// XRC has these, too.
inline constexpr OperationRow kReadAndAtomic[] = {
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

// A known opcode of a reliable connection.
constexpr Opcode ReliableOpcode(uint8_t bth_opcode) {
  for (const auto rows : {std::span<const OperationRow>(kSendAndWrite),
                          std::span<const OperationRow>(kReadAndAtomic)}) {
    for (const OperationRow& row : rows) {
      if (row.code == bth_opcode) return {{}, row.operation, row.position, row.suffix};
    }
  }
  return {};
}

// The opcodes of nearly all packets of a reliable connection (IBA table 38).
inline constexpr uint8_t kRcSendFirst = 0x00;
inline constexpr uint8_t kRcSendMiddle = 0x01;
inline constexpr uint8_t kRcSendLast = 0x02;
inline constexpr uint8_t kRcSendOnly = 0x04;
inline constexpr uint8_t kRcWriteFirst = 0x06;
inline constexpr uint8_t kRcWriteMiddle = 0x07;
inline constexpr uint8_t kRcWriteLast = 0x08;
inline constexpr uint8_t kRcWriteOnly = 0x0a;
inline constexpr uint8_t kRcReadResponseFirst = 0x0d;
inline constexpr uint8_t kRcReadResponseMiddle = 0x0e;
inline constexpr uint8_t kRcReadResponseLast = 0x0f;
inline constexpr uint8_t kRcReadResponseOnly = 0x10;
inline constexpr uint8_t kRcAcknowledge = 0x11;

}  // namespace uroce::transport
