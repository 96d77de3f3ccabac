// All 256 opcodes in every state of every service, with the expected PSN, the one before and the
// one after it, between messages and inside of one. The cases are generated, and their outcomes are
// derived from the specification.

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/packet_scripts/script.h"
#include "tests/packet_scripts/states.h"
#include "transport/wire/opcode.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint32_t kPart = 256;

enum class Inside { kNothing, kSend, kWrite };  // the message that is being received
enum class Answer { kNone, kAck, kReadResponse, kAtomicAck, kSequenceNak, kInvalidNak };

struct Outcome {
  DropReason reason = DropReason::kNone;
  Answer answer = Answer::kNone;
  bool ends_in_error = false;

  bool operator==(const Outcome&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << Name(outcome.reason) << ", answer " << static_cast<int>(outcome.answer)
             << (outcome.ends_in_error ? ", ERR" : "");
}

struct Case {
  QpType type;
  QpState state;
  Inside inside;
  int psn_offset;  // from the expected one
};

Service ServiceOf(QpType type) {
  if (type == QpType::kReliableConnection) return Service::kReliableConnection;
  return type == QpType::kUnreliableConnection ? Service::kUnreliableConnection
                                               : Service::kUnreliableDatagram;
}

bool TakesRequests(QpState state) {
  return state == QpState::kReadyToReceive || state == QpState::kReadyToSend ||
         state == QpState::kSendQueueDrain || state == QpState::kSendQueueError;
}
bool TakesResponses(QpState state) {
  return state == QpState::kReadyToSend || state == QpState::kSendQueueDrain;
}

// IBA 9.7.4.1.3: a message is one operation from its first packet to its last.
bool IsInSequence(Inside inside, const Opcode& opcode) {
  if (opcode.StartsMessage()) return inside == Inside::kNothing;
  return inside == (opcode.operation == Operation::kSend ? Inside::kSend : Inside::kWrite);
}

Answer AnswerTo(const Opcode& opcode) {
  switch (opcode.operation) {
    case Operation::kReadRequest:
    case Operation::kFlush:
    case Operation::kAtomicWrite:
      return Answer::kReadResponse;
    case Operation::kCompareAndSwap:
    case Operation::kFetchAndAdd:
      return Answer::kAtomicAck;
    default:
      return Answer::kAck;
  }
}

// A reliable connection answers every request that is not after a gap (IBA 9.7.4.1.2).
Outcome ReliableOutcome(const Case& c, const Opcode& opcode) {
  if (c.psn_offset > 0) return {DropReason::kSequenceGap, Answer::kSequenceNak};
  if (c.psn_offset < 0) {  // the request before was a WRITE, or the first packet of a message
    const bool atomic = AnswerTo(opcode) == Answer::kAtomicAck;
    return atomic ? Outcome{DropReason::kDuplicateNotHeld}
                  : Outcome{DropReason::kDuplicateRequest, AnswerTo(opcode)};
  }
  if (!IsInSequence(c.inside, opcode)) return {DropReason::kRefused, Answer::kInvalidNak, true};
  return {DropReason::kNone, AnswerTo(opcode)};
}

// UC answers nothing. A packet with another PSN than the expected one shows a loss: the current
// message is dropped, and only a new one can begin (IBA 9.9.3.1 class D1).
Outcome UnreliableOutcome(const Case& c, const Opcode& opcode) {
  const bool continues = c.psn_offset == 0 && IsInSequence(c.inside, opcode);
  return {continues || opcode.StartsMessage() ? DropReason::kNone : DropReason::kTornMessage};
}

Outcome OutcomeOf(const Case& c, const std::optional<Opcode>& opcode) {
  if (!opcode) return {DropReason::kUnknownOpcode};
  const bool is_ours = opcode->service == Service::kUroce && c.type == QpType::kReliableConnection;
  if (opcode->service != ServiceOf(c.type) && !is_ours) return {DropReason::kWrongService};
  const bool taken = opcode->IsResponse() ? TakesResponses(c.state) : TakesRequests(c.state);
  if (!taken) return {DropReason::kQpNotReady};
  if (opcode->IsResponse()) return {DropReason::kStaleResponse};  // nothing is outstanding
  switch (c.type) {
    case QpType::kReliableConnection:
      return ReliableOutcome(c, *opcode);
    case QpType::kUnreliableConnection:
      return UnreliableOutcome(c, *opcode);
    default:
      return {};  // each datagram is a message, and PSNs are ignored
  }
}

std::optional<Answer> AnswerIn(const std::vector<PacketSpec>& sent) {
  if (sent.empty()) return Answer::kNone;
  if (sent.size() > 1) return std::nullopt;
  const PacketSpec& packet = sent[0];
  if (packet.opcode.operation == Operation::kReadResponse) return Answer::kReadResponse;
  if (packet.opcode.operation == Operation::kAtomicAcknowledge) return Answer::kAtomicAck;
  if (packet.aeth.syndrome.kind() == Syndrome::Kind::kAck) return Answer::kAck;
  if (packet.aeth.syndrome == Syndrome::Nak(NakCode::kPsnSequenceError)) {
    return Answer::kSequenceNak;
  }
  if (packet.aeth.syndrome == Syndrome::Nak(NakCode::kInvalidRequest)) return Answer::kInvalidNak;
  return std::nullopt;
}

class StatePacketTest : public testing::TestWithParam<ServiceState> {
 protected:
  // Takes the queue pair into the message, if it takes packets. Returns the expected PSN.
  static Psn Prepare(Script& script, const Case& c, uint32_t write_bytes) {
    for (uint64_t i = 0; i < 3 && c.state != QpState::kReset && c.state != QpState::kError; ++i) {
      script.PostReceive(i, 8'192, 4 * kPart);
    }
    const Psn first = script.peers_first_psn();
    if (c.type == QpType::kUnreliableDatagram || !TakesRequests(c.state)) return first;
    const PacketSpec write =
        Write(c.inside == Inside::kWrite ? Position::kFirst : Position::kOnly, first,
              Script::Address(0), script.rkey(), c.inside == Inside::kWrite ? write_bytes : kPart);
    const PacketSpec before =
        c.inside == Inside::kSend ? Send(Position::kFirst, first) : write.AckRequest(false);
    EXPECT_EQ(script.Inject(before.With(Pattern(kPart))), DropReason::kNone);
    while (script.endpoint().TakeEvent()) {  // COMM_EST
    }
    return first + 1;
  }

  // A packet that is right in itself, with everything that its opcode may need.
  static PacketSpec MakePacket(Script& script, const Opcode& opcode, Psn psn) {
    PacketSpec packet;
    packet.opcode = opcode;
    packet.psn = psn;
    packet.fixed_service = true;
    packet.ack_request = true;
    packet.reth = {Script::Address(0), script.rkey(), kPart};
    if (opcode.operation == Operation::kReadRequest) packet.reth.dma_length = 8;
    if (opcode.position == Position::kFirst) packet.reth.dma_length = 3 * kPart;
    packet.atomic = {Script::Address(0), script.rkey(), 1, 0};
    packet.feth.placement = Placement::kGlobal;
    if (opcode.operation == Operation::kAtomicWrite) packet.reth.dma_length = 8;
    if (opcode.HasPayload()) packet.payload = Pattern(opcode.HasPositions() ? kPart : 8);
    if (opcode.HasIeth()) packet.invalidate_rkey = BoundWindow(script);
    return packet;
  }
  static RKey BoundWindow(Script& script) {
    auto& memory = script.endpoint().memory();
    const RKey present = *memory.AllocateWindow(Script::kPd, WindowType::kType2);
    const RKey next{present.value ^ 1};
    EXPECT_EQ(memory.BindWindow(Script::kPd, script.qp().qpn(), present, next,
                                {script.lkey(), Script::Address(0), 64, {}}),
              Status::kOk);
    return next;
  }

  void Try(const Case& c, int byte) {
    const std::optional<Opcode> opcode = ParseOpcode(static_cast<uint8_t>(byte));
    Script script({.type = c.type, .state = c.state});
    const bool is_last = opcode && opcode->position == Position::kLast;
    const Psn expected = Prepare(script, c, (is_last ? 2 : 3) * kPart);
    const Psn psn = expected + static_cast<uint32_t>(c.psn_offset);
    std::vector<uint8_t> frame;
    if (opcode) {
      frame = script.Frame(MakePacket(script, *opcode, psn));
    } else {
      frame = script.Frame(Send(Position::kOnly, psn).With(Pattern(kPart)));
      frame[42] = static_cast<uint8_t>(byte);  // the ICRC is checked later
    }
    Outcome seen;
    seen.reason = script.InjectFrame(frame);
    const auto answer = AnswerIn(script.TakeSent());
    ASSERT_TRUE(answer.has_value());
    seen.answer = *answer;
    seen.ends_in_error = script.qp().state() == QpState::kError && c.state != QpState::kError;
    EXPECT_EQ(seen, OutcomeOf(c, opcode));
    if (!seen.ends_in_error) script.ExpectState(c.state);
    script.TakeCompletions();
  }
};

TEST_P(StatePacketTest, EveryOpcode) {
  const auto [type, state] = GetParam();
  const bool has_messages = type != QpType::kUnreliableDatagram && TakesRequests(state);
  for (const Inside inside : {Inside::kNothing, Inside::kSend, Inside::kWrite}) {
    if (inside != Inside::kNothing && !has_messages) continue;
    for (const int psn_offset : {-1, 0, 1}) {
      for (int byte = 0; byte < 256; ++byte) {
        SCOPED_TRACE("opcode " + std::to_string(byte) + ", psn " + std::to_string(psn_offset) +
                     ", inside " + std::to_string(static_cast<int>(inside)));
        Try({type, state, inside, psn_offset}, byte);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryState, StatePacketTest, testing::ValuesIn(EveryState()),
                         NameOfState<testing::TestParamInfo<ServiceState>>);

}  // namespace
}  // namespace uroce::transport::packet_scripts
