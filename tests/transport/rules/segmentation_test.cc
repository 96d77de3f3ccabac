// How a message is cut into packets.

#include <gtest/gtest.h>

#include <string>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint32_t kMtu = 256;

// The script posted `length` bytes at 0: expects full packets and a rest.
void ExpectPackets(Script& script, uint32_t length, PacketSpec (*make)(Position, Psn)) {
  uint32_t sent = 0;
  for (uint32_t i = 0; i == 0 || sent < length; ++i) {
    const uint32_t bytes = std::min(kMtu, length - sent);
    const bool first = sent == 0;
    const bool last = sent + bytes == length;
    const Position position = first ? (last ? Position::kOnly : Position::kFirst)
                                    : (last ? Position::kLast : Position::kMiddle);
    script.ExpectSent(make(position, script.first_psn() + i).With(script.Bytes(sent, bytes)));
    sent += bytes;
  }
  script.ExpectNothingSent();
}

// IBA 9.7.3.3.
TEST(SegmentationTest, PacketsAreFullButTheLast) {
  for (const uint32_t length : {0u, 1u, 255u, 256u, 257u, 511u, 512u, 513u, 600u, 1'024u}) {
    SCOPED_TRACE(std::to_string(length) + " bytes");
    // On UC no packet waits for a response.
    Script script({.type = QpType::kUnreliableConnection});
    for (uint32_t i = 0; i < length; ++i) *script.memory(i) = static_cast<uint8_t>(i ^ (i >> 8));
    script.PostSend(1, 0, length);
    ExpectPackets(script, length, Send);
    script.ExpectCompletion(1);
  }
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
