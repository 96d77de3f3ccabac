#include "dpdk_nic/control/message_channel.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace uroce::nic::control {
namespace {

constexpr size_t kControlBytes = CMSG_SPACE(kMaxDescriptors * sizeof(int));

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

MessageChannel::MessageChannel(UniqueFd socket) { Reset(std::move(socket)); }

void MessageChannel::Reset(UniqueFd socket) {
  socket_ = std::move(socket);
  broken_ = ended_ = !socket_;
  begin_ = end_ = 0;
  CloseDescriptors();
  backlog_.Clear();
}

MessageChannel::Status MessageChannel::Receive(Incoming& out) {
  Status status = ended_ ? Status::kClosed : TakeMessage(out);
  while (status == Status::kNothing) {
    status = ReadSocket();
    if (status == Status::kNothing) return status;
    if (status == Status::kOk) status = TakeMessage(out);
  }
  if (status == Status::kClosed) {
    broken_ = ended_ = true;
    CloseDescriptors();
    backlog_.Clear();
  }
  return status;
}

// Precondition: no whole message is in `received_`, so there is room for at least one byte.
MessageChannel::Status MessageChannel::ReadSocket() {
  std::copy(&received_[begin_], &received_[0] + end_, &received_[0]);
  end_ -= begin_;
  begin_ = 0;

  iovec part{&received_[end_], kReceiveBytes - end_};
  alignas(cmsghdr) std::array<char, kControlBytes> control;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t bytes = recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (bytes < 0) {
    return WouldBlock(errno) || errno == EINTR ? Status::kNothing : Status::kClosed;
  }
  if (!KeepDescriptors(header) || bytes == 0) return Status::kClosed;
  end_ += static_cast<size_t>(bytes);
  return Status::kOk;
}

// Takes every descriptor that was received, so that none is ever lost; false if there are more than
// can be right.
bool MessageChannel::KeepDescriptors(const msghdr& header) {
  bool right = (header.msg_flags & MSG_CTRUNC) == 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr;
       c = CMSG_NXTHDR(const_cast<msghdr*>(&header), c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      UniqueFd received(fd);
      if (received_fd_count_ == received_fds_.size()) {
        right = false;
        continue;
      }
      received_fds_[received_fd_count_++] = std::move(received);
    }
  }
  return right;
}

MessageChannel::Status MessageChannel::TakeMessage(Incoming& out) {
  const size_t available = end_ - begin_;
  MessageHeader header;
  if (available < sizeof header) {
    const size_t most = available == 0 ? 0 : kMaxDescriptors;
    return received_fd_count_ > most ? Status::kClosed : Status::kNothing;
  }
  memcpy(&header, &received_[begin_], sizeof header);
  const std::optional<MessageShape> shape = AllMessages::ShapeOf(header.type);
  if (header.version != kProtocolVersion || !shape || header.bytes != shape->bytes) {
    return Status::kClosed;
  }
  const size_t bytes = sizeof header + shape->bytes;
  // Descriptors come with the first byte of their message, and the kernel ends a read that brings
  // some within the bytes of theirs. So what is too much for the last message is nobody's.
  if (available <= bytes && received_fd_count_ > shape->descriptors) return Status::kClosed;
  if (available < bytes) return Status::kNothing;
  if (received_fd_count_ < shape->descriptors) return Status::kClosed;

  out.type = header.type;
  out.bytes = shape->bytes;
  memcpy(out.body.data(), &received_[begin_ + sizeof header], shape->bytes);
  begin_ += bytes;
  for (size_t i = 0; i < out.fds.size(); ++i) {
    out.fds[i] = i < shape->descriptors ? std::move(received_fds_[i]) : UniqueFd();
  }
  std::move(&received_fds_[shape->descriptors], &received_fds_[0] + received_fd_count_,
            &received_fds_[0]);
  received_fd_count_ -= shape->descriptors;
  return Status::kOk;
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
    // Too many descriptors of this user are under way: a matter of time, and not of this peer.
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
  alignas(cmsghdr) std::array<char, kControlBytes> control{};
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
  ssize_t sent;
  do {
    sent = sendmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

void MessageChannel::CloseDescriptors() {
  for (UniqueFd& fd : received_fds_) fd.reset();
  received_fd_count_ = 0;
}

}  // namespace uroce::nic::control
