#include "dpdk_nic/control/message_channel.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <utility>

#include "dpdk_nic/base/cancellation_guard.h"

namespace uroce::nic::control {
namespace {

constexpr size_t kSentControlBytes = CMSG_SPACE(kMaxDescriptors * sizeof(int));
// As many descriptors as the kernel lets a peer send at once (SCM_MAX_FD): the kernel would close
// descriptors without room here, and we would wait for that.
constexpr size_t kReceivedControlBytes = CMSG_SPACE(253 * sizeof(int));

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

MessageChannel::MessageChannel(UniqueFd socket, DescriptorCloser* closer) : closer_(closer) {
  Reset(std::move(socket));
}

void MessageChannel::Reset(UniqueFd socket) {
  // The peer sees the end now, even if the socket is closed later.
  if (socket_ && closer_ != nullptr) shutdown(socket_.get(), SHUT_RDWR);
  Dispose(std::exchange(socket_, std::move(socket)));
  broken_ = ended_ = !socket_;
  lost_descriptors_ = false;
  received_bytes_ = 0;
  CloseDescriptors();
  backlog_.Clear();
}

MessageChannel::Status MessageChannel::Receive(Incoming& out) {
  if (ended_) return Status::kClosed;
  std::optional<MessageShape> shape;
  Status status = ReadUntil(sizeof(MessageHeader));
  if (status == Status::kOk) {
    shape = CheckHeader();
    status = shape ? ReadUntil(sizeof(MessageHeader) + shape->bytes) : Status::kClosed;
  }
  if (status == Status::kClosed) {
    broken_ = ended_ = true;
    CloseDescriptors();
    backlog_.Clear();
  }
  if (status != Status::kOk) return status;

  MessageHeader header;
  memcpy(&header, received_.data(), sizeof header);
  out.type = header.type;
  out.bytes = shape->bytes;
  memcpy(out.body.data(), received_.data() + sizeof header, shape->bytes);
  for (size_t i = 0; i < out.fds.size(); ++i) out.fds[i] = std::move(received_fds_[i]);
  received_bytes_ = 0;
  received_fd_count_ = 0;
  return Status::kOk;
}

MessageChannel::Status MessageChannel::ReadUntil(size_t bytes) {
  Status status = Status::kOk;
  while (status == Status::kOk && received_bytes_ < bytes) {
    status = ReadSocket(bytes - received_bytes_);
  }
  return status;
}

MessageChannel::Status MessageChannel::ReadSocket(size_t bytes) {
  iovec part{&received_[received_bytes_], bytes};
  alignas(cmsghdr) std::array<char, kReceivedControlBytes> control;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const CancellationGuard guard;
  const ssize_t received = recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (received < 0) {
    return WouldBlock(errno) || errno == EINTR ? Status::kNothing : Status::kClosed;
  }
  if (!KeepDescriptors(header) || received == 0) return Status::kClosed;
  received_bytes_ += static_cast<size_t>(received);
  return Status::kOk;
}

// Takes every descriptor that was received, so that none leaks; false if they are not right.
bool MessageChannel::KeepDescriptors(const msghdr& header) {
  // The buffer has room for all of them, so this process's table had none.
  bool right = (header.msg_flags & MSG_CTRUNC) == 0;
  lost_descriptors_ = !right;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr;
       c = CMSG_NXTHDR(const_cast<msghdr*>(&header), c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    // Descriptors come with the first byte of their message, and so with its header.
    right = right && received_bytes_ < sizeof(MessageHeader);
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      UniqueFd received(fd);
      if (received_fd_count_ == received_fds_.size()) {
        right = false;
        Dispose(std::move(received));
        continue;
      }
      received_fds_[received_fd_count_++] = std::move(received);
    }
  }
  return right;
}

std::optional<MessageShape> MessageChannel::CheckHeader() const {
  MessageHeader header;
  memcpy(&header, received_.data(), sizeof header);
  const std::optional<MessageShape> shape = AllMessages::ShapeOf(header.type);
  const bool is_right = header.version == kProtocolVersion && shape &&
                        header.bytes == shape->bytes && received_fd_count_ == shape->descriptors;
  return is_right ? shape : std::nullopt;
}

bool MessageChannel::SendBody(MessageType type, std::span<const uint8_t> body,
                              std::span<const int> fds) {
  if (broken_) return false;
  std::array<uint8_t, sizeof(MessageHeader) + kMaxBodyBytes> room;
  const MessageHeader header{static_cast<uint32_t>(body.size()), kProtocolVersion, type};
  memcpy(room.data(), &header, sizeof header);
  memcpy(room.data() + sizeof header, body.data(), body.size());
  const std::span<const uint8_t> message(room.data(), sizeof header + body.size());
  if (wants_write()) return backlog_.Append(message, fds);

  const ssize_t sent = Write(message, fds);
  if (sent < 0 && !WouldBlock(errno)) {
    // ETOOMANYREFS: too many descriptors of this user are in flight. That passes, and is not this
    // peer's fault.
    broken_ = errno != ETOOMANYREFS;
    return false;
  }
  if (sent <= 0) return backlog_.Append(message, fds);
  const std::span<const uint8_t> rest = message.subspan(static_cast<size_t>(sent));
  return rest.empty() || backlog_.Append(rest, {});
}

bool MessageChannel::Flush() {
  while (wants_write()) {
    const SendBacklog::Run run = backlog_.Front();
    const ssize_t sent = Write(run.bytes, {run.fds.data(), run.fd_count});
    if (sent < 0 && WouldBlock(errno)) break;
    if (sent < 0) {
      broken_ = true;
      backlog_.Clear();
    } else {
      backlog_.Consume(static_cast<size_t>(sent));
    }
  }
  return !broken_;
}

ssize_t MessageChannel::Write(std::span<const uint8_t> bytes, std::span<const int> fds) {
  iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, kSentControlBytes> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  const CancellationGuard guard;
  ssize_t sent;
  do {
    sent = sendmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

void MessageChannel::CloseDescriptors() {
  for (UniqueFd& fd : received_fds_) Dispose(std::move(fd));
  received_fd_count_ = 0;
}

void MessageChannel::Dispose(UniqueFd fd) {
  if (fd && closer_ != nullptr) closer_->Close(std::move(fd));
}

}  // namespace uroce::nic::control
