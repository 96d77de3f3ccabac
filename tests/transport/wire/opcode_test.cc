#include "transport/wire/opcode.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "transport/wire/extension_headers.h"
#include "transport/wire/printer.h"

namespace uroce::transport {
namespace {

struct Expected {
  const char* name;
  size_t extension_bytes;
};

// IBA table 38: every opcode that this device supports, and the bytes of its extension headers; the
// last one is manufacturer-specific.
const std::map<uint8_t, Expected> kOpcodes = {
    {0x00, {"RC_SEND_FIRST", 0}},
    {0x01, {"RC_SEND_MIDDLE", 0}},
    {0x02, {"RC_SEND_LAST", 0}},
    {0x03, {"RC_SEND_LAST_IMM", 4}},
    {0x04, {"RC_SEND_ONLY", 0}},
    {0x05, {"RC_SEND_ONLY_IMM", 4}},
    {0x06, {"RC_WRITE_FIRST", 16}},
    {0x07, {"RC_WRITE_MIDDLE", 0}},
    {0x08, {"RC_WRITE_LAST", 0}},
    {0x09, {"RC_WRITE_LAST_IMM", 4}},
    {0x0a, {"RC_WRITE_ONLY", 16}},
    {0x0b, {"RC_WRITE_ONLY_IMM", 20}},
    {0x0c, {"RC_READ_REQUEST", 16}},
    {0x0d, {"RC_READ_RESPONSE_FIRST", 4}},
    {0x0e, {"RC_READ_RESPONSE_MIDDLE", 0}},
    {0x0f, {"RC_READ_RESPONSE_LAST", 4}},
    {0x10, {"RC_READ_RESPONSE_ONLY", 4}},
    {0x11, {"RC_ACKNOWLEDGE", 4}},
    {0x12, {"RC_ATOMIC_ACKNOWLEDGE", 12}},
    {0x13, {"RC_CMP_SWAP", 28}},
    {0x14, {"RC_FETCH_ADD", 28}},
    {0x16, {"RC_SEND_LAST_INV", 4}},
    {0x17, {"RC_SEND_ONLY_INV", 4}},
    {0x1c, {"RC_FLUSH", 20}},
    {0x1d, {"RC_ATOMIC_WRITE", 16}},
    {0x20, {"UC_SEND_FIRST", 0}},
    {0x21, {"UC_SEND_MIDDLE", 0}},
    {0x22, {"UC_SEND_LAST", 0}},
    {0x23, {"UC_SEND_LAST_IMM", 4}},
    {0x24, {"UC_SEND_ONLY", 0}},
    {0x25, {"UC_SEND_ONLY_IMM", 4}},
    {0x26, {"UC_WRITE_FIRST", 16}},
    {0x27, {"UC_WRITE_MIDDLE", 0}},
    {0x28, {"UC_WRITE_LAST", 0}},
    {0x29, {"UC_WRITE_LAST_IMM", 4}},
    {0x2a, {"UC_WRITE_ONLY", 16}},
    {0x2b, {"UC_WRITE_ONLY_IMM", 20}},
    {0x64, {"UD_SEND_ONLY", 8}},
    {0x65, {"UD_SEND_ONLY_IMM", 12}},
    {0xa0, {"XRC_SEND_FIRST", 4}},
    {0xa1, {"XRC_SEND_MIDDLE", 4}},
    {0xa2, {"XRC_SEND_LAST", 4}},
    {0xa3, {"XRC_SEND_LAST_IMM", 8}},
    {0xa4, {"XRC_SEND_ONLY", 4}},
    {0xa5, {"XRC_SEND_ONLY_IMM", 8}},
    {0xa6, {"XRC_WRITE_FIRST", 20}},
    {0xa7, {"XRC_WRITE_MIDDLE", 4}},
    {0xa8, {"XRC_WRITE_LAST", 4}},
    {0xa9, {"XRC_WRITE_LAST_IMM", 8}},
    {0xaa, {"XRC_WRITE_ONLY", 20}},
    {0xab, {"XRC_WRITE_ONLY_IMM", 24}},
    {0xac, {"XRC_READ_REQUEST", 20}},
    {0xad, {"XRC_READ_RESPONSE_FIRST", 4}},
    {0xae, {"XRC_READ_RESPONSE_MIDDLE", 0}},
    {0xaf, {"XRC_READ_RESPONSE_LAST", 4}},
    {0xb0, {"XRC_READ_RESPONSE_ONLY", 4}},
    {0xb1, {"XRC_ACKNOWLEDGE", 4}},
    {0xb2, {"XRC_ATOMIC_ACKNOWLEDGE", 12}},
    {0xb3, {"XRC_CMP_SWAP", 32}},
    {0xb4, {"XRC_FETCH_ADD", 32}},
    {0xb6, {"XRC_SEND_LAST_INV", 8}},
    {0xb7, {"XRC_SEND_ONLY_INV", 8}},
    {0xbc, {"XRC_FLUSH", 24}},
    {0xbd, {"XRC_ATOMIC_WRITE", 20}},
    {0xde, {"UROCE_SELECTIVE_ACKNOWLEDGE", 4}},
};

TEST(OpcodeTest, AllBytesParseAsTheTableSays) {
  for (int code = 0; code < 256; ++code) {
    SCOPED_TRACE(code);
    const std::optional<Opcode> opcode = ParseOpcode(static_cast<uint8_t>(code));
    const auto expected = kOpcodes.find(static_cast<uint8_t>(code));
    ASSERT_EQ(expected != kOpcodes.end(), opcode.has_value());
    if (!opcode) continue;
    EXPECT_EQ(expected->second.name, ToString(*opcode));
    EXPECT_EQ(expected->second.extension_bytes, ExtensionBytes(*opcode));
    EXPECT_LE(ExtensionBytes(*opcode), kMaxExtensionBytes);
    EXPECT_EQ(code, EncodeOpcode(*opcode));
  }
}

TEST(OpcodeTest, ResponsesAreThoseOfTheResponder) {
  for (const auto& [code, expected] : kOpcodes) {
    const int operation = code & 0x1f;
    const bool is_response = (operation >= 0x0d && operation <= 0x12) || code == 0xde;
    EXPECT_EQ(is_response, ParseOpcode(code)->IsResponse()) << expected.name;
  }
}

}  // namespace
}  // namespace uroce::transport
