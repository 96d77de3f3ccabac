#include "tests/packet_scripts/packets.h"

#include <sstream>

namespace uroce::transport::packet_scripts {

namespace {

PacketSpec Make(Operation operation, Position position, Psn psn) {
  PacketSpec spec;
  spec.opcode.operation = operation;
  spec.opcode.position = position;
  spec.psn = psn;
  return spec;
}

PacketSpec MakeAcknowledge(Psn psn, Syndrome syndrome) {
  PacketSpec spec = Make(Operation::kAcknowledge, Position::kOnly, psn);
  spec.aeth.syndrome = syndrome;
  return spec;
}

}  // namespace

PacketSpec PacketSpec::With(std::vector<uint8_t> bytes) const {
  PacketSpec spec = *this;
  spec.payload = std::move(bytes);
  return spec;
}

PacketSpec PacketSpec::With(std::string_view text) const {
  return With(std::vector<uint8_t>(text.begin(), text.end()));
}

PacketSpec PacketSpec::Immediate(uint32_t value) const {
  PacketSpec spec = *this;
  spec.opcode.suffix = Suffix::kImmediate;
  spec.immediate = value;
  return spec;
}

PacketSpec PacketSpec::Invalidate(RKey rkey) const {
  PacketSpec spec = *this;
  spec.opcode.suffix = Suffix::kInvalidate;
  spec.invalidate_rkey = rkey;
  return spec;
}

PacketSpec PacketSpec::AckRequest(bool wanted) const {
  PacketSpec spec = *this;
  spec.ack_request = wanted;
  return spec;
}

PacketSpec PacketSpec::Pkey(uint16_t value) const {
  PacketSpec spec = *this;
  spec.pkey = value;
  return spec;
}

PacketSpec PacketSpec::MigrationRequest(bool migrated) const {
  PacketSpec spec = *this;
  spec.migration_request = migrated;
  return spec;
}

PacketSpec PacketSpec::Solicited() const {
  PacketSpec spec = *this;
  spec.solicited = true;
  return spec;
}

PacketSpec PacketSpec::Msn(uint32_t value) const {
  PacketSpec spec = *this;
  spec.expected_msn = value;
  spec.aeth.msn = value;
  return spec;
}

PacketSpec PacketSpec::Credits(uint8_t code) const {
  PacketSpec spec = *this;
  spec.expected_credits = code;
  spec.aeth.syndrome = Syndrome::Ack(code);
  return spec;
}

PacketSpec PacketSpec::Of(Service service) const {
  PacketSpec spec = *this;
  spec.opcode.service = service;
  spec.fixed_service = true;
  return spec;
}

PacketSpec PacketSpec::To(Srqn srqn) const {
  PacketSpec spec = *this;
  spec.xrceth.srqn = srqn;
  return spec;
}

PacketSpec Send(Position position, Psn psn) {
  PacketSpec spec = Make(Operation::kSend, position, psn);
  spec.ack_request = spec.opcode.EndsMessage();
  return spec;
}

PacketSpec Write(Position position, Psn psn, uint64_t address, RKey rkey, uint32_t dma_length) {
  PacketSpec spec = Make(Operation::kWrite, position, psn);
  spec.ack_request = spec.opcode.EndsMessage();
  spec.reth = {address, rkey, dma_length};
  return spec;
}

PacketSpec Read(Psn psn, uint64_t address, RKey rkey, uint32_t dma_length) {
  PacketSpec spec = Make(Operation::kReadRequest, Position::kOnly, psn);
  spec.reth = {address, rkey, dma_length};
  return spec;
}

PacketSpec FetchAdd(Psn psn, uint64_t address, RKey rkey, uint64_t add) {
  PacketSpec spec = Make(Operation::kFetchAndAdd, Position::kOnly, psn);
  spec.atomic = {address, rkey, add, 0};
  return spec;
}

PacketSpec CompareSwap(Psn psn, uint64_t address, RKey rkey, uint64_t compare, uint64_t swap) {
  PacketSpec spec = Make(Operation::kCompareAndSwap, Position::kOnly, psn);
  spec.atomic = {address, rkey, swap, compare};
  return spec;
}

PacketSpec AtomicWrite(Psn psn, uint64_t address, RKey rkey, uint64_t number) {
  PacketSpec spec = Make(Operation::kAtomicWrite, Position::kOnly, psn);
  spec.reth = {address, rkey, sizeof number};
  const auto* bytes = reinterpret_cast<const uint8_t*>(&number);
  spec.payload.assign(bytes, bytes + sizeof number);
  return spec;
}

PacketSpec Flush(Psn psn, uint64_t address, RKey rkey, uint32_t length) {
  PacketSpec spec = Make(Operation::kFlush, Position::kOnly, psn);
  spec.feth = {.placement = Placement::kGlobal};
  spec.reth = {address, rkey, length};
  return spec;
}

PacketSpec Ack(Psn psn) {
  return MakeAcknowledge(psn, Syndrome::Ack(Syndrome::kNoCreditInformation));
}

PacketSpec Nak(Psn psn, NakCode code) { return MakeAcknowledge(psn, Syndrome::Nak(code)); }

PacketSpec RnrNak(Psn psn, uint8_t timer_code) {
  return MakeAcknowledge(psn, Syndrome::RnrNak(timer_code));
}

PacketSpec ReadResponse(Position position, Psn psn) {
  return Make(Operation::kReadResponse, position, psn);
}

PacketSpec AtomicAck(Psn psn, uint64_t original) {
  PacketSpec spec = Make(Operation::kAtomicAcknowledge, Position::kOnly, psn);
  spec.atomic_original = original;
  return spec;
}

std::vector<uint8_t> Pattern(size_t size, uint8_t salt) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 7 + i / 251 + salt);
  return bytes;
}

std::string Describe(const TransportHeaders& headers, size_t payload_bytes) {
  static constexpr const char* kOperations[] = {
      "SEND",     "WRITE",     "READ",  "READ response", "ACK",          "ATOMIC ack",
      "CMP_SWAP", "FETCH_ADD", "FLUSH", "ATOMIC_WRITE",  "selective ACK"};
  static constexpr const char* kPositions[] = {"first", "middle", "last", "only"};
  static constexpr const char* kSuffixes[] = {"", " with immediate", " with invalidate"};
  static constexpr const char* kKinds[] = {"ACK", "RNR NAK", "reserved", "NAK"};
  const Opcode& opcode = headers.opcode;
  std::ostringstream out;
  out << kOperations[static_cast<int>(opcode.operation)] << ' '
      << kPositions[static_cast<int>(opcode.position)] << kSuffixes[static_cast<int>(opcode.suffix)]
      << ", psn " << headers.psn.value();
  if (opcode.HasFeth()) {
    out << ", placement " << int{headers.feth.placement} << " selectivity "
        << static_cast<int>(headers.feth.selectivity);
  }
  if (opcode.HasReth()) {
    out << ", reth " << headers.reth.virtual_address << " key " << headers.reth.rkey.value
        << " length " << headers.reth.dma_length;
  }
  if (opcode.HasAeth()) {
    out << ", " << kKinds[static_cast<int>(headers.aeth.syndrome.kind())] << ' '
        << int{headers.aeth.syndrome.value()} << ", msn " << headers.aeth.msn;
  }
  if (headers.ack_request) out << ", wants an ACK";
  out << ", payload of " << payload_bytes;
  return out.str();
}

}  // namespace uroce::transport::packet_scripts
