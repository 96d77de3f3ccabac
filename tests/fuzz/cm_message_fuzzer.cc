// Any bytes can arrive at queue pair 1. Checks that the parser reads no byte beyond them, and that
// every message it accepts, and the IP header of rdma_cm, is emitted as it was parsed. The first
// byte of the input says whether the rest gets a right MAD header, so that inputs reach the message
// parsers.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/fuzz/require.h"
#include "transport/cm/ip_header.h"
#include "transport/cm/message_codec.h"

namespace uroce::transport::cm {
namespace {

void CheckMessage(std::span<const uint8_t> bytes) {
  const ParsedMad parsed = ParseMessage(bytes);
  UROCE_REQUIRE(!Name(parsed.malformed).empty());
  if (parsed.malformed != Malformed::kNone) return;
  const uint64_t transaction_id = parsed.header.transaction_id;
  const MadBytes ours = EmitMessage(transaction_id, parsed.message);
  const ParsedMad again = ParseMessage(ours);
  UROCE_REQUIRE(again.malformed == Malformed::kNone);
  UROCE_REQUIRE(again.message == parsed.message);
  UROCE_REQUIRE(again.header.transaction_id == transaction_id);
  UROCE_REQUIRE(EmitMessage(transaction_id, again.message) == ours);
}

void CheckIpHeader(std::span<const uint8_t> bytes) {
  const auto header = ParseIpHeader(bytes);
  if (!header) return;
  std::array<uint8_t, IpHeader::kBytes> ours{};
  EmitIpHeader(*header, ours.data());
  UROCE_REQUIRE(ParseIpHeader(ours) == header);
}

}  // namespace
}  // namespace uroce::transport::cm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace uroce::transport::cm;
  if (size == 0) return 0;
  std::vector<uint8_t> bytes(data + 1, data + size);
  CheckIpHeader(bytes);
  if ((data[0] & 1) != 0) {
    bytes.resize(uroce::transport::kMadBytes);
    const uint16_t attribute =
        static_cast<uint16_t>(kFirstAttribute + (data[0] >> 1) % kAttributes);
    EmitMadHeader(MessageHeader(attribute, data[0]), bytes.data());
  }
  CheckMessage(bytes);
  return 0;
}
