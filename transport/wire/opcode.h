#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace uroce::transport {

// Bits 7:5 of the BTH opcode.
enum class Service : uint8_t {
  kReliableConnection = 0,
  kUnreliableConnection = 1,
  kReliableDatagram = 2,
  kUnreliableDatagram = 3,
  kCongestionNotification = 4,
  kExtendedReliableConnection = 5,
  kUroce = 6,  // manufacturer-specific (IBA table 38): between hosts that have found each other
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
  kSelectiveAcknowledge,
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
           operation == Operation::kAtomicAcknowledge ||
           operation == Operation::kSelectiveAcknowledge;
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
           operation == Operation::kSelectiveAcknowledge ||
           (operation == Operation::kReadResponse && position != Position::kMiddle);
  }
  constexpr bool HasAtomicAckEth() const { return operation == Operation::kAtomicAcknowledge; }
  constexpr bool HasImmediate() const { return suffix == Suffix::kImmediate; }
  constexpr bool HasIeth() const { return suffix == Suffix::kInvalidate; }
  constexpr bool HasPayload() const {
    return HasPositions() || operation == Operation::kAtomicWrite ||
           operation == Operation::kSelectiveAcknowledge;
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
  bool is_known = false;  // this device speaks it
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

// The services that have an operation: those of datagrams and connections, all connections, RC and
// XRC, or none of the specification's.
enum class Offer : uint8_t { kAll, kConnections, kReliable, kUroce };

// One row an operation code, bits 4:0 of the BTH opcode (IBA table 38), the same in every service
// that has it. `name`: without that of the service, for printer, captures and fault scenarios.
struct OperationRow {
  uint8_t code;
  Operation operation;
  Position position;
  Suffix suffix;
  Offer offer;
  std::string_view name;
};
inline constexpr OperationRow kOperations[] = {
    {0x00, Operation::kSend, Position::kFirst, Suffix::kNone, Offer::kConnections, "SEND_FIRST"},
    {0x01, Operation::kSend, Position::kMiddle, Suffix::kNone, Offer::kConnections, "SEND_MIDDLE"},
    {0x02, Operation::kSend, Position::kLast, Suffix::kNone, Offer::kConnections, "SEND_LAST"},
    {0x03, Operation::kSend, Position::kLast, Suffix::kImmediate, Offer::kConnections,
     "SEND_LAST_IMM"},
    {0x04, Operation::kSend, Position::kOnly, Suffix::kNone, Offer::kAll, "SEND_ONLY"},
    {0x05, Operation::kSend, Position::kOnly, Suffix::kImmediate, Offer::kAll, "SEND_ONLY_IMM"},
    {0x06, Operation::kWrite, Position::kFirst, Suffix::kNone, Offer::kConnections, "WRITE_FIRST"},
    {0x07, Operation::kWrite, Position::kMiddle, Suffix::kNone, Offer::kConnections,
     "WRITE_MIDDLE"},
    {0x08, Operation::kWrite, Position::kLast, Suffix::kNone, Offer::kConnections, "WRITE_LAST"},
    {0x09, Operation::kWrite, Position::kLast, Suffix::kImmediate, Offer::kConnections,
     "WRITE_LAST_IMM"},
    {0x0a, Operation::kWrite, Position::kOnly, Suffix::kNone, Offer::kConnections, "WRITE_ONLY"},
    {0x0b, Operation::kWrite, Position::kOnly, Suffix::kImmediate, Offer::kConnections,
     "WRITE_ONLY_IMM"},
    {0x0c, Operation::kReadRequest, Position::kOnly, Suffix::kNone, Offer::kReliable,
     "READ_REQUEST"},
    {0x0d, Operation::kReadResponse, Position::kFirst, Suffix::kNone, Offer::kReliable,
     "READ_RESPONSE_FIRST"},
    {0x0e, Operation::kReadResponse, Position::kMiddle, Suffix::kNone, Offer::kReliable,
     "READ_RESPONSE_MIDDLE"},
    {0x0f, Operation::kReadResponse, Position::kLast, Suffix::kNone, Offer::kReliable,
     "READ_RESPONSE_LAST"},
    {0x10, Operation::kReadResponse, Position::kOnly, Suffix::kNone, Offer::kReliable,
     "READ_RESPONSE_ONLY"},
    {0x11, Operation::kAcknowledge, Position::kOnly, Suffix::kNone, Offer::kReliable,
     "ACKNOWLEDGE"},
    {0x12, Operation::kAtomicAcknowledge, Position::kOnly, Suffix::kNone, Offer::kReliable,
     "ATOMIC_ACKNOWLEDGE"},
    {0x13, Operation::kCompareAndSwap, Position::kOnly, Suffix::kNone, Offer::kReliable,
     "CMP_SWAP"},
    {0x14, Operation::kFetchAndAdd, Position::kOnly, Suffix::kNone, Offer::kReliable, "FETCH_ADD"},
    {0x16, Operation::kSend, Position::kLast, Suffix::kInvalidate, Offer::kReliable,
     "SEND_LAST_INV"},
    {0x17, Operation::kSend, Position::kOnly, Suffix::kInvalidate, Offer::kReliable,
     "SEND_ONLY_INV"},
    {0x1c, Operation::kFlush, Position::kOnly, Suffix::kNone, Offer::kReliable, "FLUSH"},
    {0x1d, Operation::kAtomicWrite, Position::kOnly, Suffix::kNone, Offer::kReliable,
     "ATOMIC_WRITE"},
    {0x1e, Operation::kSelectiveAcknowledge, Position::kOnly, Suffix::kNone, Offer::kUroce,
     "SELECTIVE_ACKNOWLEDGE"},
};

// nullptr if no service has the operation code of `bth_opcode`.
constexpr const OperationRow* FindOperation(uint8_t bth_opcode) {
  constexpr uint8_t kOperationMask = 0x1f;
  for (const OperationRow& row : kOperations) {
    if (row.code == (bth_opcode & kOperationMask)) return &row;
  }
  return nullptr;
}

// A known opcode of a reliable connection.
constexpr Opcode ReliableOpcode(uint8_t bth_opcode) {
  const OperationRow& row = *FindOperation(bth_opcode);
  return {Service::kReliableConnection, row.operation, row.position, row.suffix};
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
