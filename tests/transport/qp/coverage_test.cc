// A script covers every value that a queue pair can report: scripts record their expectations
// (tests/packet_scripts/coverage.h), and after all of them ran no value may be missing.
//
// The switches have no default: with a new value this file does not compile until it says whether
// the value occurs.

#include "tests/packet_scripts/coverage.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace uroce::transport::packet_scripts {
namespace {

bool Occurs(CompletionStatus status) {
  switch (status) {
    case CompletionStatus::kSuccess:
    case CompletionStatus::kLocalLengthError:
    case CompletionStatus::kLocalQpOperationError:
    case CompletionStatus::kLocalProtectionError:
    case CompletionStatus::kFlushed:
    case CompletionStatus::kMemoryManagementError:
    case CompletionStatus::kBadResponse:
    case CompletionStatus::kLocalAccessError:
    case CompletionStatus::kRemoteInvalidRequest:
    case CompletionStatus::kRemoteAccessError:
    case CompletionStatus::kRemoteOperationError:
    case CompletionStatus::kRetryExceeded:
    case CompletionStatus::kRnrRetryExceeded:
      return true;
    case CompletionStatus::kRemoteAborted:
    case CompletionStatus::kFatal:
    case CompletionStatus::kGeneralError:
      return false;
  }
  return false;
}

bool Occurs(CompletionOpcode opcode) {
  switch (opcode) {
    case CompletionOpcode::kSend:
    case CompletionOpcode::kRdmaWrite:
    case CompletionOpcode::kRdmaRead:
    case CompletionOpcode::kCompareAndSwap:
    case CompletionOpcode::kFetchAndAdd:
    case CompletionOpcode::kBindWindow:
    case CompletionOpcode::kLocalInvalidate:
    case CompletionOpcode::kFlush:
    case CompletionOpcode::kAtomicWrite:
    case CompletionOpcode::kReceive:
    case CompletionOpcode::kReceiveRdmaWithImmediate:
      return true;
  }
  return false;
}

bool Occurs(VendorError error) {
  switch (error) {
    case VendorError::kNone:
    case VendorError::kAckTimeout:
    case VendorError::kPsnNakRetries:
    case VendorError::kRnrRetries:
    case VendorError::kNakInvalidRequest:
    case VendorError::kNakRemoteAccess:
    case VendorError::kNakRemoteOperation:
    case VendorError::kLocalKeyInvalid:
    case VendorError::kReceiveTooSmall:
    case VendorError::kNoReadCredits:
    case VendorError::kImpossibleRequest:
    case VendorError::kWindowBind:
    case VendorError::kInvalidateKey:
    case VendorError::kFlushedByError:
    case VendorError::kFlushedByUser:
    case VendorError::kPeerBrokeRule:
    case VendorError::kDatagramTooLong:
    case VendorError::kMessageTorn:
    case VendorError::kWrongResponse:
      return true;
    case VendorError::kMemoryGone:  // gone_memory_test.cc
    case VendorError::kPeerGone:    // linked_peer_test.cc
      return false;
  }
  return false;
}

bool Occurs(EventType event) {
  switch (event) {
    case EventType::kCqError:
    case EventType::kQpFatal:
    case EventType::kQpRequestError:
    case EventType::kQpAccessError:
    case EventType::kCommunicationEstablished:
    case EventType::kSendQueueDrained:
    case EventType::kPathMigrated:
    case EventType::kPathMigrationError:
    case EventType::kDeviceFatal:
    case EventType::kPortActive:
    case EventType::kPortError:
    case EventType::kGidChange:
    case EventType::kSrqLimitReached:
    case EventType::kLastWqeReached:
    case EventType::kCompletion:
      return true;
  }
  return false;
}

bool Occurs(NakCode code) {
  switch (code) {
    case NakCode::kPsnSequenceError:
    case NakCode::kInvalidRequest:
    case NakCode::kRemoteAccessError:
    case NakCode::kRemoteOperationalError:
      return true;
    case NakCode::kInvalidRdRequest:  // of a service that we do not support
      return false;
  }
  return false;
}

template <class Value>
void ExpectSeen(const char* what, const std::set<Value>& seen) {
  for (int i = 0; i < 256; ++i) {
    const auto value = static_cast<Value>(i);
    if (!Occurs(value)) continue;
    EXPECT_TRUE(seen.contains(value)) << "no script expects " << what << ' ' << i;
  }
}

void ExpectDropReasons() {
  for (int i = 1; i < static_cast<int>(DropReason::kCount); ++i) {
    const auto reason = static_cast<DropReason>(i);
    if (reason == DropReason::kNoFlow) continue;  // only for frames that are no packets
    EXPECT_TRUE(coverage().dropped.contains(reason))
        << "no script expects a packet to be dropped for " << Name(reason);
  }
}

void ExpectSyndrome(Syndrome syndrome) {
  const uint8_t byte = KindOf(syndrome);
  EXPECT_TRUE(coverage().naks_sent.contains(byte)) << "no script expects syndrome " << int{byte};
  EXPECT_TRUE(coverage().naks_received.contains(byte)) << "no script sends syndrome " << int{byte};
}

void ExpectSyndromes() {
  ExpectSyndrome(Syndrome::Ack(0));
  ExpectSyndrome(Syndrome::RnrNak(0));
  for (uint8_t i = 0; i < 32; ++i) {
    if (Occurs(static_cast<NakCode>(i))) ExpectSyndrome(Syndrome::Nak(static_cast<NakCode>(i)));
  }
}

void ExpectCounters() {
  for (const QueuePairCounterRow& counter : kQueuePairCounters) {
    if (counter.name == "memory_gone") continue;  // gone_memory_test.cc
    EXPECT_TRUE(coverage().counters.contains(counter.name))
        << "no script makes " << counter.name << " count";
  }
}

class CoverageCheck : public testing::Environment {
 public:
  void TearDown() override {
    // Checks only if all scripts ran, in one process.
    if (testing::GTEST_FLAG(filter) != "*" || getenv("TEST_TOTAL_SHARDS") != nullptr) return;
    ExpectDropReasons();
    ExpectSyndromes();
    ExpectSeen("the status", coverage().statuses);
    ExpectSeen("a completion of opcode", coverage().opcodes);
    ExpectSeen("the vendor error", coverage().vendor_errors);
    ExpectSeen("the event", coverage().events);
    ExpectCounters();
  }
};

const testing::Environment* const kCoverageCheck =
    testing::AddGlobalTestEnvironment(new CoverageCheck);

}  // namespace
}  // namespace uroce::transport::packet_scripts
