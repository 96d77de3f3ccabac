#include "dpdk_nic/control/descriptor_closer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <deque>
#include <memory>

#include "tests/dpdk_nic/control/control_test_support.h"

namespace uroce::nic::control {
namespace {

// Waits until the peer of `other` is closed; false if that takes too long.
bool AwaitEnd(const UniqueFd& other) {
  char byte;
  return WaitReadable(other.get()) && read(other.get(), &byte, 1) == 0;
}

TEST(DescriptorCloserTest, EveryGivenDescriptorIsClosed) {
  DescriptorCloser closer;
  closer.Close({});
  std::deque<SocketPair> pairs(100);
  for (SocketPair& pair : pairs) closer.Close(std::move(pair.a));
  for (SocketPair& pair : pairs) EXPECT_TRUE(AwaitEnd(pair.b));
}

TEST(DescriptorCloserTest, BlockingClosesDelayNeitherCallerNorOtherFiles) {
  DescriptorCloser closer;
  std::deque<LingeringSocket> hostile(DescriptorCloser::kMaxThreads - 1);
  for (LingeringSocket& socket : hostile) closer.Close(std::move(socket.slow));
  SocketPair pair;
  closer.Close(std::move(pair.a));
  EXPECT_TRUE(AwaitEnd(pair.b));
  for (LingeringSocket& socket : hostile) socket.reader.reset();  // a reset ends the wait
}

TEST(DescriptorCloserTest, PendingDescriptorsAreClosedAfterDestruction) {
  auto closer = std::make_unique<DescriptorCloser>();
  std::deque<SocketPair> pairs(100);
  for (SocketPair& pair : pairs) closer->Close(std::move(pair.a));
  closer.reset();
  for (SocketPair& pair : pairs) EXPECT_TRUE(AwaitEnd(pair.b));
}

}  // namespace
}  // namespace uroce::nic::control
