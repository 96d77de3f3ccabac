#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/descriptor_closer.h"
#include "dpdk_nic/control/message_shape.h"
#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/control/send_backlog.h"

namespace uroce::nic::control {

// Messages with descriptors over a connected Unix stream socket. Never blocks, whatever the flags
// of the socket are, and trusts nothing that the other end says: what is not a message, or has not
// exactly the descriptors of its type, breaks the channel. Says nothing about which messages make
// sense when.
class MessageChannel {
 public:
  // With a closer no descriptor that the peer sent makes us wait: those that are not handed out are
  // closed there, and so is the socket, as some may lie in its queue.
  explicit MessageChannel(UniqueFd socket, DescriptorCloser* closer = nullptr);
  ~MessageChannel() { Reset({}); }
  MessageChannel(const MessageChannel&) = delete;
  MessageChannel& operator=(const MessageChannel&) = delete;

  struct Incoming {
    MessageType type{};
    uint32_t bytes = 0;
    std::array<uint8_t, kMaxBodyBytes> body{};
    std::array<UniqueFd, kMaxDescriptors> fds;  // as many as the type has

    // The message, if it is of this type.
    template <Message T>
    std::optional<T> As() const {
      if (type != T::kType || bytes != sizeof(T)) return std::nullopt;
      T message;
      memcpy(&message, body.data(), sizeof message);
      return message;
    }
  };

  enum class Status { kOk, kNothing, kClosed };
  // The next message. kNothing: none is here yet. kClosed: end of file, an error, or the peer broke
  // the protocol; this is final, and descriptors that came along are closed. What the peer said
  // before its end is still received. Nothing is read ahead: as long as there are messages, the
  // socket is readable.
  Status Receive(Incoming& out);

  // Sends or queues all of the message; the descriptors stay the caller's. False: nothing of it was
  // sent, because the channel is broken() or the peer has not read what was said before: either
  // close it, or try again when it no longer wants_write().
  template <Message T>
  bool Send(const T& message, std::span<const int, T::kDescriptors> fds = {}) {
    static_assert(AllMessages::kHas<T>);
    return SendBody(T::kType, {reinterpret_cast<const uint8_t*>(&message), sizeof message}, fds);
  }

  // Whether there is something that the socket did not take at once: call Flush when it becomes
  // writable. Flush is false if the channel is broken.
  bool wants_write() const { return !broken_ && !backlog_.empty(); }
  bool Flush();

  // Nothing can be sent any more. Whether there is still something to receive, Receive tells.
  bool broken() const { return broken_; }
  // It broke as this process had no room for the descriptors that came with a message.
  bool lost_descriptors() const { return lost_descriptors_; }
  int fd() const { return socket_.get(); }

  // Starts anew with another socket, or with none; the one before is closed.
  void Reset(UniqueFd socket);

 private:
  // Reads until there are so many bytes of a message.
  Status ReadUntil(size_t bytes);
  Status ReadSocket(size_t bytes);
  bool KeepDescriptors(const msghdr& header);
  // Of the message whose header was read; nothing unless it is right.
  std::optional<MessageShape> CheckHeader() const;
  bool SendBody(MessageType type, std::span<const uint8_t> body, std::span<const int> fds);
  // The number of bytes that the socket took, or -1 with errno.
  ssize_t Write(std::span<const uint8_t> bytes, std::span<const int> fds);
  void CloseDescriptors();
  void Dispose(UniqueFd fd);

  DescriptorCloser* const closer_;
  UniqueFd socket_;
  bool broken_ = false;
  bool ended_ = false;  // nothing can be received any more
  bool lost_descriptors_ = false;

  // The message that is being received. Never more of the stream than that: so it is known which
  // message a descriptor came with.
  std::array<uint8_t, sizeof(MessageHeader) + kMaxBodyBytes> received_;
  size_t received_bytes_ = 0;
  std::array<UniqueFd, kMaxDescriptors> received_fds_;
  size_t received_fd_count_ = 0;

  SendBacklog backlog_;
};

}  // namespace uroce::nic::control
