#include "tests/simulation/describe.h"

#include "tests/simulation/verdict.h"
#include "transport/wire/frame_parser.h"

namespace uroce::transport::simulation {

std::string DescribeFrame(std::span<const uint8_t> frame) {
  Packet packet;
  const DropReason reason = ParseFrame(frame, packet);
  if (reason != DropReason::kNone) {
    return Text(frame.size(), " bytes, dropped: ", Name(reason));
  }
  static constexpr const char* kOperations[] = {"SEND",  "WRITE",       "READ",     "READ_RESPONSE",
                                                "ACK",   "ATOMIC_ACK",  "CMP_SWAP", "FETCH_ADD",
                                                "FLUSH", "ATOMIC_WRITE"};
  static constexpr const char* kPositions[] = {"first", "middle", "last", "only"};
  static constexpr const char* kSuffixes[] = {"", "+imm", "+inv"};
  const Opcode& opcode = packet.opcode;
  std::string text = Text(kOperations[static_cast<int>(opcode.operation)], " ",
                          kPositions[static_cast<int>(opcode.position)],
                          kSuffixes[static_cast<int>(opcode.suffix)], " qp ", std::hex,
                          packet.destination_qpn.value, std::dec, " psn ", packet.psn.value());
  if (packet.ack_request) text += " ackreq";
  if (packet.solicited) text += " solicited";
  if (opcode.HasReth()) {
    text += Text(" va ", std::hex, packet.reth.virtual_address, " rkey ", packet.reth.rkey.value,
                 std::dec, " dma_length ", packet.reth.dma_length);
  }
  if (opcode.HasAtomicEth()) {
    text +=
        Text(" va ", std::hex, packet.atomic.virtual_address, " rkey ", packet.atomic.rkey.value);
  }
  if (opcode.HasAeth()) {
    static constexpr const char* kKinds[] = {"ack", "rnr-nak", "reserved", "NAK"};
    const Syndrome syndrome = packet.aeth.syndrome;
    text += Text(" ", kKinds[static_cast<int>(syndrome.kind())], " ", int{syndrome.value()},
                 " msn ", packet.aeth.msn);
  }
  if (opcode.HasPayload()) text += Text(" payload ", packet.payload.size());
  return text;
}

std::string DescribeCompletion(const Completion& completion) {
  return Text("wr_id ", completion.wr_id, " status ", static_cast<int>(completion.status),
              " vendor ", static_cast<int>(completion.vendor_error), " opcode ",
              static_cast<int>(completion.opcode), " bytes ", completion.byte_length, " flags ",
              int{completion.flags}, " imm/rkey ", completion.immediate_or_rkey, " qp ", std::hex,
              completion.qpn.value);
}

}  // namespace uroce::transport::simulation
