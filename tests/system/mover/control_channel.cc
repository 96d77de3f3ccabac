#include "tests/system/mover/control_channel.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <utility>

#include "tests/system/verbs/handles.h"

namespace mover {
namespace {

using system_test::Fail;
using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddressList Resolve(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &list);
  if (error != 0) throw std::runtime_error(host + " " + port + ": " + gai_strerror(error));
  return AddressList(list, &freeaddrinfo);
}

unsigned LocalPort(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    Fail("getsockname", errno);
  }
  // sockaddr_in and sockaddr_in6 have the port at the same offset.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

}  // namespace

ControlChannel ControlChannel::Listen(const std::string& host, const std::string& port) {
  const AddressList address = Resolve(host, port);
  const int listener = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) Fail("socket", errno);
  if (bind(listener, address->ai_addr, address->ai_addrlen) != 0) Fail("bind", errno);
  if (listen(listener, 1) != 0) Fail("listen", errno);
  std::printf("listening on port %u\n", LocalPort(listener));
  std::fflush(stdout);
  const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) Fail("accept", errno);
  close(listener);
  return ControlChannel(fd);
}

ControlChannel ControlChannel::Connect(const std::string& host, const std::string& port) {
  const AddressList address = Resolve(host, port);
  const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) Fail("socket", errno);
  if (connect(fd, address->ai_addr, address->ai_addrlen) != 0) Fail("connect", errno);
  return ControlChannel(fd);
}

ControlChannel::ControlChannel(ControlChannel&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

ControlChannel::~ControlChannel() {
  if (fd_ >= 0) close(fd_);
}

void ControlChannel::ExchangeBytes(std::span<const std::byte> ours, std::span<std::byte> theirs) {
  // A few hundred bytes fit into the socket's buffer, so both ends may write first.
  while (!ours.empty()) {
    const ssize_t n = send(fd_, ours.data(), ours.size(), MSG_NOSIGNAL);
    if (n <= 0) Fail("cannot write to the other end", errno);
    ours = ours.subspan(static_cast<size_t>(n));
  }
  while (!theirs.empty()) {
    const ssize_t n = recv(fd_, theirs.data(), theirs.size(), 0);
    if (n == 0) throw std::runtime_error("the other end is gone");
    if (n < 0) Fail("cannot read from the other end", errno);
    theirs = theirs.subspan(static_cast<size_t>(n));
  }
}

}  // namespace mover
