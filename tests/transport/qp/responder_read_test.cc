// READs and atomics at the responder: full, repeated and partial responses, and how many at once.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint32_t kPart = 256;  // the path MTU of these scripts

class ResponderReadTest : public testing::Test {
 protected:
  ResponderReadTest() { Fill(); }

  void Fill() {
    const auto bytes = Pattern(8 * kPart);
    std::copy(bytes.begin(), bytes.end(), script_.memory());
  }
  PacketSpec Request(Psn psn, uint64_t offset, uint32_t length) const {
    return Read(psn, Script::Address(offset), script_.rkey(), length);
  }
  PacketSpec Part(Position position, Psn psn, uint64_t offset, uint32_t length = kPart) const {
    return ReadResponse(position, psn).With(script_.Bytes(offset, length));
  }

  Script script_;
  const Psn first_ = script_.peers_first_psn();
};

// IBA 9.7.3.1.
TEST_F(ResponderReadTest, AResponseTakesAsManyPsnsAsPackets) {
  script_.Inject(Request(first_, 0, 2 * kPart + 1));
  script_.ExpectSent(Part(Position::kFirst, first_, 0).Msn(1));
  script_.ExpectSent(Part(Position::kMiddle, first_ + 1, kPart));
  script_.ExpectSent(Part(Position::kLast, first_ + 2, 2 * kPart, 1).Msn(1));
  script_.Inject(Request(first_ + 3, 0, kPart));
  script_.ExpectSent(Part(Position::kOnly, first_ + 3, 0).Msn(2));
}

// IBA 9.7.5.1.4.
TEST_F(ResponderReadTest, ADuplicateIsReadAgain) {
  script_.Inject(Request(first_, 0, 2 * kPart));
  script_.TakeSent();
  *script_.memory() ^= 0xff;  // the responder does not remember what it read
  EXPECT_EQ(script_.Inject(Request(first_, 0, 2 * kPart)), DropReason::kDuplicateRequest);
  script_.ExpectSent(Part(Position::kFirst, first_, 0));
  script_.ExpectSent(Part(Position::kLast, first_ + 1, kPart));
}

// A requester that lost the second response asks for the rest only.
TEST_F(ResponderReadTest, ADuplicateOfTheRestIsAnsweredFromThere) {
  script_.Inject(Request(first_, 0, 4 * kPart));
  script_.TakeSent();
  script_.Inject(Request(first_ + 1, kPart, 3 * kPart));
  script_.ExpectSent(Part(Position::kFirst, first_ + 1, kPart));
  script_.ExpectSent(Part(Position::kMiddle, first_ + 2, 2 * kPart));
  script_.ExpectSent(Part(Position::kLast, first_ + 3, 3 * kPart));
  script_.ExpectNothingSent();
}

// A duplicate cannot ask for more than the original did.
TEST_F(ResponderReadTest, ADuplicateBeyondTheExpectedPsnIsNotAnswered) {
  script_.Inject(Request(first_, 0, 2 * kPart));
  script_.TakeSent();
  EXPECT_EQ(script_.Inject(Request(first_, 0, 3 * kPart)), DropReason::kDuplicateNotHeld);
  script_.ExpectNothingSent();
  script_.ExpectState(QpState::kReadyToSend);
}

TEST_F(ResponderReadTest, ADuplicateWhoseKeyIsGoneIsIgnored) {
  const auto key =
      script_.endpoint().memory().Register({Script::kPd, Script::kIova, script_.memory(), 4 * kPart,
                                            AccessFlags(AccessFlags::kRemoteRead)});
  const PacketSpec request = Read(first_, Script::Address(0), RKey{key->value}, 2 * kPart);
  script_.Inject(request);
  EXPECT_EQ(script_.TakeSent().size(), 2u);
  EXPECT_EQ(script_.endpoint().memory().Deregister(*key), Status::kOk);
  // The requester was answered and its program is done: no reason to end the connection.
  EXPECT_EQ(script_.Inject(request), DropReason::kDuplicateNotHeld);
  script_.ExpectNothingSent();
  script_.ExpectState(QpState::kReadyToSend);
}

// The same when the key vanishes during the second response (simulation seed 1000192).
TEST_F(ResponderReadTest, ADuplicateWhoseKeyGoesWhileItIsAnsweredIsDropped) {
  auto& memory = script_.endpoint().memory();
  const auto key = memory.Register({Script::kPd, Script::kIova, script_.memory(), 4 * kPart,
                                    AccessFlags(AccessFlags::kRemoteRead)});
  const PacketSpec request = Read(first_, Script::Address(0), RKey{key->value}, 3 * kPart);
  script_.Inject(request);
  EXPECT_EQ(script_.TakeSent().size(), 3u);

  script_.HoldTransmit();
  script_.Inject(request);
  script_.TransmitOne();
  EXPECT_EQ(memory.Deregister(*key), Status::kOk);
  script_.ReleaseTransmit();
  script_.ExpectSent(ReadResponse(Position::kFirst, first_).With(script_.Bytes(0, kPart)));
  script_.ExpectNothingSent();
  script_.ExpectState(QpState::kReadyToSend);
  // The connection continues where it was.
  script_.Inject(Request(first_ + 3, 0, 1));
  script_.ExpectSent(Part(Position::kOnly, first_ + 3, 0, 1));
}

// For an original READ the peer still waits for the data and must get an error.
// IBA 9.7.5.1.3.
TEST_F(ResponderReadTest, AKeyThatGoesWhileAReadIsAnsweredIsAnAccessError) {
  auto& memory = script_.endpoint().memory();
  const auto key = memory.Register({Script::kPd, Script::kIova, script_.memory(), 4 * kPart,
                                    AccessFlags(AccessFlags::kRemoteRead)});
  script_.HoldTransmit();
  script_.Inject(Read(first_, Script::Address(0), RKey{key->value}, 3 * kPart));
  script_.TransmitOne();
  EXPECT_EQ(memory.Deregister(*key), Status::kOk);
  script_.ReleaseTransmit();
  script_.ExpectSent(ReadResponse(Position::kFirst, first_).With(script_.Bytes(0, kPart)));
  script_.ExpectSent(Nak(first_ + 1, NakCode::kRemoteAccessError));
  script_.ExpectState(QpState::kError);
}

// An ACK covers everything before it, so it waits for the earlier responses.
// IBA 9.5.
TEST_F(ResponderReadTest, AnAckDoesNotOvertakeAReadResponse) {
  script_.PostReceive(1, 16'384, 16);
  script_.HoldTransmit();
  script_.Inject(Request(first_, 0, 2 * kPart));
  script_.Inject(Send(Position::kOnly, first_ + 2).With("x"));
  script_.ReleaseTransmit();
  script_.ExpectSent(Part(Position::kFirst, first_, 0));
  script_.ExpectSent(Part(Position::kLast, first_ + 1, kPart));
  script_.ExpectSent(Ack(first_ + 2).Msn(2));
  script_.ExpectCompletion(1);
}

// IBA 9.7.5.1.2: the response to a READ acknowledges the READ and all requests before it. Some
// requesters would take an ACK with the PSN of the READ for its response, if that was lost or came
// later (rdma_rxe: tests/interop/README.md).
TEST_F(ResponderReadTest, AnAckDoesNotNameARead) {
  script_.HoldTransmit();
  script_.Inject(Write(Position::kOnly, first_));
  script_.Inject(Request(first_ + 1, 0, 2 * kPart));
  script_.ReleaseTransmit();
  script_.ExpectSent(Part(Position::kFirst, first_ + 1, 0).Msn(2));
  script_.ExpectSent(Part(Position::kLast, first_ + 2, kPart).Msn(2));
  script_.ExpectNothingSent();

  // Nor when the WRITE comes again.
  script_.ExpectDropped(DropReason::kDuplicateRequest, Write(Position::kOnly, first_));
  script_.ExpectSent(Ack(first_).Msn(1));
  script_.ExpectNothingSent();
}

TEST_F(ResponderReadTest, MaxDestReadAtomicAtOnceAreAnswered) {
  script_.HoldTransmit();
  for (uint32_t i = 0; i < 4; ++i) script_.Inject(Request(first_ + i, i * 8, 8));
  script_.ReleaseTransmit();
  for (uint32_t i = 0; i < 4; ++i) {
    script_.ExpectSent(Part(Position::kOnly, first_ + i, i * 8, 8).Msn(i + 1));
  }
}

// IBA 9.4.4: one more READ is refused.
TEST_F(ResponderReadTest, OneMoreThanMaxDestReadAtomicIsRefused) {
  script_.HoldTransmit();
  for (uint32_t i = 0; i < 5; ++i) script_.Inject(Request(first_ + i, i * 8, 8));
  script_.ReleaseTransmit();
  for (uint32_t i = 0; i < 4; ++i) script_.ExpectSent(Part(Position::kOnly, first_ + i, i * 8, 8));
  script_.ExpectSent(Nak(first_ + 4, NakCode::kInvalidRequest));
  script_.ExpectState(QpState::kError);
}

class ResponderAtomicTest : public testing::Test {
 protected:
  PacketSpec Add(Psn psn, uint64_t value) const {
    return FetchAdd(psn, Script::Address(64), script_.rkey(), value);
  }
  PacketSpec Swap(Psn psn, uint64_t compare, uint64_t swap) const {
    return CompareSwap(psn, Script::Address(64), script_.rkey(), compare, swap);
  }

  Script script_;
  const Psn first_ = script_.peers_first_psn();
};

// IBA 9.4.5.
TEST_F(ResponderAtomicTest, FetchAndAddWrapsAndReturnsTheOriginalValue) {
  script_.SetWord(64, ~uint64_t{0});
  script_.Inject(Add(first_, 3));
  script_.ExpectSent(AtomicAck(first_, ~uint64_t{0}).Msn(1));
  EXPECT_EQ(script_.Word(64), 2u);
}

// IBA 9.4.5.
TEST_F(ResponderAtomicTest, CompareAndSwapSwapsOnlyAnEqualValue) {
  script_.SetWord(64, 0x0123'4567'89ab'cdef);
  script_.Inject(Swap(first_, 0x0123'4567'89ab'cdee, 1));
  script_.ExpectSent(AtomicAck(first_, 0x0123'4567'89ab'cdef));
  EXPECT_EQ(script_.Word(64), 0x0123'4567'89ab'cdefu);
  script_.Inject(Swap(first_ + 1, 0x0123'4567'89ab'cdef, 1));
  script_.ExpectSent(AtomicAck(first_ + 1, 0x0123'4567'89ab'cdef));
  EXPECT_EQ(script_.Word(64), 1u);
}

// rxe once replayed the result of another atomic.
// IBA 9.7.5.1.4.
TEST_F(ResponderAtomicTest, EachDuplicateGetsItsOwnResult) {
  for (uint32_t i = 0; i < 4; ++i) {
    script_.Inject(Add(first_ + i, 10));
    script_.ExpectSent(AtomicAck(first_ + i, i * 10));
  }
  for (const uint32_t i : {2u, 0u, 3u, 1u, 0u}) {
    EXPECT_EQ(script_.Inject(Add(first_ + i, 10)), DropReason::kDuplicateRequest);
    script_.ExpectSent(AtomicAck(first_ + i, i * 10));
  }
  EXPECT_EQ(script_.Word(64), 40u);
}

// IBA 9.7.5.1.2.
TEST_F(ResponderAtomicTest, AnAckDoesNotNameAnAtomic) {
  script_.HoldTransmit();
  script_.Inject(Write(Position::kOnly, first_));
  script_.Inject(Add(first_ + 1, 10));
  script_.ReleaseTransmit();
  script_.ExpectSent(AtomicAck(first_ + 1, 0).Msn(2));
  script_.ExpectNothingSent();
  script_.ExpectDropped(DropReason::kDuplicateRequest, Write(Position::kOnly, first_));
  script_.ExpectSent(Ack(first_).Msn(1));
}

// IBA 9.7.5.1.4.
TEST_F(ResponderAtomicTest, ADuplicateThatIsForgottenIsNotExecuted) {
  for (uint32_t i = 0; i < 5; ++i) {  // max_dest_rd_atomic is 4
    script_.Inject(Add(first_ + i, 1));
    script_.ExpectSent(AtomicAck(first_ + i, i));
  }
  EXPECT_EQ(script_.Inject(Add(first_, 1)), DropReason::kDuplicateNotHeld);
  script_.ExpectNothingSent();
  EXPECT_EQ(script_.Word(64), 5u);
}

// A SEND had this PSN, so a duplicate atomic with it was never executed.
TEST_F(ResponderAtomicTest, DuplicateAtomicWithThePsnOfASendIsNotExecuted) {
  script_.PostReceive(1, 1'024, 16);
  script_.Inject(Send(Position::kOnly, first_).With("x"));
  script_.TakeSent();
  script_.ExpectCompletion(1);
  EXPECT_EQ(script_.Inject(Add(first_, 1)), DropReason::kDuplicateNotHeld);
  script_.ExpectNothingSent();
  EXPECT_EQ(script_.Word(64), 0u);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
