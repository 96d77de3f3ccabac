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
// of the socket are, and trusts nothing that the peer sends: bytes that are no message, or a
// message without exactly the descriptors of its type, break the channel. Does not check which
// messages make sense when.
class MessageChannel {
 public:
  // With a closer, no descriptor that the peer sent makes this thread wait: the closer closes those
  // that are not handed out, and the socket, as some may lie in its queue.
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
  // the protocol; this is final, and descriptors that came along are closed. Messages that the peer
  // sent before its end are still received. Nothing is read ahead: as long as there are messages,
  // the socket is readable.
  Status Receive(Incoming& out);

  // Sends or queues all of the message; the descriptors stay the caller's. False: nothing of it was
  // sent, because the channel is broken() or the peer has not read earlier messages: either close
  // it, or try again when it no longer wants_write().
  template <Message T>
  bool Send(const T& message, std::span<const int, T::kDescriptors> fds = {}) {
    static_assert(AllMessages::kHas<T>);
    return SendBody(T::kType, {reinterpret_cast<const uint8_t*>(&message), sizeof message}, fds);
  }

  // Whether the socket did not take all bytes at once: call Flush when it becomes writable. Flush
  // is false if the channel is broken.
  bool wants_write() const { return !broken_ && !backlog_.empty(); }
  bool Flush();

  // Nothing can be sent any more. Receive tells whether there is still something to receive.
  bool broken() const { return broken_; }
  // The channel broke because this process had no room for the descriptors of a message.
  bool lost_descriptors() const { return lost_descriptors_; }
  int fd() const { return socket_.get(); }

  // Starts again with another socket, or with none; closes the previous one.
  void Reset(UniqueFd socket);

 private:
  // Reads until `bytes` bytes of a message are there.
  Status ReadUntil(size_t bytes);
  Status ReadSocket(size_t bytes);
  bool KeepDescriptors(const msghdr& header);
  // The shape of the message whose header was read; nullopt if the header is wrong.
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

  // The message that is being received, and nothing behind it: so the descriptors are known to be
  // of this message.
  std::array<uint8_t, sizeof(MessageHeader) + kMaxBodyBytes> received_;
  size_t received_bytes_ = 0;
  std::array<UniqueFd, kMaxDescriptors> received_fds_;
  size_t received_fd_count_ = 0;

  SendBacklog backlog_;
};

}  // namespace uroce::nic::control
