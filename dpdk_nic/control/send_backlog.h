#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/messages.h"

namespace uroce::nic::control {

// Limits of one connection. Larger than what a correct process or uroced sends at once; a peer that
// reads more slowly costs at most this much memory and so many descriptors.
inline constexpr size_t kMaxBacklogBytes = 256 * 1'024;
inline constexpr size_t kMaxBacklogDescriptors = 64;

// Bytes that a socket did not take yet, and the descriptors that have to go with some of them.
// Allocates only when it is made.
class SendBacklog {
 public:
  SendBacklog();

  bool empty() const { return begin_ == end_; }
  // Queues all or nothing; false: no room. Duplicates of `fds` go with the first byte.
  bool Append(std::span<const uint8_t> bytes, std::span<const int> fds);

  // The oldest bytes that one sendmsg() can send: descriptors go with the first byte only.
  struct Run {
    std::span<const uint8_t> bytes;
    std::array<int, kMaxDescriptors> fds{};
    size_t fd_count = 0;
  };
  Run Front() const;
  // Removes so many bytes of Front(), which were sent, and its descriptors.
  void Consume(size_t bytes);
  void Clear();

 private:
  // An attachment is of one message, which has kMaxDescriptors at most.
  static constexpr size_t kMaxAttachments = kMaxBacklogDescriptors / kMaxDescriptors;
  struct Attachment {
    uint64_t position = 0;  // of the byte it goes with, counted since the backlog was made
    std::array<UniqueFd, kMaxDescriptors> fds;
    size_t fd_count = 0;
  };
  Attachment& attachment(size_t i) { return attachments_[(oldest_ + i) % kMaxAttachments]; }
  const Attachment& attachment(size_t i) const {
    return attachments_[(oldest_ + i) % kMaxAttachments];
  }

  std::unique_ptr<uint8_t[]> bytes_;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t consumed_ = 0;
  std::array<Attachment, kMaxAttachments> attachments_;  // a ring
  size_t oldest_ = 0;
  size_t count_ = 0;
};

}  // namespace uroce::nic::control
