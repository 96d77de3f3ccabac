#include "tools/examples/control_channel.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

namespace live_query {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

[[noreturn]] void Fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

AddressList Resolve(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &list);
  if (error != 0) {
    throw std::runtime_error("cannot resolve " + host + ":" + port + ": " + gai_strerror(error));
  }
  return AddressList(list, &freeaddrinfo);
}

unsigned LocalPort(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) Fail("getsockname");
  // Both families keep the port at the same place.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

}  // namespace

ControlChannel ControlChannel::Listen(const std::string& host, const std::string& port) {
  const AddressList address = Resolve(host, port);
  const int listener = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) Fail("socket");
  const int enable = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &enable, sizeof(enable));
  if (bind(listener, address->ai_addr, address->ai_addrlen) != 0 || listen(listener, 1) != 0) {
    Fail("cannot listen on " + host + ":" + port);
  }
  std::printf("listening on %s port %u\n", host.c_str(), LocalPort(listener));
  const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) Fail("accept");
  close(listener);
  return ControlChannel(fd);
}

ControlChannel ControlChannel::Connect(const std::string& host, const std::string& port) {
  constexpr int kAttempts = 100;  // Ten seconds: the server may still be starting.
  const AddressList address = Resolve(host, port);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) Fail("socket");
    if (connect(fd, address->ai_addr, address->ai_addrlen) == 0) return ControlChannel(fd);
    close(fd);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  Fail("cannot connect to " + host + ":" + port);
}

ControlChannel::ControlChannel(ControlChannel&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), unread_(std::move(other.unread_)) {}

ControlChannel::~ControlChannel() {
  if (fd_ >= 0) close(fd_);
}

void ControlChannel::Write(const std::string& line) {
  const std::string message = line + "\n";
  size_t sent = 0;
  while (sent < message.size()) {
    const ssize_t n = send(fd_, message.data() + sent, message.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) Fail("cannot write to the other end");
    sent += static_cast<size_t>(n);
  }
}

std::string ControlChannel::Read() {
  size_t end;
  while ((end = unread_.find('\n')) == std::string::npos) {
    char bytes[512];
    const ssize_t n = recv(fd_, bytes, sizeof(bytes), 0);
    if (n == 0) throw std::runtime_error("the other end closed the connection");
    if (n < 0) Fail("cannot read from the other end");
    unread_.append(bytes, static_cast<size_t>(n));
  }
  std::string line = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return line;
}

std::string ControlChannel::Ask(const std::string& line) {
  Write(line);
  return Read();
}

}  // namespace live_query
