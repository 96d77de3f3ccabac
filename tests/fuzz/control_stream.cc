#include "tests/fuzz/control_stream.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "tests/fuzz/require.h"

namespace uroce::nic::control {
namespace {

// The shape of the message with this header; nothing if no correct peer sends it.
std::optional<MessageShape> ShapeOf(std::span<const uint8_t> bytes) {
  MessageHeader header;
  UROCE_REQUIRE(bytes.size() >= sizeof header);
  memcpy(&header, bytes.data(), sizeof header);
  const auto shape = AllMessages::ShapeOf(header.type);
  if (header.version != kProtocolVersion || !shape || shape->bytes != header.bytes) return {};
  return shape;
}

}  // namespace

void ControlStream::Append(std::span<const uint8_t> bytes, std::span<const size_t> descriptors) {
  for (const size_t descriptor : descriptors) attachments_.push_back({bytes_.size(), descriptor});
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

size_t ControlStream::AttachmentsBefore(size_t end) const {
  size_t next = taken_attachments_;
  while (next < attachments_.size() && attachments_[next].position < end) ++next;
  return next - taken_attachments_;
}

ControlStream::Next ControlStream::next() const {
  const std::span<const uint8_t> rest = std::span(bytes_).subspan(taken_);
  const size_t with_header = AttachmentsBefore(taken_ + sizeof(MessageHeader));
  if (rest.size() < sizeof(MessageHeader)) {
    return with_header <= kMaxDescriptors ? Next::kUnfinished : Next::kWrong;
  }
  const auto shape = ShapeOf(rest);
  if (!shape || with_header != shape->descriptors) return Next::kWrong;
  const size_t bytes = sizeof(MessageHeader) + shape->bytes;
  if (AttachmentsBefore(taken_ + bytes) != with_header) return Next::kWrong;
  return rest.size() < bytes ? Next::kUnfinished : Next::kWhole;
}

std::optional<ControlStream::Peeked> ControlStream::Peek() const {
  if (next() != Next::kWhole) return {};
  MessageHeader header;
  memcpy(&header, &bytes_[taken_], sizeof header);
  const bool has_descriptors = AllMessages::ShapeOf(header.type)->descriptors != 0;
  return Peeked{header.type, std::span(bytes_).subspan(taken_ + sizeof header, header.bytes),
                has_descriptors ? attachments_[taken_attachments_].descriptor : kKnownDescriptors};
}

void ControlStream::Skip() {
  const auto peeked = Peek();
  UROCE_REQUIRE(peeked.has_value());
  taken_ += sizeof(MessageHeader) + peeked->body.size();
  taken_attachments_ += AllMessages::ShapeOf(peeked->type)->descriptors;
}

void ControlStream::RequireMessage(const MessageChannel::Incoming& incoming) {
  const auto peeked = Peek();
  UROCE_REQUIRE(peeked && incoming.type == peeked->type);
  UROCE_REQUIRE(incoming.bytes == peeked->body.size());
  UROCE_REQUIRE(memcmp(incoming.body.data(), peeked->body.data(), incoming.bytes) == 0);
  const size_t descriptors = AllMessages::ShapeOf(incoming.type)->descriptors;
  for (size_t i = 0; i < incoming.fds.size(); ++i) {
    UROCE_REQUIRE(static_cast<bool>(incoming.fds[i]) == (i < descriptors));
    if (i >= descriptors) continue;
    const Attachment& expected = attachments_[taken_attachments_ + i];
    UROCE_REQUIRE(IndexOf(incoming.fds[i]) == expected.descriptor);
  }
  Skip();
}

void ControlStream::RequireBytes(const RawBytes& raw) {
  UROCE_REQUIRE(raw.bytes.size() <= left());
  UROCE_REQUIRE(std::equal(raw.bytes.begin(), raw.bytes.end(), bytes_.begin() + taken_));
  const size_t end = taken_ + raw.bytes.size();
  UROCE_REQUIRE(raw.descriptors.size() == AttachmentsBefore(end));
  for (const size_t descriptor : raw.descriptors) {
    UROCE_REQUIRE(descriptor == attachments_[taken_attachments_++].descriptor);
  }
  taken_ = end;
}

DraftMessage DraftCorrectMessage(MessageType type, std::span<const uint8_t> body,
                                 size_t first_descriptor) {
  DraftMessage draft;
  const MessageHeader header{static_cast<uint32_t>(body.size()), kProtocolVersion, type};
  draft.bytes.resize(sizeof header);
  memcpy(draft.bytes.data(), &header, sizeof header);
  draft.bytes.insert(draft.bytes.end(), body.begin(), body.end());
  const auto shape = AllMessages::ShapeOf(type);
  for (size_t i = 0; shape && i < shape->descriptors; ++i) {
    draft.descriptors.push_back((first_descriptor + i) % kKnownDescriptors);
  }
  return draft;
}

DraftMessage DraftAnyMessage(transport::Record& record) {
  const auto type = static_cast<MessageType>(record.Below(48));
  const auto shape = AllMessages::ShapeOf(type);
  std::vector<uint8_t> body(shape ? shape->bytes : 4);
  const uint8_t filling = record.Byte();
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<uint8_t>(filling + i);
  DraftMessage draft = DraftCorrectMessage(type, body, record.Byte());

  MessageHeader header;
  memcpy(&header, draft.bytes.data(), sizeof header);
  header.bytes += static_cast<uint32_t>(record.Near());
  header.version = static_cast<uint16_t>(header.version + record.Near());
  memcpy(draft.bytes.data(), &header, sizeof header);
  const int32_t more_descriptors = record.Near();
  for (int32_t i = 0; i < more_descriptors && i < 3; ++i) draft.descriptors.push_back(i);
  if (more_descriptors < 0 && !draft.descriptors.empty()) draft.descriptors.pop_back();
  return draft;
}

}  // namespace uroce::nic::control
