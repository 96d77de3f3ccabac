#include "dpdk_nic/port/ring/ring_link.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "dpdk_nic/base/cancellation_guard.h"

namespace uroce::nic {
namespace {

// One byte wakes a sleeper, so the socket holds few at a time.
constexpr size_t kDrainBytes = 64;

int SocketOption(const UniqueFd& socket, int option) {
  int value = -1;
  socklen_t length = sizeof value;
  return getsockopt(socket.get(), SOL_SOCKET, option, &value, &length) == 0 ? value : -1;
}

}  // namespace

// Only on such a socket is the end of the peer noticed.
bool RingLink::IsSocketOfALink(const UniqueFd& socket) {
  const int type = SocketOption(socket, SO_TYPE);
  sockaddr_storage peer;
  socklen_t length = sizeof peer;
  return SocketOption(socket, SO_DOMAIN) == AF_UNIX &&
         (type == SOCK_STREAM || type == SOCK_SEQPACKET) &&
         getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer), &length) == 0;
}

std::optional<RingLink::Offer> RingLink::Create() {
  std::unique_ptr<RingMemory> memory = RingMemory::Create();
  int ends[2];
  if (memory == nullptr ||
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return std::nullopt;
  }
  Offer offer;
  offer.socket.reset(ends[1]);
  offer.memory.reset(fcntl(memory->fd(), F_DUPFD_CLOEXEC, 0));
  offer.link.reset(new RingLink(std::move(memory), UniqueFd(ends[0]), 0));
  if (!offer.memory) return std::nullopt;
  return offer;
}

bool RingLink::IsOpen() {
  if (memory_->fd() < 0) return true;
  if (!memory_->IsSealed()) return false;
  memory_->CloseFd();
  return true;
}

std::unique_ptr<RingLink> RingLink::Accept(UniqueFd memory_fd, UniqueFd socket) {
  if (!IsSocketOfALink(socket)) {
    errno = EPROTO;
    return nullptr;
  }
  std::unique_ptr<RingMemory> memory = RingMemory::Open(std::move(memory_fd));
  if (memory == nullptr) return nullptr;
  return Accept(std::shared_ptr<RingMemory>(std::move(memory)), std::move(socket));
}

std::unique_ptr<RingLink> RingLink::Accept(std::shared_ptr<RingMemory> memory, UniqueFd socket) {
  return std::unique_ptr<RingLink>(new RingLink(std::move(memory), std::move(socket), 1));
}

// MSG_DONTWAIT here and below although our own ends are non-blocking: the other side can make a
// socket that came from it blocking at any time.
void RingLink::WakePeer() {
  const CancellationGuard guard;
  // Fails if the buffer is full, when a wake-up is under way already, or if the peer is gone.
  const uint8_t wake = 0;
  [[maybe_unused]] const ssize_t sent =
      send(socket_.get(), &wake, sizeof wake, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool RingLink::peer_alive() {
  if (!peer_alive_) return false;
  const CancellationGuard guard;
  std::array<uint8_t, kDrainBytes> bytes;
  // Reads once: the next calls read what a hostile peer sends beyond this.
  const ssize_t received = recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  peer_alive_ = received > 0 || (received < 0 && (errno == EAGAIN || errno == EINTR));
  return peer_alive_;
}

}  // namespace uroce::nic
