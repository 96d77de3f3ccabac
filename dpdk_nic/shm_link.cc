#include "dpdk_nic/shm_link.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace uroce::nic {
namespace {

// Part of the name, so that processes which would not understand each other never meet. Counts
// changes of the ring's layout and of the messages below.
constexpr std::string_view kProtocol = "uroce-link-1";

constexpr int kBacklog = 16;
constexpr size_t kWelcomeFds = 3;  // memory, wake of side 0, wake of side 1

struct Message {
  enum class Kind : uint32_t { kHello = 0x6f6c6548, kWelcome = 0x636c6557 };
  Kind kind;
};

struct Address {
  sockaddr_un address{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

// Abstract: begins with a NUL and needs no file, so that nothing is left behind by a killed
// process.
Address AddressOf(std::string_view link, int side) {
  const std::string path = std::string(kProtocol) + "/" + std::to_string(geteuid()) + "/" +
                           std::string(link) + "/" + std::to_string(side);
  Address result;
  result.address.sun_family = AF_UNIX;
  memcpy(result.address.sun_path + 1, path.data(), path.size());
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + path.size());
  return result;
}

UniqueFd NewSocket() {
  return UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// An abstract name has no permissions: anybody could hold it or connect to it.
bool IsSameUser(const UniqueFd& fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == geteuid();
}

// A connection to a side of the link, or none if nobody of this user has that side.
UniqueFd ConnectTo(std::string_view link, int side) {
  UniqueFd fd = NewSocket();
  const Address address = AddressOf(link, side);
  if (!fd || connect(fd.get(), address.get(), address.length) != 0 || !IsSameUser(fd)) return {};
  return fd;
}

Error Busy(std::string_view link) {
  return {"the link '" + std::string(link) +
          "' is busy: two programs are on it already; end one, or choose another link with "
          "--link NAME"};
}

bool SendMessage(const UniqueFd& fd, Message::Kind kind, std::span<const int> fds) {
  Message message{kind};
  iovec part{&message, sizeof message};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kWelcomeFds * sizeof(int))> control{};
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
  return sendmsg(fd.get(), &header, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof message);
}

struct Received {
  enum class Result { kNothing, kMessage, kClosed } result = Result::kNothing;
  Message::Kind kind{};
  std::array<UniqueFd, kWelcomeFds> fds;
};

// Anything that is not one of our messages counts as closed.
Received ReceiveMessage(const UniqueFd& fd) {
  Received received;
  Message message{};
  iovec part{&message, sizeof message};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kWelcomeFds * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t length = recvmsg(fd.get(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return received;

  for (cmsghdr* c = CMSG_FIRSTHDR(&header); length >= 0 && c != nullptr;
       c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count && i < kWelcomeFds; ++i) {
      int passed;
      memcpy(&passed, CMSG_DATA(c) + i * sizeof(int), sizeof passed);
      received.fds[i].reset(passed);
    }
  }
  const bool whole = length == static_cast<ssize_t>(sizeof message) &&
                     (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  received.result = whole ? Received::Result::kMessage : Received::Result::kClosed;
  received.kind = message.kind;
  return received;
}

}  // namespace

ShmLink::ShmLink(std::string_view name) : name_(name), epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

ErrorOr<int> ShmLink::Join() {
  if (side_) return *side_;
  for (int side : {0, 1}) {
    if (!Claim(side)) continue;
    side_ = side;
    if (side == 0) TellSide1();
    Serve();
    return side;
  }
  if (errno == EADDRINUSE) return Busy(name_);
  return Error{"the link '" + name_ + "' cannot be joined (" + strerror(errno) +
               "): allow this process Unix sockets and more open files"};
}

bool ShmLink::Claim(int side) {
  UniqueFd fd = NewSocket();
  const Address address = AddressOf(name_, side);
  if (!fd || bind(fd.get(), address.get(), address.length) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    return false;
  }
  Watch(fd);
  listener_ = std::move(fd);
  return true;
}

void ShmLink::Serve() {
  if (!side_) return;
  AcceptAll();
  if (accepted_) GreetAccepted();
  if (connection_) ReadConnection();
  if (!connection_ && side_ == 1) ConnectToSide0();
}

void ShmLink::AcceptAll() {
  while (true) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;
    // To side 1 nobody says more than that he is there.
    if (side_ == 1 || !IsSameUser(fd)) continue;
    // Who has not spoken by the time the next one comes was only probing, or will try again.
    if (accepted_) {
      GreetAccepted();
      Unwatch(accepted_);
    }
    Watch(fd);
    accepted_ = std::move(fd);
  }
}

void ShmLink::GreetAccepted() {
  const Received received = ReceiveMessage(accepted_);
  if (received.result == Received::Result::kNothing) return;
  Unwatch(accepted_);
  UniqueFd peer = std::move(accepted_);
  if (received.result != Received::Result::kMessage || received.kind != Message::Kind::kHello) {
    return;
  }
  // Only the process that has side 1 says Hello, so the one before it is gone.
  Pairing pairing;
  pairing.memory = RingMemory::Create();
  pairing.wake_self.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  pairing.wake_peer.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (pairing.memory == nullptr || !pairing.wake_self || !pairing.wake_peer) return;
  const std::array<int, kWelcomeFds> fds = {pairing.memory->fd(), pairing.wake_self.get(),
                                            pairing.wake_peer.get()};
  if (!SendMessage(peer, Message::Kind::kWelcome, fds)) return;
  SetConnection(std::move(peer));
  handshaking_ = false;
  told_side1_ = false;
  pairing_ = std::move(pairing);
}

void ShmLink::ReadConnection() {
  Received received = ReceiveMessage(connection_);
  if (received.result == Received::Result::kNothing) return;
  const bool welcome = received.result == Received::Result::kMessage && handshaking_ &&
                       received.kind == Message::Kind::kWelcome;
  if (!welcome || !received.fds[1] || !received.fds[2]) return Disconnect();

  Pairing pairing;
  pairing.memory = RingMemory::Open(std::move(received.fds[0]));
  pairing.wake_peer = std::move(received.fds[1]);
  pairing.wake_self = std::move(received.fds[2]);
  if (pairing.memory == nullptr) return Disconnect();
  handshaking_ = false;
  pairing_ = std::move(pairing);
}

void ShmLink::ConnectToSide0() {
  UniqueFd fd = ConnectTo(name_, 0);
  if (!fd || !SendMessage(fd, Message::Kind::kHello, {})) return;
  SetConnection(std::move(fd));
  handshaking_ = true;
}

void ShmLink::TellSide1() { told_side1_ = static_cast<bool>(ConnectTo(name_, 1)); }

void ShmLink::SetConnection(UniqueFd fd) {
  Disconnect();
  Watch(fd);
  connection_ = std::move(fd);
}

void ShmLink::Disconnect() {
  if (connection_) Unwatch(connection_);
  connection_.reset();
  handshaking_ = false;
  pairing_.reset();
}

std::optional<ShmLink::Pairing> ShmLink::TakePairing() {
  return std::exchange(pairing_, std::nullopt);
}

void ShmLink::Watch(const UniqueFd& fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event);
}

void ShmLink::Unwatch(const UniqueFd& fd) {
  // Not left to close(): a child between fork and exec may hold the descriptor open a little
  // longer.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd.get(), nullptr);
}

void ShmLink::Abandon() {
  epoll_.reset();
  listener_.reset();
  accepted_.reset();
  connection_.reset();
  side_.reset();
}

std::optional<Error> ProbeLink(std::string_view name) {
  for (int side : {0, 1}) {
    UniqueFd fd = NewSocket();
    const Address address = AddressOf(name, side);
    if (!fd || connect(fd.get(), address.get(), address.length) != 0) return std::nullopt;
  }
  return Busy(name);
}

}  // namespace uroce::nic
