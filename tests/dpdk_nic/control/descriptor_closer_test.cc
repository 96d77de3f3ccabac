#include "dpdk_nic/control/descriptor_closer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <deque>
#include <memory>

#include "tests/dpdk_nic/control/control_test_support.h"

namespace uroce::nic::control {
namespace {

// A TCP connection over loopback; close() of `slow` waits until `reader` has read what was sent.
struct LingeringSocket {
  UniqueFd slow, reader;

  LingeringSocket() {
    const UniqueFd listener(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address;
    const int small = 4'096;
    setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    EXPECT_EQ(bind(listener.get(), generic, length), 0);
    EXPECT_EQ(listen(listener.get(), 1), 0);
    EXPECT_EQ(getsockname(listener.get(), generic, &length), 0);
    slow.reset(socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(connect(slow.get(), generic, length), 0);
    reader.reset(accept(listener.get(), nullptr, nullptr));
    const linger wait{1, 3'600};
    EXPECT_EQ(setsockopt(slow.get(), SOL_SOCKET, SO_LINGER, &wait, sizeof wait), 0);
    const std::array<char, 65'536> bytes{};
    while (send(slow.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
  }
};

// Whether the other end of a socket pair is closed at last.
bool AwaitEnd(const UniqueFd& other) {
  char byte;
  return WaitReadable(other.get()) && read(other.get(), &byte, 1) == 0;
}

TEST(DescriptorCloserTest, ClosesWhatItIsGiven) {
  DescriptorCloser closer;
  closer.Close({});
  std::deque<SocketPair> pairs(100);
  for (SocketPair& pair : pairs) closer.Close(std::move(pair.a));
  for (SocketPair& pair : pairs) EXPECT_TRUE(AwaitEnd(pair.b));
}

TEST(DescriptorCloserTest, FilesWhoseCloseWaitsHoldUpNeitherTheCallerNorOthers) {
  DescriptorCloser closer;
  std::deque<LingeringSocket> hostile(DescriptorCloser::kMaxThreads - 1);
  for (LingeringSocket& socket : hostile) closer.Close(std::move(socket.slow));
  SocketPair pair;
  closer.Close(std::move(pair.a));
  EXPECT_TRUE(AwaitEnd(pair.b));
  for (LingeringSocket& socket : hostile) socket.reader.reset();  // a reset ends the wait
}

TEST(DescriptorCloserTest, WhatIsLeftIsClosedAfterItsEnd) {
  auto closer = std::make_unique<DescriptorCloser>();
  std::deque<SocketPair> pairs(100);
  for (SocketPair& pair : pairs) closer->Close(std::move(pair.a));
  closer.reset();
  for (SocketPair& pair : pairs) EXPECT_TRUE(AwaitEnd(pair.b));
}

}  // namespace
}  // namespace uroce::nic::control
