// Every request opcode in every state of the message that is being received, with every kind of
// length: generated from the rules.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tests/packet_scripts/script.h"
#include "transport/wire/opcode.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint32_t kMtuBytes = 256;

enum class Receiving { kNothing, kSend, kWrite };
enum class Length { kZero, kOne, kEight, kFullLessOne, kFull };

uint32_t BytesOf(Length length) {
  switch (length) {
    case Length::kZero:
      return 0;
    case Length::kOne:
      return 1;
    case Length::kEight:
      return 8;
    case Length::kFullLessOne:
      return kMtuBytes - 1;
    default:
      return kMtuBytes;
  }
}

std::vector<Opcode> RequestOpcodes() {
  std::vector<Opcode> opcodes;
  for (int byte = 0; byte < 256; ++byte) {
    const std::optional<Opcode> opcode = ParseOpcode(static_cast<uint8_t>(byte));
    if (!opcode || opcode->service != Service::kReliableConnection) continue;
    if (opcode->IsResponse()) continue;
    opcodes.push_back(*opcode);
  }
  return opcodes;
}

// The rules of the specification.
bool IsRight(Receiving receiving, const Opcode& opcode, Length length) {
  const bool starts = opcode.StartsMessage();
  if (starts != (receiving == Receiving::kNothing)) return false;
  if (!starts) {
    const Operation wanted = receiving == Receiving::kSend ? Operation::kSend : Operation::kWrite;
    if (opcode.operation != wanted) return false;
  }
  if (!opcode.HasPayload()) return true;
  switch (opcode.position) {
    case Position::kFirst:
    case Position::kMiddle:
      return length == Length::kFull;
    case Position::kLast:
      return length != Length::kZero;
    default:
      return opcode.operation != Operation::kAtomicWrite || length == Length::kEight;
  }
}

PacketSpec MakePacket(const Script& script, const Opcode& opcode, Psn psn, uint32_t length) {
  PacketSpec packet;
  packet.opcode = opcode;
  packet.psn = psn;
  packet.ack_request = true;
  const uint64_t address = Script::Address(0);
  const uint32_t dma_length = opcode.position == Position::kFirst ? 3 * kMtuBytes : length;
  packet.reth = {address, script.rkey(),
                 opcode.operation == Operation::kReadRequest ? 8 : dma_length};
  packet.atomic = {address, script.rkey(), 1, 0};
  packet.feth.placement = Placement::kGlobal;
  if (opcode.HasPayload()) packet.payload = Pattern(length);
  return packet;
}

void TryOne(Receiving receiving, const Opcode& opcode, Length length) {
  Script script;
  for (uint64_t i = 0; i < 4; ++i) script.PostReceive(i, 4'096, 4 * kMtuBytes);
  Psn psn = script.peers_first_psn();
  if (receiving == Receiving::kSend) {
    script.Inject(Send(Position::kFirst, psn).With(Pattern(kMtuBytes)));
    ++psn;
  } else if (receiving == Receiving::kWrite) {
    const uint32_t rest =
        opcode.position == Position::kMiddle ? 2 * kMtuBytes : std::max(1u, BytesOf(length));
    script.Inject(Write(Position::kFirst, psn, Script::Address(0), script.rkey(), kMtuBytes + rest)
                      .With(Pattern(kMtuBytes)));
    ++psn;
  }
  EXPECT_TRUE(script.TakeSent().empty());

  PacketSpec packet = MakePacket(script, opcode, psn, BytesOf(length));
  if (opcode.HasIeth()) {  // only a bound window could be invalidated: tested elsewhere
    packet.opcode.suffix = Suffix::kNone;
  }
  script.Inject(packet);
  const auto sent = script.TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  if (IsRight(receiving, opcode, length)) {
    EXPECT_NE(sent[0].aeth.syndrome.kind(), Syndrome::Kind::kNak);
    script.ExpectState(QpState::kReadyToSend);
  } else {
    EXPECT_EQ(sent[0].aeth.syndrome, Syndrome::Nak(NakCode::kInvalidRequest));
    EXPECT_EQ(sent[0].psn, psn);
    script.ExpectState(QpState::kError);
  }
  script.TakeCompletions();
}

// IBA 9.7.4.1.3, C9-92.
TEST(OpcodeSequenceTest, EveryOpcodeInEveryStateWithEveryLength) {
  const std::vector<Opcode> opcodes = RequestOpcodes();
  // SEND 6 + 2 with invalidate, WRITE 6, READ, two atomics, FLUSH, ATOMIC WRITE (IBA table 38).
  ASSERT_EQ(opcodes.size(), 19u);
  for (const Receiving receiving : {Receiving::kNothing, Receiving::kSend, Receiving::kWrite}) {
    for (const Opcode& opcode : opcodes) {
      for (const Length length :
           {Length::kZero, Length::kOne, Length::kEight, Length::kFullLessOne, Length::kFull}) {
        SCOPED_TRACE("receiving " + std::to_string(static_cast<int>(receiving)) + ", opcode " +
                     std::to_string(int{EncodeOpcode(opcode)}) + ", " +
                     std::to_string(BytesOf(length)) + " bytes");
        TryOne(receiving, opcode, length);
      }
    }
  }
}

// A packet longer than the path MTU is refused too, in any position.
// IBA C9-92.
TEST(OpcodeSequenceTest, LongerThanThePathMtu) {
  for (const Position position : {Position::kFirst, Position::kOnly}) {
    Script script;
    script.PostReceive(1, 4'096, 1'024);
    const Psn psn = script.peers_first_psn();
    script.Inject(Send(position, psn).With(Pattern(kMtuBytes + 1)));
    script.ExpectSent(Nak(psn, NakCode::kInvalidRequest));
    script.ExpectState(QpState::kError);
    script.TakeCompletions();
  }
  Script script;
  script.PostReceive(1, 4'096, 1'024);
  const Psn psn = script.peers_first_psn();
  script.Inject(Send(Position::kFirst, psn).With(Pattern(kMtuBytes)));
  script.Inject(Send(Position::kLast, psn + 1).With(Pattern(kMtuBytes + 4)));
  script.ExpectSent(Nak(psn + 1, NakCode::kInvalidRequest));
  script.TakeCompletions();
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
