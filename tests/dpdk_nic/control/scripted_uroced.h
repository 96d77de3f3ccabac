#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>

#include "dpdk_nic/control/control_address.h"
#include "dpdk_nic/control/message_channel.h"
#include "dpdk_nic/control/messages.h"
#include "tests/dpdk_nic/control/control_test_support.h"

namespace uroce::nic::control {

inline Welcome WelcomeTo(Block block) {
  Welcome welcome{};
  welcome.block = block;
  welcome.mtu_bytes = 4'200;
  return welcome;
}

// Stands in for uroced: serves one process, and says what the test tells it to.
class ScriptedUroced {
 public:
  explicit ScriptedUroced(const std::string& fabric) : listener_(ListenOnFabric(fabric)) {
    EXPECT_TRUE(listener_);
  }

  // The Hello of the next process that connects.
  Hello Accept() {
    EXPECT_TRUE(WaitReadable(listener_.get()));
    channel_.Reset(UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    EXPECT_TRUE(WaitReadable(channel_.fd()));
    EXPECT_EQ(Receive(), MessageChannel::Status::kOk);
    return incoming_.As<Hello>().value_or(Hello{});
  }
  bool HasVisitor() const { return IsReadable(listener_.get()); }
  MessageChannel& channel() { return channel_; }
  MessageChannel::Status Receive() { return channel_.Receive(incoming_); }
  const MessageChannel::Incoming& incoming() const { return incoming_; }
  void HangUp() { channel_.Reset({}); }

 private:
  UniqueFd listener_;
  MessageChannel channel_{UniqueFd()};
  MessageChannel::Incoming incoming_;
};

}  // namespace uroce::nic::control
