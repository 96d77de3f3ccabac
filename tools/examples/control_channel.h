// A TCP connection that carries lines of text: how the two ends tell each other their QP numbers,
// and how the client asks the server to do something.
#pragma once

#include <cstdint>
#include <string>

namespace live_query {

class ControlChannel {
 public:
  // Both throw std::runtime_error. Listen() prints the port (chosen by the kernel if `port` is "0")
  // and waits for one client.
  static ControlChannel Listen(const std::string& host, const std::string& port);
  static ControlChannel Connect(const std::string& host, const std::string& port);

  ControlChannel(ControlChannel&& other) noexcept;
  ControlChannel& operator=(ControlChannel&&) = delete;
  ~ControlChannel();

  // `line` has no newline. Throws std::runtime_error if the other end is gone.
  void Write(const std::string& line);

  // The next line without its newline; throws std::runtime_error if there is none.
  std::string Read();

  // Write(), then Read().
  std::string Ask(const std::string& line);

 private:
  explicit ControlChannel(int fd) : fd_(fd) {}

  int fd_;
  std::string unread_;  // Bytes received beyond the last line that was returned.
};

}  // namespace live_query
