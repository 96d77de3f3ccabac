#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dpdk_nic/control/message_channel.h"
#include "tests/fuzz/control_descriptors.h"
#include "tests/fuzz/record.h"

namespace uroce::nic::control {

// The bytes and descriptors that went into a socket, which must come out at its other end: an
// independent check of MessageChannel.
class ControlStream {
 public:
  // The descriptors go with the first byte.
  void Append(std::span<const uint8_t> bytes, std::span<const size_t> descriptors);

  // The next message, as far as the other end can judge it.
  enum class Next { kWhole, kUnfinished, kWrong };
  Next next() const;
  // Peek() returns the next message if it is whole; Skip() passes over it.
  struct Peeked {
    MessageType type;
    std::span<const uint8_t> body;
    size_t first_descriptor;  // of those that came with it; kKnownDescriptors if none
  };
  std::optional<Peeked> Peek() const;
  void Skip();
  // The next message must be this one.
  void RequireMessage(const MessageChannel::Incoming& incoming);

  // The next bytes must be these, and each descriptor must come with the bytes it was sent with.
  void RequireBytes(const RawBytes& raw);
  bool empty() const { return taken_ == bytes_.size(); }
  size_t left() const { return bytes_.size() - taken_; }

 private:
  struct Attachment {
    size_t position;
    size_t descriptor;
  };
  // How many of the remaining descriptors go with a byte before `end`.
  size_t AttachmentsBefore(size_t end) const;

  std::vector<uint8_t> bytes_;
  std::vector<Attachment> attachments_;
  size_t taken_ = 0;
  size_t taken_attachments_ = 0;
};

// A message drawn from a record: correct, or nearly correct.
struct DraftMessage {
  std::vector<uint8_t> bytes;
  std::vector<size_t> descriptors;
};
DraftMessage DraftAnyMessage(transport::Record& record);
// `body` has the size of the type.
DraftMessage DraftCorrectMessage(MessageType type, std::span<const uint8_t> body,
                                 size_t first_descriptor);

}  // namespace uroce::nic::control
