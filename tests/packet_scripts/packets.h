#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/psn.h"
#include "transport/wire/packet.h"

namespace uroce::transport::packet_scripts {

// A packet of a script. Fields that a script does not set have a well-behaved peer's values.
struct PacketSpec : TransportHeaders {
  std::vector<uint8_t> payload;
  std::optional<uint32_t> expected_msn;  // compared only if set
  std::optional<uint8_t> expected_credits;
  bool fixed_service = false;  // the service is the opcode's, not the queue pair's

  PacketSpec With(std::vector<uint8_t> bytes) const;
  PacketSpec With(std::string_view text) const;
  PacketSpec Immediate(uint32_t value) const;
  PacketSpec Invalidate(RKey rkey) const;
  PacketSpec AckRequest(bool wanted = true) const;
  PacketSpec Solicited() const;
  PacketSpec Pkey(uint16_t value) const;
  // MigReq of the BTH: whether the sender is in MIGRATED.
  PacketSpec MigrationRequest(bool migrated) const;
  PacketSpec Msn(uint32_t value) const;
  // Credit code of an AETH.
  PacketSpec Credits(uint8_t code) const;
  PacketSpec Of(Service service) const;
  // XRC: the message is for this shared receive queue.
  PacketSpec To(Srqn srqn) const;
};

// Requests. A packet that ends a message asks for an ACK.
PacketSpec Send(Position position, Psn psn);
// The RETH of a first or only packet: `dma_length` bytes at `address`.
PacketSpec Write(Position position, Psn psn, uint64_t address = 0, RKey rkey = {},
                 uint32_t dma_length = 0);
PacketSpec Read(Psn psn, uint64_t address, RKey rkey, uint32_t dma_length);
PacketSpec FetchAdd(Psn psn, uint64_t address, RKey rkey, uint64_t add);
PacketSpec CompareSwap(Psn psn, uint64_t address, RKey rkey, uint64_t compare, uint64_t swap);
PacketSpec AtomicWrite(Psn psn, uint64_t address, RKey rkey, uint64_t number);
// Flushes a range to make it globally visible.
PacketSpec Flush(Psn psn, uint64_t address, RKey rkey, uint32_t length);

// Responses.
PacketSpec Ack(Psn psn);
PacketSpec Nak(Psn psn, NakCode code);
PacketSpec RnrNak(Psn psn, uint8_t timer_code);
PacketSpec ReadResponse(Position position, Psn psn);
PacketSpec AtomicAck(Psn psn, uint64_t original);

// `size` varied bytes; another `salt` gives other bytes.
std::vector<uint8_t> Pattern(size_t size, uint8_t salt = 0);

std::string Describe(const TransportHeaders& headers, size_t payload_bytes);

}  // namespace uroce::transport::packet_scripts
