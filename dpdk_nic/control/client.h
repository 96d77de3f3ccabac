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
// given, and attaches again by itself, with the same block, whenever uroced was restarted. Never
// blocks and has no thread. Does not know what the messages that it carries are about.
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
    kAttaching,  // Hello is sent
    kAttached,
    kRefused,  // for good: refusal() says why
  };

  // Connects, attaches and sends messages that had to wait, as needed. One system call if there is
  // nothing to do.
  void Serve();
  State state() const { return state_; }
  // The errno of the last attempt to connect (ConnectToFabric); 0 if it did not fail. EAGAIN:
  // uroced is there and busy; the next attempt is made after kQueueRetryInterval.
  int connect_error() const { return connect_error_; }
  // The answer to the last Hello; meaningful once attachments() > 0.
  const Welcome& welcome() const { return welcome_; }
  // Meaningful when refused. The sentence ends with a NUL.
  const Refused& refusal() const { return refusal_; }

  // How often the process became attached. When it changes, uroced knows nothing of what it was
  // told before: everything has to be said again.
  uint32_t attachments() const { return attachments_; }

  // False if the message was not sent: not attached, or uroced has not read earlier messages; try
  // again after a later Serve.
  template <Message T>
  bool Send(const T& message, std::span<const int, T::kDescriptors> fds = {}) {
    if (state_ != State::kAttached) return false;
    const bool sent = channel_.Send(message, fds);
    ChannelWasWritten();
    return sent;
  }

  // The next message from uroced that is not about attaching, in order. Call it after Serve until
  // it is false: that also notices the end of an attachment.
  bool Take(MessageChannel::Incoming& out);

  // Readable when Serve or Take has something to do. Never changes.
  int wait_fd() const { return epoll_.get(); }

  // To be called in a forked child: closes everything, so that uroced and the peers notice the
  // parent's end. Only the destructor may follow. Async-signal-safe.
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
  bool channel_readable_ = false;  // according to epoll
  bool watches_room_ = false;      // epoll waits until the channel takes more
  int connect_error_ = 0;
  UniqueFd claim_;  // of welcome_.block, since the first attachment; see BlockClaims
  uint32_t attachments_ = 0;
  Welcome welcome_{};
  Refused refusal_{};
};

}  // namespace uroce::nic::control
