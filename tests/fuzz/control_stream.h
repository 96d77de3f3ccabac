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

// Bytes and descriptors that went into a socket, and what has to come out of it at the other end:
// a second opinion about MessageChannel.
class ControlStream {
 public:
  // The descriptors go with the first byte.
  void Append(std::span<const uint8_t> bytes, std::span<const size_t> descriptors);

  // What the other end can know of the next message.
  enum class Next { kWhole, kUnfinished, kWrong };
  Next next() const;
  // The next message, if it is whole; and to pass over it.
  struct Peeked {
    MessageType type;
    std::span<const uint8_t> body;
    size_t first_descriptor;  // that came with it; kKnownDescriptors if none did
  };
  std::optional<Peeked> Peek() const;
  void Skip();
  // The next message is this one.
  void RequireMessage(const MessageChannel::Incoming& incoming);

  // The next bytes are these, and each descriptor came with the bytes it went with.
  void RequireBytes(const RawBytes& raw);
  bool empty() const { return taken_ == bytes_.size(); }
  size_t left() const { return bytes_.size() - taken_; }

 private:
  struct Attachment {
    size_t position;
    size_t descriptor;
  };
  // How many of those that are left go with a byte before `end`.
  size_t AttachmentsBefore(size_t end) const;

  std::vector<uint8_t> bytes_;
  std::vector<Attachment> attachments_;
  size_t taken_ = 0;
  size_t taken_attachments_ = 0;
};

// A message as the record describes it: correct, or nearly so.
struct DraftMessage {
  std::vector<uint8_t> bytes;
  std::vector<size_t> descriptors;
};
DraftMessage DraftAnyMessage(transport::Record& record);
// `body` has the size of the type.
DraftMessage DraftCorrectMessage(MessageType type, std::span<const uint8_t> body,
                                 size_t first_descriptor);

}  // namespace uroce::nic::control
