#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/control_address.h"
#include "dpdk_nic/control/message_channel.h"
#include "dpdk_nic/control/messages.h"
#include "transport/ids.h"
#include "transport/time.h"

namespace uroce::nic::control {

// A process's membership of a fabric: says Hello to its uroced, keeps the block of QPNs that it is
// given, and attaches anew by itself, with the same block, whenever uroced was started anew. Never
// blocks and has no thread. What the messages are about is not its business.
class ControlClient {
 public:
  struct Options {
    std::string fabric;
    uint32_t mtu_bytes = 0;       // 0: the fabric's
    transport::Gid ip{};          // zero: the fabric's
    int published_state_fd = -1;  // stays the caller's, and open
    transport::Duration retry_interval = transport::Milliseconds(100);
  };
  explicit ControlClient(Options options);
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  enum class State {
    kDetached,   // no uroced answers (connect_error()); tried again after each retry_interval
    kAttaching,  // said Hello
    kAttached,
    kRefused,  // for good: refusal() says why
  };

  // Does what is to be done: connects, attaches, sends what had to wait. One system call if there
  // is nothing.
  void Serve();
  State state() const { return state_; }
  // Why the last attempt to connect failed, as ConnectToFabric has it; 0 if it did not. EAGAIN:
  // uroced is there and busy; that is tried again after each kQueueRetryInterval.
  int connect_error() const { return connect_error_; }
  // Of the last attachment; meaningful once attachments() > 0.
  const Welcome& welcome() const { return welcome_; }
  // Meaningful when refused. The sentence ends with a NUL.
  const Refused& refusal() const { return refusal_; }

  // How often it became attached. When it changes, it is another uroced, to which everything has to
  // be said again.
  uint32_t attachments() const { return attachments_; }

  // False if it was not sent: not attached, or uroced has not read what was said before; try again
  // after a later Serve.
  template <Message T>
  bool Send(const T& message, std::span<const int, T::kDescriptors> fds = {}) {
    if (state_ != State::kAttached) return false;
    const bool sent = channel_.Send(message, fds);
    ChannelWasWritten();
    return sent;
  }

  // The next message from uroced that is not about attaching, in order. Call it after Serve until
  // it is false; that is also how the end of an attachment is noticed.
  bool Take(MessageChannel::Incoming& out);

  // Readable when Serve or Take has something to do. The same for life.
  int wait_fd() const { return epoll_.get(); }

  // After fork, in the child: closes everything, so that uroced and the others notice the parent's
  // end. Nothing but destruction makes sense afterwards. Async-signal-safe.
  void Abandon();

 private:
  enum class Source : uint32_t { kChannel, kTimer };

  void Connect();
  UniqueFd ConnectToUroced();
  bool SayHello();
  void ReadAnswer();
  void Attach(const Welcome& welcome, UniqueFd claim);
  void Detach();
  void Disconnect();
  void Refuse(const Refused& refusal);
  void Refuse(int error, const std::string& sentence);
  void Watch(int fd, Source source);
  void ChannelWasWritten();

  const Options options_;
  State state_ = State::kDetached;
  UniqueFd epoll_;
  UniqueFd retry_timer_;
  bool retry_is_due_ = true;
  MessageChannel channel_;
  FabricPlace place_;              // of the uroced that is or was connected
  bool channel_readable_ = false;  // as far as epoll has said
  bool watches_room_ = false;      // epoll waits until the channel takes more
  int connect_error_ = 0;
  UniqueFd claim_;  // of welcome_.block, since the first attachment; see BlockClaims
  uint32_t attachments_ = 0;
  Welcome welcome_{};
  Refused refusal_{};
};

}  // namespace uroce::nic::control
