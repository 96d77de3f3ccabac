#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/messages.h"

namespace uroce::nic::control {

// Of one connection. Larger than what a correct process or uroced sends at once; a peer that reads
// more slowly costs this much memory and so many descriptors at most.
inline constexpr size_t kMaxBacklogBytes = 256 * 1'024;
inline constexpr size_t kMaxBacklogDescriptors = 64;

// Bytes that a socket did not take yet, and the descriptors that have to go with some of them.
// Allocates when it is made only.
class SendBacklog {
 public:
  SendBacklog();

  bool empty() const { return begin_ == end_; }
  // Queues all or nothing; false: no room. `fds` are duplicated and go with the first byte.
  bool Append(std::span<const uint8_t> bytes, std::span<const int> fds);

  // The oldest bytes that one sendmsg() can send: descriptors are with the first of them only.
  struct Run {
    std::span<const uint8_t> bytes;
    std::array<int, kMaxDescriptors> fds{};
    size_t fd_count = 0;
  };
  Run Front() const;
  // So many bytes of Front() were sent, and with them its descriptors.
  void Consume(size_t bytes);
  void Clear();

 private:
  // Queues are made of messages, which have kMaxDescriptors at most.
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
