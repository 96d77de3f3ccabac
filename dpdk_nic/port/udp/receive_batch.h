#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace uroce::nic {

// Room for what one system call receives: some messages of up to 64 KB, each of which may be many
// datagrams (UDP_GRO), with their addresses and control messages.
class ReceiveBatch {
 public:
  static constexpr size_t kMessages = 8;
  static constexpr size_t kMessageBytes = 65'536;

  ReceiveBatch();

  // Receives without waiting; returns how many messages there are, or -1 with errno. After a call
  // that found nothing it asks for one message, as looking for more would hold up the only one.
  int Receive(int fd);

  struct Message {
    const msghdr* header;
    std::span<const uint8_t> bytes;
  };
  // The next received message; returns false when there is none left.
  bool Next(Message* message);
  bool empty() const { return next_ == count_; }
  // Forgets what is left.
  void Clear() { next_ = count_; }

 private:
  void PrepareHeader(size_t index);

  struct Slot {
    alignas(64) std::array<uint8_t, kMessageBytes> bytes;
    sockaddr_storage source;
    iovec vector;
    alignas(cmsghdr) std::array<char, 128> control;
  };

  std::unique_ptr<Slot[]> slots_;
  std::array<mmsghdr, kMessages> headers_{};
  unsigned most_ = 1;  // messages to ask for
  size_t count_ = 0;
  size_t next_ = 0;
};

}  // namespace uroce::nic
