// How an application puts a work request together.

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/simulation/application.h"

namespace uroce::transport::simulation {

namespace {

constexpr uint8_t kUntouched = 0xee;

}  // namespace

// Mostly lengths near a boundary: zero, one byte, just around full packets.
uint32_t Application::DrawLength() {
  const uint32_t mtu = Bytes(config_.mtu);
  const uint32_t longest = config_.max_message_bytes;
  const uint32_t packets = static_cast<uint32_t>(random_.Between(1, longest / mtu));
  switch (random_.Below(8)) {
    case 0:
      return random_.Pick({0u, 0u, 1u, 2u, 3u, 4u, 7u, 8u});
    case 1:
      return std::min(longest, packets * mtu + random_.Pick({0u, 1u}));
    case 2:
      return packets * mtu - random_.Pick({0u, 1u, 2u, 3u, 4u});
    case 3:
      return longest;
    case 4:
    case 5:
      return static_cast<uint32_t>(random_.Below(std::min(longest, 64u)));
    default:
      return static_cast<uint32_t>(random_.Between(0, longest));
  }
}

// The bytes that a SEND or WRITE sends; nullopt if no memory is left for them. Their number may
// differ from `length`.
std::optional<std::vector<uint8_t>> Application::DrawSource(Draft& draft, uint32_t length) {
  if (reliable() && random_.Percent(10)) {
    auto bytes = ReuseSink(draft);
    if (bytes.has_value()) return bytes;
  }
  return DrawOwnSource(draft, length);
}

std::optional<std::vector<uint8_t>> Application::DrawOwnSource(Draft& draft, uint32_t length) {
  std::vector<uint8_t> message(length);
  random_.Fill(message);
  draft.sent.length = length;
  if (length <= config_.end.capabilities.max_inline_bytes && random_.Percent(40)) {
    if (DrawInline(draft, message)) return message;
  }
  const Layout layout = RandomLayout(random_, length, config_.end.capabilities.max_send_sge);
  uint64_t offset;
  if (!source_allocator_.Allocate(layout.area_bytes, &offset)) return std::nullopt;
  random_.Fill(source_.bytes(offset, layout.area_bytes));
  layout.Scatter(message, source_.bytes(offset, layout.area_bytes));
  for (const Layout::Piece& piece : layout.pieces) {
    draft.sges.push_back(source_.entry(offset + piece.offset, piece.length));
  }
  draft.sent.source_offset = offset;
  draft.sent.source_bytes = layout.area_bytes;
  return message;
}

bool Application::DrawInline(Draft& draft, std::span<const uint8_t> bytes) {
  const Layout layout = RandomLayout(random_, static_cast<uint32_t>(bytes.size()),
                                     config_.end.capabilities.max_send_sge);
  draft.inline_bytes.resize(layout.area_bytes + 1);
  layout.Scatter(bytes, draft.inline_bytes);
  for (const Layout::Piece& piece : layout.pieces) {
    const auto address = reinterpret_cast<uintptr_t>(&draft.inline_bytes[piece.offset]);
    draft.sges.push_back({address, piece.length, {}});
  }
  draft.request.inline_data = true;
  return true;
}

// Sends the bytes that an earlier READ brings: they are right only if the fence holds.
std::optional<std::vector<uint8_t>> Application::ReuseSink(Draft& draft) {
  const SentRequest* read = sends_->KeepNewestSink();
  if (read == nullptr || read->sink_after.size() > config_.max_message_bytes) return std::nullopt;
  if (read->expected_status != CompletionStatus::kSuccess) return std::nullopt;
  draft.sent.length = static_cast<uint32_t>(read->sink_after.size());
  draft.sges.push_back(sink_.entry(*read->sink_offset, draft.sent.length));
  draft.request.fence = true;
  return read->sink_after;
}

// Memory for the `bytes` that a READ or atomic will bring.
bool Application::DrawSink(Draft& draft, std::span<const uint8_t> bytes) {
  const auto length = static_cast<uint32_t>(bytes.size());
  const bool is_atomic = IsAtomic(draft.request.opcode);
  const Layout layout =
      RandomLayout(random_, length, is_atomic ? 1 : config_.end.capabilities.max_send_sge);
  uint64_t offset;
  if (!sink_allocator_.Allocate(layout.area_bytes, &offset)) return false;
  const auto area = sink_.bytes(offset, layout.area_bytes);
  std::fill(area.begin(), area.end(), kUntouched);
  draft.sent.sink_after.assign(area.begin(), area.end());
  layout.Scatter(bytes, draft.sent.sink_after);
  draft.sent.sink_offset = offset;
  if (!layout.pieces.empty()) draft.sent.sink_data_at = layout.pieces[0].offset;
  draft.sent.length = length;
  for (const Layout::Piece& piece : layout.pieces) {
    draft.sges.push_back(sink_.entry(offset + piece.offset, piece.length));
  }
  return true;
}

Target Application::DrawTarget(uint64_t length, uint64_t alignment) {
  Arena& remote = peer_->exposed_;
  Target target;
  uint64_t begin = 0;
  uint64_t end = remote.size();
  target.rkey = remote.rkey();
  for (Window& window : peer_->windows_) {
    if (!window.usable || window.length < length + alignment || !random_.Percent(40)) continue;
    begin = window.offset;
    end = window.offset + window.length;
    target.rkey = window.key;
    target.window = &window;
    break;
  }
  target.offset = begin + random_.Below(end - begin - length + 1);
  if (target.offset % alignment != 0) {
    target.offset -= target.offset % alignment;
    if (target.offset < begin) target.offset += alignment;
  }
  target.address = remote.address(target.offset);
  return target;
}

void Application::Aim(Draft& draft, const Target& target) {
  draft.request.remote_address = target.address;
  draft.request.rkey = target.rkey;
  if (draft.sent.length == 0 && random_.Percent(50)) {
    // Such a request touches no memory, so the responder does not check the key (IBA C9-88).
    draft.request.rkey = RKey{static_cast<uint32_t>(random_.Next())};
    draft.request.remote_address = random_.Next();
  } else {
    draft.window = target.window;
  }
}

void Application::ChangeRemote(Draft& draft, uint64_t offset, std::span<const uint8_t> bytes) {
  auto& remote = sends_->remote();
  const auto begin = remote.begin() + static_cast<std::ptrdiff_t>(offset);
  draft.sent.remote_offset = offset;
  draft.sent.remote_before.assign(begin, begin + static_cast<std::ptrdiff_t>(bytes.size()));
  draft.sent.remote_after.assign(bytes.begin(), bytes.end());
  std::copy(bytes.begin(), bytes.end(), begin);
  FenceIfRead(draft, {offset, offset + bytes.size()});
}

// A READ whose response was lost is executed again, after requests that followed it. Only a fence
// keeps it from seeing their changes (IBA 10.8.3.3).
void Application::FenceIfRead(Draft& draft, Range changed) {
  for (const Range& read : reads_in_flight_) {
    if (read.begin < changed.end && changed.begin < read.end) draft.request.fence = true;
  }
}

}  // namespace uroce::transport::simulation
