// Measures what plain UDP sockets carry, used as by the uplink and with nothing above them: the
// ceiling of what goes between two hosts. A TCP connection to the same port frames a measurement.
//
//   udp_sockets receive ADDRESS PORT                     for `send` and `write`
//   udp_sockets send ADDRESS PORT SECONDS BYTES          datagrams of BYTES, as many in a call as
//                                                        the kernel takes; prints GB/s that arrived
//   udp_sockets write ADDRESS PORT SECONDS BYTES         the same, with the calls and datagrams of
//                                                        RDMA WRITEs of 64 KiB; the first one of
//                                                        each has BYTES
//   udp_sockets echo ADDRESS PORT                        for `ping`
//   udp_sockets ping ADDRESS PORT ROUND-TRIPS BYTES      spinning; prints "<p50> <p99>", half of a
//                                                        round trip in microseconds

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace uroce::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kExitUsage = 2;
constexpr int kSocketBytes = 64 << 20;  // asked for; the kernel gives what it allows
constexpr size_t kMaxCallBytes = 65'507;
constexpr size_t kMaxSegments = 64;
constexpr size_t kRethBytes = 16;
constexpr size_t kBthAndIcrcBytes = 12 + 4;
constexpr size_t kMaxPathMtu = 4096;
constexpr int kWarmUp = 1000;
constexpr int kPollsBetweenLooks = 4096;

ssize_t Checked(ssize_t result, const char* call) {
  if (result < 0) throw std::runtime_error(std::string(call) + ": " + std::strerror(errno));
  return result;
}

void SetOption(int fd, int level, int option, int value) {
  Checked(setsockopt(fd, level, option, &value, sizeof value), "setsockopt");
}

sockaddr_in AddressOf(const char* address, const char* port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(static_cast<uint16_t>(std::atoi(port)));
  if (inet_pton(AF_INET, address, &result.sin_addr) != 1) {
    throw std::runtime_error(std::string(address) + " is no IPv4 address");
  }
  return result;
}

const sockaddr* Generic(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

int UdpSocket() {
  const int fd = static_cast<int>(Checked(socket(AF_INET, SOCK_DGRAM, 0), "socket"));
  SetOption(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
  SetOption(fd, SOL_SOCKET, SO_RCVBUF, kSocketBytes);
  SetOption(fd, SOL_SOCKET, SO_SNDBUF, kSocketBytes);
  return fd;
}

// Waits for the client's connection.
int AcceptFrame(const sockaddr_in& address) {
  const int listener = static_cast<int>(Checked(socket(AF_INET, SOCK_STREAM, 0), "socket"));
  SetOption(listener, SOL_SOCKET, SO_REUSEADDR, 1);
  Checked(bind(listener, Generic(address), sizeof address), "bind");
  Checked(listen(listener, 1), "listen");
  return static_cast<int>(Checked(accept(listener, nullptr, nullptr), "accept"));
}

int ConnectFrame(const sockaddr_in& address) {
  const int fd = static_cast<int>(Checked(socket(AF_INET, SOCK_STREAM, 0), "socket"));
  Checked(connect(fd, Generic(address), sizeof address), "connect");
  return fd;
}

bool HasEnded(int frame) {
  char byte;
  return recv(frame, &byte, 1, MSG_DONTWAIT) == 0;
}

// Calls `poll`, which returns whether it found anything, until the client has said that it is done
// and nothing is left.
template <class Poll>
void PollUntilEnd(int frame, Poll poll) {
  for (int idle = 0;;) {
    if (poll()) {
      idle = 0;
    } else if (++idle % kPollsBetweenLooks == 0 && HasEnded(frame)) {
      return;
    }
  }
}

void Receive(const sockaddr_in& address) {
  const int fd = UdpSocket();
  SetOption(fd, SOL_UDP, UDP_GRO, 1);
  Checked(bind(fd, Generic(address), sizeof address), "bind");
  const int frame = AcceptFrame(address);
  std::vector<char> buffer(1 << 16);
  uint64_t received = 0;
  PollUntilEnd(frame, [&] {
    const ssize_t bytes = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (bytes > 0) received += static_cast<uint64_t>(bytes);
    return bytes > 0;
  });
  Checked(write(frame, &received, sizeof received), "write");
}

// Calls `send` for so long; prints the rate at which the receiver says that bytes arrived.
template <class Send>
void Stream(const sockaddr_in& address, double seconds, Send send) {
  const int frame = ConnectFrame(address);
  const Clock::time_point start = Clock::now();
  std::chrono::duration<double> elapsed{};
  do {
    send();
    elapsed = Clock::now() - start;
  } while (elapsed.count() < seconds);
  Checked(shutdown(frame, SHUT_WR), "shutdown");
  uint64_t received = 0;
  if (Checked(read(frame, &received, sizeof received), "read") != sizeof received) {
    throw std::runtime_error("the receiver is gone");
  }
  std::printf("%.3f\n", static_cast<double>(received) / elapsed.count() / 1e9);
}

void Send(const sockaddr_in& address, double seconds, size_t bytes) {
  const int fd = UdpSocket();
  Checked(connect(fd, Generic(address), sizeof address), "connect");
  const size_t segments = std::max<size_t>(1, std::min(kMaxSegments, kMaxCallBytes / bytes));
  if (segments > 1) SetOption(fd, SOL_UDP, UDP_SEGMENT, static_cast<int>(bytes));
  const std::vector<char> data(segments * bytes);
  Stream(address, seconds, [&] { Checked(send(fd, data.data(), data.size(), 0), "send"); });
}

// A message for sendmmsg: datagrams that are cut out of `data`, with the control messages of the
// uplink.
class Run {
 public:
  Run(const sockaddr_in& address, std::span<char> data, size_t segment_bytes)
      : address_(address), vector_{data.data(), data.size()} {
    AddControl(IPPROTO_IP, IP_TOS, int{0});
    AddControl(IPPROTO_IP, IP_TTL, int{64});
    AddControl(SOL_UDP, UDP_SEGMENT, static_cast<uint16_t>(segment_bytes));
  }

  mmsghdr header() {
    mmsghdr header{};
    header.msg_hdr.msg_name = &address_;
    header.msg_hdr.msg_namelen = sizeof address_;
    header.msg_hdr.msg_iov = &vector_;
    header.msg_hdr.msg_iovlen = 1;
    header.msg_hdr.msg_control = control_.data();
    header.msg_hdr.msg_controllen = control_bytes_;
    return header;
  }

 private:
  template <class Value>
  void AddControl(int level, int type, Value value) {
    cmsghdr header{};
    header.cmsg_level = level;
    header.cmsg_type = type;
    header.cmsg_len = CMSG_LEN(sizeof value);
    char* const at = control_.data() + control_bytes_;
    std::memcpy(at, &header, sizeof header);
    std::memcpy(at + CMSG_LEN(0), &value, sizeof value);
    control_bytes_ += CMSG_SPACE(sizeof value);
  }

  sockaddr_in address_;
  iovec vector_;
  alignas(cmsghdr) std::array<char, 3 * CMSG_SPACE(sizeof(int))> control_{};
  size_t control_bytes_ = 0;
};

// The first datagram is longer than the others, as it has a RETH, so it shares a message with one
// of them only (UDP_SEGMENT). The socket is not connected: its packets would be numbered from
// anywhere, and the ICRC covers the number.
void Write(const sockaddr_in& address, double seconds, size_t first_bytes) {
  constexpr size_t kMessageBytes = 65'536;
  const size_t other_bytes = first_bytes - kRethBytes;
  const size_t datagrams = kMessageBytes / (other_bytes - kBthAndIcrcBytes);
  const int fd = UdpSocket();
  std::vector<char> data(first_bytes + (datagrams - 1) * other_bytes);
  const size_t first_run_bytes = first_bytes + other_bytes;
  Run first(address, std::span(data).first(first_run_bytes), first_bytes);
  Run second(address, std::span(data).subspan(first_run_bytes), other_bytes);
  std::array<mmsghdr, 2> headers = {first.header(), second.header()};
  Stream(address, seconds,
         [&] { Checked(sendmmsg(fd, headers.data(), headers.size(), 0), "sendmmsg"); });
}

void Echo(const sockaddr_in& address) {
  const int fd = UdpSocket();
  Checked(bind(fd, Generic(address), sizeof address), "bind");
  const int frame = AcceptFrame(address);
  std::vector<char> buffer(1 << 16);
  PollUntilEnd(frame, [&] {
    sockaddr_in from{};
    socklen_t length = sizeof from;
    const ssize_t bytes = recvfrom(fd, buffer.data(), buffer.size(), MSG_DONTWAIT,
                                   reinterpret_cast<sockaddr*>(&from), &length);
    if (bytes < 0) {
      sched_yield();  // as uroce does
      return false;
    }
    Checked(sendto(fd, buffer.data(), static_cast<size_t>(bytes), 0, Generic(from), length),
            "sendto");
    return true;
  });
}

void Ping(const sockaddr_in& address, int round_trips, size_t bytes) {
  const int frame = ConnectFrame(address);
  const int fd = UdpSocket();
  Checked(connect(fd, Generic(address), sizeof address), "connect");
  std::vector<char> message(bytes);
  std::vector<double> halves;
  for (int i = 0; i < kWarmUp + round_trips; ++i) {
    const Clock::time_point start = Clock::now();
    Checked(send(fd, message.data(), bytes, 0), "send");
    while (recv(fd, message.data(), bytes, MSG_DONTWAIT) < 0) sched_yield();
    const std::chrono::duration<double, std::micro> elapsed = Clock::now() - start;
    if (i >= kWarmUp) halves.push_back(elapsed.count() / 2);
  }
  close(frame);
  std::sort(halves.begin(), halves.end());
  std::printf("%.2f %.2f\n", halves[halves.size() / 2], halves[halves.size() * 99 / 100]);
}

bool Main(const std::vector<const char*>& words) {
  const std::string mode = words.empty() ? "" : words[0];
  const bool is_server = mode == "receive" || mode == "echo";
  const bool is_client = mode == "send" || mode == "write" || mode == "ping";
  if ((!is_server || words.size() != 3) && (!is_client || words.size() != 5)) return false;
  const sockaddr_in address = AddressOf(words[1], words[2]);
  if (mode == "receive") Receive(address);
  if (mode == "echo") Echo(address);
  if (is_server) return true;
  const auto bytes = static_cast<size_t>(std::atoi(words[4]));
  const bool is_write = mode == "write";
  const size_t least = is_write ? kRethBytes + kBthAndIcrcBytes + 1 : 1;
  const size_t most = is_write ? kMaxPathMtu + kRethBytes + kBthAndIcrcBytes : kMaxCallBytes;
  if (bytes < least || bytes > most) return false;
  if (mode == "send") Send(address, std::atof(words[3]), bytes);
  if (is_write) Write(address, std::atof(words[3]), bytes);
  if (mode == "ping") Ping(address, std::atoi(words[3]), bytes);
  return true;
}

}  // namespace
}  // namespace uroce::bench

int main(int argc, char** argv) {
  try {
    if (uroce::bench::Main({argv + 1, argv + argc})) return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "udp_sockets: %s\n", error.what());
    return EXIT_FAILURE;
  }
  std::fprintf(stderr,
               "usage: udp_sockets receive|echo ADDRESS PORT\n"
               "       udp_sockets send|write ADDRESS PORT SECONDS BYTES\n"
               "       udp_sockets ping ADDRESS PORT ROUND-TRIPS BYTES\n");
  return uroce::bench::kExitUsage;
}
