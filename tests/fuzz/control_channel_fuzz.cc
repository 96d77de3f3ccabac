#include "tests/fuzz/control_channel_fuzz.h"

#include <sys/socket.h>

#include <array>
#include <cstring>
#include <vector>

#include "tests/fuzz/require.h"

namespace uroce::nic::control {
namespace {

using transport::Record;
using Status = MessageChannel::Status;

// Far above the bytes of small messages that a socket holds.
constexpr size_t kMostInSocketBytes = 512 * 1'024;

}  // namespace

ControlChannelFuzz::ControlChannelFuzz() { Connect(); }

void ControlChannelFuzz::Connect() {
  std::array<int, 2> sockets;
  UROCE_REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) == 0);
  peer_.reset(sockets[0]);
  channel_.Reset(UniqueFd(sockets[1]));
  to_channel_ = {};
  to_peer_ = {};
  closed_ = false;
}

void ControlChannelFuzz::Step(Record record) {
  switch (record.Below(16)) {
    case 0:
    case 1:
      SayBytes(record);
      break;
    case 2:
    case 3:
    case 4:
    case 5:
      SayMessage(record);
      break;
    case 6:
    case 7:
      Receive();
      break;
    case 8:
      while (Receive()) {
      }
      break;
    case 9:
    case 10:
      SendMany(record);
      break;
    case 11:
    case 12:
      Read(1 + record.Word());
      break;
    case 13:
      UROCE_REQUIRE(channel_.Flush() == !channel_.broken());
      break;
    case 14: {
      const int bytes = 1;  // the least that the kernel allows
      setsockopt(channel_.fd(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
      break;
    }
    case 15:
      if (record.Flag()) {
        peer_.reset();
      } else {
        Connect();
      }
      break;
  }
}

void ControlChannelFuzz::Say(std::span<const uint8_t> bytes, std::span<const size_t> descriptors) {
  if (!peer_ || bytes.empty()) return;
  const size_t sent = SendRaw(peer_.get(), bytes, descriptors);
  if (sent > 0) to_channel_.Append(bytes.first(sent), descriptors);
}

void ControlChannelFuzz::SayBytes(Record& record) {
  const std::vector<size_t> descriptors(record.Below(4), record.Below(kKnownDescriptors));
  std::vector<uint8_t> bytes(record.Below(18));
  for (uint8_t& byte : bytes) byte = record.Byte();
  Say(bytes, descriptors);
}

void ControlChannelFuzz::SayMessage(Record& record) {
  const DraftMessage draft = DraftAnyMessage(record);
  const size_t split = record.Flag() ? record.Word() % draft.bytes.size() : 0;
  const std::span<const uint8_t> bytes = draft.bytes;
  if (split == 0) return Say(bytes, draft.descriptors);
  const bool late = record.Byte() > 200;
  const std::vector<size_t> none;
  Say(bytes.first(split), late ? none : draft.descriptors);
  if (record.Flag()) Receive();
  Say(bytes.subspan(split), late ? draft.descriptors : none);
}

bool ControlChannelFuzz::Receive() {
  using Next = ControlStream::Next;
  const Next next = to_channel_.next();
  const Status status = channel_.Receive(incoming_);
  switch (status) {
    case Status::kOk:
      UROCE_REQUIRE(!closed_);
      to_channel_.RequireMessage(incoming_);
      break;
    case Status::kNothing:
      UROCE_REQUIRE(!closed_ && peer_ && next == Next::kUnfinished);
      break;
    case Status::kClosed:
      UROCE_REQUIRE(closed_ || next == Next::kWrong || (!peer_ && next == Next::kUnfinished));
      UROCE_REQUIRE(channel_.broken() && !channel_.wants_write());
      closed_ = true;
      break;
  }
  return status == Status::kOk;
}

template <Message T>
bool ControlChannelFuzz::Send(uint8_t filling, size_t first_descriptor) {
  T message;
  memset(static_cast<void*>(&message), filling, sizeof message);
  const std::span<const uint8_t> body(reinterpret_cast<const uint8_t*>(&message), sizeof message);
  const DraftMessage draft = DraftCorrectMessage(T::kType, body, first_descriptor);
  std::array<int, T::kDescriptors> fds;
  for (size_t i = 0; i < fds.size(); ++i) fds[i] = KnownDescriptor(draft.descriptors[i]);
  const bool was_broken = channel_.broken();
  if (!channel_.Send(message, fds)) {
    // A channel breaks only for a cause, and refuses a message only while others wait.
    UROCE_REQUIRE(channel_.broken() ? was_broken || !peer_ : channel_.wants_write());
    return false;
  }
  UROCE_REQUIRE(!was_broken);
  to_peer_.Append(draft.bytes, draft.descriptors);
  UROCE_REQUIRE(to_peer_.left() <= kMaxBacklogBytes + kMostInSocketBytes || !peer_);
  return true;
}

void ControlChannelFuzz::SendMany(Record& record) {
  const uint32_t kind = record.Below(4);
  uint32_t repeats = record.Flag() ? record.Below(8) : record.Word() % 512;
  const uint8_t filling = record.Byte();
  while (repeats-- > 0) {
    const bool sent = kind == 0   ? Send<Forget>(filling, 0)
                      : kind == 1 ? Send<StatusDaemon>(filling, 0)
                      : kind == 2 ? Send<Hello>(filling, repeats)
                                  : Send<LinkOffer>(filling, repeats);
    if (!sent) break;
  }
}

void ControlChannelFuzz::Read(size_t bytes) {
  if (!peer_) return;
  RawBytes raw;
  ReceiveRaw(peer_.get(), bytes, raw);
  to_peer_.RequireBytes(raw);
}

void ControlChannelFuzz::Finish() {
  while (Receive()) {
  }
  // Everything sent arrives once the peer reads.
  while (peer_ && !channel_.broken() && !to_peer_.empty()) {
    const size_t left = to_peer_.left();
    UROCE_REQUIRE(channel_.Flush());
    Read(4'096);
    UROCE_REQUIRE(to_peer_.left() < left);
  }
}

}  // namespace uroce::nic::control
