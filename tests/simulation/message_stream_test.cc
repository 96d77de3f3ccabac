#include "tests/simulation/message_stream.h"

#include <gtest/gtest.h>

namespace uroce::transport::simulation {
namespace {

bool Fits(const Message&) { return true; }

// Datagrams without payload differ in nothing.
TEST(MessageStreamTest, MessagesThatReadTheSameArriveOneByOne) {
  MessageStream stream(MessageStream::Service::kScrambled);
  stream.Add({});
  stream.Add({});
  EXPECT_NE(stream.Take(Fits), nullptr);
  EXPECT_EQ(stream.missing(), 1u);
  EXPECT_NE(stream.Take(Fits), nullptr);
  EXPECT_EQ(stream.missing(), 0u);
  EXPECT_NE(stream.Take(Fits), nullptr) << "doubled on the wire";
}

TEST(MessageStreamTest, InOrderNothingArrivesTwice) {
  MessageStream stream(MessageStream::Service::kOrdered);
  stream.Add({});
  EXPECT_NE(stream.Take(Fits), nullptr);
  EXPECT_EQ(stream.Take(Fits), nullptr);
}

}  // namespace
}  // namespace uroce::transport::simulation
