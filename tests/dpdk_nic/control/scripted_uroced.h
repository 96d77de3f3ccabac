#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <optional>
#include <string>
#include <utility>

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

// Stands in for uroced: serves one process, and sends the messages that the test asks for.
class ScriptedUroced {
 public:
  explicit ScriptedUroced(const std::string& fabric) : listener_(FabricListener::Open(fabric)) {
    EXPECT_TRUE(listener_);
  }

  // The first message of the next process; a Hello is returned as a Resume of kSwitchBlock.
  Resume Accept() {
    EXPECT_TRUE(WaitReadable(listener_->fd()));
    channel_.Reset(UniqueFd(accept4(listener_->fd(), nullptr, nullptr, SOCK_CLOEXEC)));
    EXPECT_TRUE(WaitReadable(channel_.fd()));
    EXPECT_EQ(Receive(), MessageChannel::Status::kOk);
    claim_.reset();
    if (const auto hello = incoming_.As<Hello>()) return {kSwitchBlock, *hello};
    claim_ = std::move(incoming_.fds[1]);
    return incoming_.As<Resume>().value_or(Resume{});
  }
  // Sends Welcome with the claim of the block: the one that came with the Resume, or a new one.
  bool SayWelcome(const Welcome& welcome) {
    if (!claim_) claim_ = BlockClaims(listener_->folder()).Give(welcome.block, geteuid());
    if (!claim_) claim_ = NumberedFd(1);  // not a valid block: any descriptor will do
    const UniqueFd claim = std::move(claim_);
    return channel_.Send(welcome, std::array<int, Welcome::kDescriptors>{claim.get()});
  }
  int claim() const { return claim_.get(); }
  void SetBacklog(int backlog) { EXPECT_EQ(listen(listener_->fd(), backlog), 0); }
  void AcceptUnauthenticated() {
    EXPECT_TRUE(UniqueFd(accept4(listener_->fd(), nullptr, nullptr, SOCK_CLOEXEC)));
  }
  bool HasPendingConnection() const { return IsReadable(listener_->fd()); }
  MessageChannel& channel() { return channel_; }
  MessageChannel::Status Receive() { return channel_.Receive(incoming_); }
  const MessageChannel::Incoming& incoming() const { return incoming_; }
  void HangUp() { channel_.Reset({}); }

 private:
  std::optional<FabricListener> listener_;
  UniqueFd claim_;  // from the last Resume
  MessageChannel channel_{UniqueFd()};
  MessageChannel::Incoming incoming_;
};

}  // namespace uroce::nic::control
