// The order of the checks of a request, and what the application learns when one fails.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

class ResponderChecksTest : public testing::Test {
 protected:
  ResponderChecksTest() { Reset({}); }
  void Reset(const Script::Options& options) { script_ = std::make_unique<Script>(options); }

  Psn first() const { return script_->peers_first_psn(); }
  RKey rkey() const { return script_->rkey(); }
  RKey wrong_rkey() const { return RKey{rkey().value ^ 0x100}; }

  PacketSpec WriteOf(RKey rkey, uint32_t length) const {
    return Write(Position::kOnly, first(), Script::Address(0), rkey, length).With(Pattern(length));
  }

  // The responder ends the connection with `code`.
  void ExpectNak(const PacketSpec& packet, NakCode code) {
    script_->Inject(packet);
    script_->ExpectSent(Nak(packet.psn, code));
    script_->ExpectNothingSent();
    script_->ExpectState(QpState::kError);
  }

  std::unique_ptr<Script> script_;
};

// IBA 9.7.4.1.
TEST_F(ResponderChecksTest, AWrongPlaceInTheMessageComesBeforeAWrongKey) {
  script_->PostReceive(1, 0, 512);
  script_->Inject(Send(Position::kFirst, first()).With(Pattern(256)));
  PacketSpec write = WriteOf(wrong_rkey(), 8);
  write.psn = first() + 1;
  ExpectNak(write, NakCode::kInvalidRequest);
  script_->ExpectCompletion(1, CompletionStatus::kRemoteInvalidRequest);
}

// IBA 9.7.4.1, 9.7.4.1.4.
TEST_F(ResponderChecksTest, AnOperationThatIsNotAllowedComesBeforeTheMissingReceive) {
  Reset({.qp_access = AccessFlags()});
  ExpectNak(WriteOf(rkey(), 8).Immediate(7), NakCode::kInvalidRequest);
}

// IBA 9.7.4.1, C9-92.
TEST_F(ResponderChecksTest, AWrongLengthComesBeforeTheMissingReceive) {
  ExpectNak(Send(Position::kFirst, first()).With(Pattern(10)), NakCode::kInvalidRequest);
}

// IBA 9.7.4.1.
TEST_F(ResponderChecksTest, TheMissingReceiveComesBeforeAWrongKey) {
  const PacketSpec write = WriteOf(wrong_rkey(), 8).Immediate(7);
  script_->Inject(write);
  script_->ExpectSent(RnrNak(first(), 12));
  script_->PostReceive(1, 0, 512);
  ExpectNak(write, NakCode::kRemoteAccessError);
  script_->ExpectCompletion(1, CompletionStatus::kLocalAccessError);
}

// IBA 9.7.4.1, 9.7.4.1.2.
TEST_F(ResponderChecksTest, ThePsnComesBeforeEverything) {
  PacketSpec write = WriteOf(wrong_rkey(), 8);
  write.psn = first() - 1;
  script_->Inject(write);
  script_->ExpectSent(Ack(first() - 1));
  write.psn = first() + 1;
  script_->Inject(write);
  script_->ExpectSent(Nak(first(), NakCode::kPsnSequenceError));
  script_->ExpectState(QpState::kReadyToSend);
}

// IBA C9-94: a peer may ask for 2^31 bytes; here such a request fails only as no region is so long.
TEST_F(ResponderChecksTest, RequestOverTheLargestMessage) {
  for (const uint32_t length : {0x8000'0001u, 0xffff'ffffu}) {
    Reset({});
    ExpectNak(Read(first(), Script::Address(0), rkey(), length), NakCode::kInvalidRequest);
    Reset({});
    ExpectNak(
        Write(Position::kFirst, first(), Script::Address(0), rkey(), length).With(Pattern(256)),
        NakCode::kInvalidRequest);
  }
  Reset({});
  ExpectNak(Read(first(), Script::Address(0), rkey(), 0x8000'0000), NakCode::kRemoteAccessError);
  Reset({});
  ExpectNak(
      Write(Position::kFirst, first(), Script::Address(0), rkey(), 0x8000'0000).With(Pattern(256)),
      NakCode::kRemoteAccessError);
}

// IBA 9.4.5: the address that the peer names must be aligned, not the memory behind it.
TEST_F(ResponderChecksTest, MisalignedAtomicOnAlignedMemory) {
  constexpr uint64_t kOddIova = Script::kIova + 4;
  const auto key = script_->endpoint().memory().Register(
      {Script::kPd, kOddIova, script_->memory(), 64,
       AccessFlags(AccessFlags::kLocalWrite | AccessFlags::kRemoteAtomic)});
  ASSERT_TRUE(key);
  ExpectNak(FetchAdd(first(), kOddIova, RKey{key->value}, 1), NakCode::kInvalidRequest);
  EXPECT_EQ(script_->Word(0), 0u);
}

// IBA C10-87: a WRITE whose last packet never comes takes no receive request.
TEST_F(ResponderChecksTest, RefusedBeginningOfAWriteTakesNoReceive) {
  script_->PostReceive(1, 0, 512);
  ExpectNak(
      Write(Position::kFirst, first(), Script::Address(0), wrong_rkey(), 512).With(Pattern(256)),
      NakCode::kRemoteAccessError);
  script_->ExpectCompletion(1, CompletionStatus::kFlushed);
  script_->ExpectEvent(EventType::kQpAccessError);
}

// As NICs do: the receive that waits for the immediate completes with the error.
TEST_F(ResponderChecksTest, RefusedWriteWithImmediateEndsItsReceive) {
  script_->PostReceive(1, 0, 512);
  script_->PostReceive(2, 0, 512);
  script_->PostReceive(3, 0, 512);
  script_->Inject(WriteOf(rkey(), 8).Immediate(7));
  script_->ExpectSent(Ack(first()));
  const auto taken = script_->ExpectCompletion(1);
  EXPECT_EQ(taken.opcode, CompletionOpcode::kReceiveRdmaWithImmediate);

  PacketSpec write = WriteOf(wrong_rkey(), 8).Immediate(7);
  write.psn = first() + 1;
  ExpectNak(write, NakCode::kRemoteAccessError);
  const auto refused = script_->ExpectCompletion(2, CompletionStatus::kLocalAccessError);
  EXPECT_EQ(refused.vendor_error, VendorError::kPeerBrokeRule);
  script_->ExpectCompletion(3, CompletionStatus::kFlushed);
  script_->ExpectNoEvent();  // the completion has reported it
}

TEST_F(ResponderChecksTest, WriteWithImmediateThatTheQueuePairForbidsEndsItsReceive) {
  Reset({.qp_access = AccessFlags()});
  script_->PostReceive(1, 0, 512);
  ExpectNak(WriteOf(rkey(), 8).Immediate(7), NakCode::kInvalidRequest);
  script_->ExpectCompletion(1, CompletionStatus::kLocalAccessError);
  script_->ExpectNoEvent();
}

// The region was deregistered while the WRITE was under way.
TEST_F(ResponderChecksTest, WriteWhoseEndIsRefusedEndsItsReceive) {
  const auto key = script_->endpoint().memory().Register(
      {Script::kPd, Script::kIova, script_->memory(), 1'024,
       AccessFlags(AccessFlags::kLocalWrite | AccessFlags::kRemoteWrite)});
  script_->PostReceive(1, 0, 512);
  const auto write = [&](Position position, Psn psn) {
    return Write(position, psn, Script::Address(0), RKey{key->value}, 512).With(Pattern(256));
  };
  script_->Inject(write(Position::kFirst, first()));
  ASSERT_EQ(script_->endpoint().memory().Deregister(*key), Status::kOk);
  ExpectNak(write(Position::kLast, first() + 1).Immediate(7), NakCode::kRemoteAccessError);
  script_->ExpectCompletion(1, CompletionStatus::kLocalAccessError);
}

// A bad request, and the event that reports it when no receive request can.
struct Refusal {
  const char* name;
  PacketSpec (*packet)(const Script&);
  NakCode code;
  EventType event;
  Script::Options options = {};
};

constexpr uint64_t kMisaligned = Script::Address(4);

const Refusal kRefusals[] = {
    {"middle of no message",
     [](const Script& script) {
       return Send(Position::kMiddle, script.peers_first_psn()).With(Pattern(256));
     },
     NakCode::kInvalidRequest, EventType::kQpRequestError},
    {"operation that is not allowed",
     [](const Script& script) {
       return Read(script.peers_first_psn(), Script::Address(0), script.rkey(), 8);
     },
     NakCode::kInvalidRequest,
     EventType::kQpRequestError,
     {.qp_access = AccessFlags(AccessFlags::kRemoteWrite)}},
    {"key that is not ours",
     [](const Script& script) {
       return Read(script.peers_first_psn(), Script::Address(0), RKey{1}, 8);
     },
     NakCode::kRemoteAccessError, EventType::kQpAccessError},
    {"misaligned atomic",
     [](const Script& script) {
       return FetchAdd(script.peers_first_psn(), kMisaligned, script.rkey(), 1);
     },
     NakCode::kInvalidRequest, EventType::kQpAccessError},
    {"misaligned atomic, and a key that is not ours",
     [](const Script& script) {
       return FetchAdd(script.peers_first_psn(), kMisaligned, RKey{1}, 1);
     },
     NakCode::kInvalidRequest, EventType::kQpAccessError},
    {"one READ too many",
     [](const Script& script) {
       return Read(script.peers_first_psn(), Script::Address(0), script.rkey(), 8);
     },
     NakCode::kInvalidRequest,
     EventType::kQpAccessError,
     {.max_dest_read_atomic = 0}},
    {"more data than the header says",
     [](const Script& script) {
       return Write(Position::kOnly, script.peers_first_psn(), Script::Address(0), script.rkey(), 7)
           .With(Pattern(8));
     },
     NakCode::kInvalidRequest, EventType::kQpAccessError},
};

// IBA 11.6.3.2 QP_REQ_ERR, 11.6.3.2 QP_ACCESS_ERR, C9-222.1.1.
TEST_F(ResponderChecksTest, EachRefusalRaisesItsEvent) {
  for (const Refusal& refusal : kRefusals) {
    SCOPED_TRACE(refusal.name);
    Reset(refusal.options);
    script_->PostReceive(1, 0, 512);  // waits, but no message has taken it
    ExpectNak(refusal.packet(*script_), refusal.code);
    script_->ExpectCompletion(1, CompletionStatus::kFlushed);
    script_->ExpectEvent(refusal.event);
    script_->ExpectNoEvent();
  }
}

// IBA C9-222.1.1.
TEST_F(ResponderChecksTest, NoEventIfAReceiveTakesTheError) {
  script_->PostReceive(1, 0, 512);
  script_->PostReceive(2, 0, 512);
  script_->Inject(Send(Position::kFirst, first()).With(Pattern(256)));
  ExpectNak(Send(Position::kFirst, first() + 1).With(Pattern(256)), NakCode::kInvalidRequest);
  script_->ExpectCompletion(1, CompletionStatus::kRemoteInvalidRequest);
  script_->ExpectCompletion(2, CompletionStatus::kFlushed);
  script_->ExpectNoEvent();
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
