#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/psn.h"
#include "transport/wire/packet.h"

namespace uroce::packet_scripts {

// A packet as a script writes it down. What is not set has the value a well-behaved peer gives it.
struct PacketSpec : transport::TransportHeaders {
  std::vector<uint8_t> payload;
  std::optional<uint32_t> expected_msn;  // compared only if set
  std::optional<uint8_t> expected_credits;
  bool fixed_service = false;  // the service is what the opcode says, not that of the queue pair

  PacketSpec With(std::vector<uint8_t> bytes) const;
  PacketSpec With(std::string_view text) const;
  PacketSpec Immediate(uint32_t value) const;
  PacketSpec Invalidate(transport::RKey rkey) const;
  PacketSpec AckRequest(bool wanted = true) const;
  PacketSpec Solicited() const;
  PacketSpec Msn(uint32_t value) const;
  // Credit code of an AETH.
  PacketSpec Credits(uint8_t code) const;
  PacketSpec Of(transport::Service service) const;
  // XRC: for this shared receive queue.
  PacketSpec To(transport::Srqn srqn) const;
};

// Requests. Those that end a message ask for an ACK.
PacketSpec Send(transport::Position position, transport::Psn psn);
// The RETH of a first or only packet: `dma_length` bytes at `address`.
PacketSpec Write(transport::Position position, transport::Psn psn, uint64_t address = 0,
                 transport::RKey rkey = {}, uint32_t dma_length = 0);
PacketSpec Read(transport::Psn psn, uint64_t address, transport::RKey rkey, uint32_t dma_length);
PacketSpec FetchAdd(transport::Psn psn, uint64_t address, transport::RKey rkey, uint64_t add);
PacketSpec CompareSwap(transport::Psn psn, uint64_t address, transport::RKey rkey, uint64_t compare,
                       uint64_t swap);

// Responses.
PacketSpec Ack(transport::Psn psn);
PacketSpec Nak(transport::Psn psn, transport::NakCode code);
PacketSpec RnrNak(transport::Psn psn, uint8_t timer_code);
PacketSpec ReadResponse(transport::Position position, transport::Psn psn);
PacketSpec AtomicAck(transport::Psn psn, uint64_t original);

// `size` bytes that differ from one another; `salt` makes other ones.
std::vector<uint8_t> Pattern(size_t size, uint8_t salt = 0);

std::string Describe(const transport::TransportHeaders& headers, size_t payload_bytes);

}  // namespace uroce::packet_scripts
