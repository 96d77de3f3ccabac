#pragma once

#include <cstdint>
#include <optional>

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

// nullopt for an opcode that the specification does not define or that this device does not speak.
std::optional<Opcode> ParseOpcode(uint8_t bth_opcode);

// The inverse; the opcode must be one that ParseOpcode can give.
uint8_t EncodeOpcode(const Opcode& opcode);

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
