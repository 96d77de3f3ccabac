#include "transport/wire/bth.h"

#include "transport/wire/byte_order.h"

namespace uroce::transport {
namespace {

constexpr uint8_t kSolicited = 0x80;
constexpr uint8_t kMigrationRequest = 0x40;
constexpr int kPadShift = 4;
constexpr uint8_t kForwardCongestion = 0x80;
constexpr uint8_t kBackwardCongestion = 0x40;
constexpr uint8_t kAckRequest = 0x80;

constexpr uint8_t Bit(bool set, uint8_t bit) { return set ? bit : uint8_t{0}; }

}  // namespace

Bth ParseBth(const uint8_t* bytes) {
  const uint32_t qpn_word = Load32(bytes + 4);
  const uint32_t psn_word = Load32(bytes + 8);
  return {
      .opcode = bytes[0],
      .solicited = (bytes[1] & kSolicited) != 0,
      .migration_request = (bytes[1] & kMigrationRequest) != 0,
      .pad_count = static_cast<uint8_t>((bytes[1] >> kPadShift) & 3),
      .transport_version = static_cast<uint8_t>(bytes[1] & 15),
      .pkey = Load16(bytes + 2),
      .forward_congestion = (HighByte(qpn_word) & kForwardCongestion) != 0,
      .backward_congestion = (HighByte(qpn_word) & kBackwardCongestion) != 0,
      .destination_qpn = Qpn{Low24(qpn_word)},
      .ack_request = (HighByte(psn_word) & kAckRequest) != 0,
      .psn = Psn(psn_word),
  };
}

void EmitBth(const Bth& bth, uint8_t* bytes) {
  bytes[0] = bth.opcode;
  bytes[1] = static_cast<uint8_t>(Bit(bth.solicited, kSolicited) |
                                  Bit(bth.migration_request, kMigrationRequest) |
                                  (bth.pad_count & 3) << kPadShift | (bth.transport_version & 15));
  Store16(bth.pkey, bytes + 2);
  const int congestion = Bit(bth.forward_congestion, kForwardCongestion) |
                         Bit(bth.backward_congestion, kBackwardCongestion);
  Store32(Word(static_cast<uint8_t>(congestion), bth.destination_qpn.value), bytes + 4);
  Store32(Word(Bit(bth.ack_request, kAckRequest), bth.psn.value()), bytes + 8);
}

}  // namespace uroce::transport
