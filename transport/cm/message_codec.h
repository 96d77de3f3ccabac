#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "transport/cm/mad.h"
#include "transport/cm/messages.h"

namespace uroce::transport::cm {

// Why a datagram to queue pair 1 is not a message of the communication manager, in the order of the
// checks.
enum class Malformed : uint8_t {
  kNone,
  kWrongLength,       // not 256 bytes
  kBadBaseVersion,    // not a MAD
  kForeignClass,      // of another management class
  kBadClassVersion,   // not version 2
  kBadMethod,         // not Send
  kUnknownAttribute,  // none of the eleven messages
  kBadInformation,    // claims more additional information than there is room for
  kBadAnswered,       // MRA with a reserved code for the message it answers
  kCount,
};
std::string_view Name(Malformed reason);

struct ParsedMad {
  Malformed malformed = Malformed::kNone;
  MadHeader header{};
  Message message{};  // valid if not malformed
};

// Reads a MAD. Reserved bits are ignored.
ParsedMad ParseMessage(std::span<const uint8_t> mad);

// Writes a MAD with the attribute id of the message; reserved bits are zero.
MadBytes EmitMessage(uint64_t transaction_id, const Message& message);

constexpr Attribute AttributeOf(const Message& message) {
  return static_cast<Attribute>(kFirstAttribute + message.index());
}

}  // namespace uroce::transport::cm
