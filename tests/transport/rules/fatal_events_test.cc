// What ends queue pairs through no fault of the peer.

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"

namespace uroce::packet_scripts {
namespace {

using transport::CompletionStatus;
using transport::EventType;
using transport::Position;
using transport::QpState;

// IBA 11.6.3.2 CQ_ERR, 11.6.3.2 QP_FATAL: each of them once.
TEST(FatalEventsTest, CompletionThatDoesNotFit) {
  Script script({.cq_capacity = 1});
  for (const uint64_t wr_id : {1, 2, 3}) script.PostReceive(wr_id, 0, 64);
  // Nobody polls between the two.
  for (const uint32_t i : {0u, 1u}) {
    script.endpoint().OnFrame(
        script.now(), script.Frame(Send(Position::kOnly, script.peers_first_psn() + i).With("x")));
  }
  script.ExpectState(QpState::kError);
  script.ExpectEvent(EventType::kCqError);
  script.ExpectEvent(EventType::kQpFatal);
  script.ExpectNoEvent();
  script.ExpectCompletion(1);
  script.PostReceive(4, 0, 64);  // flushed, but the queue takes no more
  script.ExpectNoCompletion();
}

// IBA 11.6.3.3 DEVICE_FATAL.
TEST(FatalEventsTest, DeviceThatFails) {
  Script script;
  script.PostReceive(1, 0, 64);
  script.endpoint().Fail();
  script.ExpectState(QpState::kError);
  script.ExpectEvent(EventType::kDeviceFatal);
  script.ExpectNoEvent();
  script.ExpectCompletion(1, CompletionStatus::kFlushed);
}

}  // namespace
}  // namespace uroce::packet_scripts
