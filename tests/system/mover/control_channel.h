#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace mover {

// A TCP connection between the two ends. Both ends make the same exchanges in the same order, so
// every exchange is a barrier, too. Structures are sent as they lie in memory: both ends are one
// program.
class ControlChannel {
 public:
  // Both throw std::runtime_error. Listen() prints "listening on port N" (N chosen by the kernel
  // if `port` is "0") and waits for one client.
  static ControlChannel Listen(const std::string& host, const std::string& port);
  static ControlChannel Connect(const std::string& host, const std::string& port);

  ControlChannel(ControlChannel&& other) noexcept;
  ControlChannel& operator=(ControlChannel&&) = delete;
  ~ControlChannel();

  // Sends `ours` and returns the peer's, which is as long. Throws std::runtime_error.
  template <typename T>
  std::vector<T> Exchange(const std::vector<T>& ours) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> theirs(ours.size());
    ExchangeBytes(std::as_bytes(std::span(ours)), std::as_writable_bytes(std::span(theirs)));
    return theirs;
  }
  template <typename T>
  T Exchange(const T& ours) {
    return Exchange(std::vector<T>{ours})[0];
  }
  void Barrier() { Exchange('.'); }

 private:
  explicit ControlChannel(int fd) : fd_(fd) {}
  void ExchangeBytes(std::span<const std::byte> ours, std::span<std::byte> theirs);

  int fd_;
};

}  // namespace mover
