// Requests that the device carries out alone (binding and invalidating memory windows), and their
// place among other requests.

#include <gtest/gtest.h>
#include <pthread.h>

#include "tests/packet_scripts/script.h"
#include "tests/packet_scripts/windows.h"
#include "transport/limits.h"

namespace uroce::transport::packet_scripts {
namespace {

class LocalOperationTest : public testing::Test {
 protected:
  RKey Allocate(WindowType type = WindowType::kType2, PdId pd = Script::kPd) {
    return *script_.endpoint().memory().AllocateWindow(pd, type);
  }
  // A window that is bound to bytes [256, 512).
  RKey Bound(WindowType type = WindowType::kType2) {
    const RKey key = Allocate(type);
    EXPECT_EQ(script_.Post(BindRequest(script_, 900, key, 256, 256), 0, 0), Status::kOk);
    script_.ExpectCompletion(900);
    return NextKey(key);
  }
  // The request fails, and the requests posted after it are flushed.
  void ExpectFailure(const SendWorkRequest& request, CompletionStatus status, VendorError reason) {
    EXPECT_EQ(script_.Post(request, 0, 0), Status::kOk);
    EXPECT_EQ(script_.ExpectCompletion(request.wr_id, status).vendor_error, reason);
    script_.ExpectState(QpState::kError);
    script_.ExpectNothingSent();
    script_.ExpectNoEvent();
  }
  void ExpectBindFails(const SendWorkRequest& request) {
    ExpectFailure(request, CompletionStatus::kMemoryManagementError, VendorError::kWindowBind);
  }
  // Binding to a region that is registered with `access` fails.
  void ExpectBindToRegionFails(uint32_t access) {
    const auto region = script_.endpoint().memory().Register(
        {Script::kPd, Script::kIova, script_.memory(), 4'096, AccessFlags(access)});
    SendWorkRequest request = BindRequest(script_, 1, Allocate(), 0, 64);
    request.window.region = *region;
    ExpectBindFails(request);
  }
  void ExpectInvalidateFails(RKey key) {
    ExpectFailure(InvalidateRequest(1, key), CompletionStatus::kMemoryManagementError,
                  VendorError::kInvalidateKey);
  }
  PacketSpec WriteTo(Psn psn, RKey key, uint64_t offset) const {
    return Write(Position::kOnly, psn, Script::Address(offset), key, 1).With("x");
  }

  Script script_;
  const Psn first_ = script_.first_psn();
  const Psn peers_ = script_.peers_first_psn();
};

TEST_F(LocalOperationTest, ABoundWindowOpensItsRangeToThePeer) {
  const RKey key = Bound();
  script_.Inject(WriteTo(peers_, key, 256));
  script_.ExpectSent(Ack(peers_));
  script_.Inject(WriteTo(peers_ + 1, key, 511));
  script_.ExpectSent(Ack(peers_ + 1));
  script_.Inject(WriteTo(peers_ + 2, key, 512));
  script_.ExpectSent(Nak(peers_ + 2, NakCode::kRemoteAccessError));
}

TEST_F(LocalOperationTest, UnboundWindowGrantsNoAccess) {
  script_.Inject(WriteTo(peers_, Allocate(), 256));
  script_.ExpectSent(Nak(peers_, NakCode::kRemoteAccessError));
}

TEST_F(LocalOperationTest, InvalidatedWindowGrantsNoAccess) {
  const RKey key = Bound();
  EXPECT_EQ(script_.Post(InvalidateRequest(1, key), 0, 0), Status::kOk);
  script_.ExpectCompletion(1);
  script_.Inject(WriteTo(peers_, key, 256));
  script_.ExpectSent(Nak(peers_, NakCode::kRemoteAccessError));
}

// The peer may invalidate a window that it was given, once.
// IBA 9.4.1.1.
TEST_F(LocalOperationTest, PeerInvalidatesAWindowOnce) {
  const RKey key = Bound();
  script_.PostReceive(1, 1'024, 16);
  script_.PostReceive(2, 1'024, 16);
  script_.Inject(Send(Position::kOnly, peers_).Invalidate(key));
  script_.ExpectSent(Ack(peers_));
  script_.ExpectCompletion(1);
  script_.Inject(Send(Position::kOnly, peers_ + 1).Invalidate(key));
  script_.ExpectCompletion(2, CompletionStatus::kRemoteInvalidRequest);
  script_.ExpectState(QpState::kError);
}

// IBA o10-37.2.26: a window of type 1 is not tied to a queue pair, so no peer invalidates it.
TEST_F(LocalOperationTest, ThePeerMayNotInvalidateAWindowOfType1) {
  const RKey key = Bound(WindowType::kType1);
  script_.PostReceive(1, 1'024, 16);
  script_.Inject(Send(Position::kOnly, peers_).Invalidate(key));
  script_.ExpectCompletion(1, CompletionStatus::kRemoteInvalidRequest);
}

TEST_F(LocalOperationTest, BindingOfAKeyThatIsNoWindow) {
  SendWorkRequest request = BindRequest(script_, 1, RKey{0x7777'7700}, 0, 64);
  ExpectBindFails(request);
}

// IBA C10-72.
TEST_F(LocalOperationTest, BindingOfAWindowOfAnotherProtectionDomain) {
  ExpectBindFails(BindRequest(script_, 1, Allocate(WindowType::kType2, PdId{99}), 0, 64));
}

// IBA C10-73: the region must allow windows.
TEST_F(LocalOperationTest, BindingToARegionWithoutWindows) {
  ExpectBindToRegionFails(AccessFlags::kLocalWrite | AccessFlags::kRemoteWrite);
}

// IBA C10-74: a window that the peer may write needs local write access.
TEST_F(LocalOperationTest, BindingForWritesToARegionWithoutLocalWrite) {
  ExpectBindToRegionFails(AccessFlags::kRemoteRead | AccessFlags::kWindowBind);
}

// IBA C10-75.
TEST_F(LocalOperationTest, BindingBeyondTheRegion) {
  ExpectBindFails(BindRequest(script_, 1, Allocate(), Script::kMemoryBytes - 63, 64));
}

TEST_F(LocalOperationTest, BindingToARegionThatIsGone) {
  SendWorkRequest request = BindRequest(script_, 1, Allocate(), 0, 64);
  request.window.region = LKey{script_.lkey().value ^ 1};
  ExpectBindFails(request);
}

// Of the new key only the tag counts, as on NICs.
TEST_F(LocalOperationTest, BindingWithANewKeyOfAnotherWindow) {
  SendWorkRequest request = BindRequest(script_, 1, Allocate(), 0, 64);
  const RKey key = request.rkey;
  request.rkey.value += 0x100;
  EXPECT_EQ(script_.Post(request, 0, 0), Status::kOk);
  script_.ExpectCompletion(1);
  script_.Inject(WriteTo(peers_, key, 0));
  script_.ExpectSent(Ack(peers_));
}

// IBA o10-37.2.30: a window of type 2 must be free.
TEST_F(LocalOperationTest, BindingOfABoundWindowOfType2) {
  ExpectBindFails(BindRequest(script_, 1, Bound(), 0, 64));
}

// IBA o10-37.2.40.
TEST_F(LocalOperationTest, BindingOfAWindowOfType2ToNothing) {
  ExpectBindFails(BindRequest(script_, 1, Allocate(), 0, 0));
}

TEST_F(LocalOperationTest, AWindowOfType1IsBoundAgainAndToNothing) {
  const RKey key = Bound(WindowType::kType1);
  EXPECT_EQ(script_.Post(BindRequest(script_, 1, key, 1'024, 64), 0, 0), Status::kOk);
  script_.ExpectCompletion(1);
  EXPECT_EQ(script_.Post(BindRequest(script_, 2, NextKey(key), 0, 0), 0, 0), Status::kOk);
  script_.ExpectCompletion(2);
}

TEST_F(LocalOperationTest, InvalidatingANullKeyFails) { ExpectInvalidateFails(RKey{0}); }
TEST_F(LocalOperationTest, InvalidatingARegion) { ExpectInvalidateFails(script_.rkey()); }
TEST_F(LocalOperationTest, InvalidatingAFreeWindow) { ExpectInvalidateFails(Allocate()); }
TEST_F(LocalOperationTest, InvalidatingAWindowOfType1) {
  ExpectInvalidateFails(Bound(WindowType::kType1));
}
TEST_F(LocalOperationTest, InvalidatingAKeyThatAWindowHadOnce) {
  ExpectInvalidateFails(RKey{Bound().value - 1});
}

TEST_F(LocalOperationTest, LocalOperationCompletesAfterEarlierRequests) {
  const RKey key = Allocate();
  script_.PostSend(1, 0, 8);
  EXPECT_EQ(script_.Post(BindRequest(script_, 2, key, 256, 256), 0, 0), Status::kOk);
  script_.PostSend(3, 0, 8);
  EXPECT_EQ(script_.TakeSent().size(), 2u);
  script_.ExpectNoCompletion();
  script_.Inject(Ack(first_));
  script_.ExpectCompletion(1);
  script_.ExpectCompletion(2);
  script_.ExpectNoCompletion();
  script_.Inject(Ack(first_ + 1));
  script_.ExpectCompletion(3);
}

TEST_F(LocalOperationTest, FailureCompletesAfterEarlierRequests) {
  script_.PostSend(1, 0, 8);
  EXPECT_EQ(script_.Post(InvalidateRequest(2, RKey{0}), 0, 0), Status::kOk);
  script_.PostSend(3, 0, 8);
  EXPECT_EQ(script_.TakeSent().size(), 1u);
  script_.ExpectNoCompletion();
  script_.Inject(Ack(first_));
  script_.ExpectCompletion(1);
  script_.ExpectCompletion(2, CompletionStatus::kMemoryManagementError);
  script_.ExpectCompletion(3, CompletionStatus::kFlushed);
}

// IBA 10.8.3.3: with a fence a local operation waits for the READs and atomics before it.
TEST_F(LocalOperationTest, FenceDelaysLocalOperationBehindReadAndAtomic) {
  const RKey key = Bound();
  script_.PostRead(1, 0, 8);
  script_.PostFetchAdd(2, 8, 1);
  SendWorkRequest invalidate = InvalidateRequest(3, key);
  invalidate.fence = true;
  EXPECT_EQ(script_.Post(invalidate, 0, 0), Status::kOk);
  EXPECT_EQ(script_.TakeSent().size(), 2u);
  script_.Inject(ReadResponse(Position::kOnly, first_).With(Pattern(8)));
  script_.ExpectCompletion(1);
  script_.Inject(WriteTo(peers_, key, 256));
  script_.ExpectSent(Ack(peers_));  // the window is still bound
  script_.Inject(AtomicAck(first_ + 1, 0));
  script_.ExpectCompletion(2);
  script_.ExpectCompletion(3);
  script_.Inject(WriteTo(peers_ + 1, key, 256));
  script_.ExpectSent(Nak(peers_ + 1, NakCode::kRemoteAccessError));
}

// On UC a failed local operation stops only the send queue.
TEST(LocalOperationUcTest, AFailureLeadsToSqe) {
  Script script({.type = QpType::kUnreliableConnection});
  EXPECT_EQ(script.Post(InvalidateRequest(1, RKey{0}), 0, 0), Status::kOk);
  script.ExpectCompletion(1, CompletionStatus::kMemoryManagementError);
  script.ExpectState(QpState::kSendQueueError);
}

// Runs `f` on a stack too small for a recursion as deep as a send queue.
template <class F>
void OnSmallStack(F f) {
  constexpr size_t kStackBytes = 512 << 10;
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
  pthread_t thread;
  const auto run = [](void* function) -> void* {
    (*static_cast<F*>(function))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &f), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

TEST(LocalOperationDepthTest, AsManyAsASendQueueHoldsCompleteAtOnce) {
  constexpr uint32_t kDepth = kMaxQpWorkRequests;
  Script script({.queue_depth = kDepth, .cq_capacity = kDepth});
  const RKey window = *script.endpoint().memory().AllocateWindow(Script::kPd, WindowType::kType1);
  // The binds wait for the SEND before them.
  script.PostSend(1, 0, 8);
  const auto sent = script.TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  for (uint32_t i = 1; i < kDepth; ++i) {
    SendWorkRequest bind = BindRequest(script, i, window, 256, 256);
    bind.signaled = i == kDepth - 1;
    ASSERT_EQ(script.Post(bind, 0, 0), Status::kOk);
  }
  script.TakeSent();
  script.ExpectNoCompletion();
  OnSmallStack([&] { script.Inject(Ack(script.first_psn())); });
  script.ExpectCompletion(1);
  script.ExpectCompletion(kDepth - 1);
  script.ExpectNoCompletion();
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
