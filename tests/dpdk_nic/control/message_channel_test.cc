#include "dpdk_nic/control/message_channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/dpdk_nic/control/control_test_support.h"

namespace uroce::nic::control {
namespace {

using Status = MessageChannel::Status;

std::vector<uint8_t> HeaderBytes(MessageType type, uint32_t bytes,
                                 uint16_t version = kProtocolVersion) {
  const MessageHeader header{bytes, version, type};
  std::vector<uint8_t> result(sizeof header);
  memcpy(result.data(), &header, sizeof header);
  return result;
}

template <Message T>
std::vector<uint8_t> BytesOf(const T& message) {
  std::vector<uint8_t> result = HeaderBytes(T::kType, sizeof message);
  result.resize(result.size() + sizeof message);
  memcpy(result.data() + sizeof(MessageHeader), &message, sizeof message);
  return result;
}

LinkRequest RequestFor(Block block) {
  LinkRequest request{};
  request.block = block;
  return request;
}

// Sends bytes that no correct peer sends, past MessageChannel.
void SendRaw(int socket, std::span<const uint8_t> bytes, size_t fd_count = 0) {
  iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(8 * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  const UniqueFd fd = NumberedFd(1);
  if (fd_count > 0) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
    const int passed = fd.get();
    for (size_t i = 0; i < fd_count; ++i) {
      memcpy(CMSG_DATA(rights) + i * sizeof passed, &passed, sizeof passed);
    }
  }
  ASSERT_EQ(sendmsg(socket, &header, MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

class MessageChannelTest : public ::testing::Test {
 protected:
  MessageChannelTest() {
    SocketPair sockets;
    a_ = std::make_unique<MessageChannel>(std::move(sockets.a));
    b_ = std::make_unique<MessageChannel>(std::move(sockets.b));
  }
  ~MessageChannelTest() override {
    incoming_ = {};
    a_.reset();
    b_.reset();
    EXPECT_EQ(OpenDescriptors(), descriptors_before_);
  }

  bool SendRequest(uint64_t number) {
    const UniqueFd first = NumberedFd(number), second = NumberedFd(number + 1);
    const std::array<int, 2> fds = {first.get(), second.get()};
    return a_->Send(RequestFor(static_cast<Block>(number)), fds);
  }
  void ExpectRequest(uint64_t number) {
    ASSERT_EQ(b_->Receive(incoming_), Status::kOk);
    const auto request = incoming_.As<LinkRequest>();
    ASSERT_TRUE(request.has_value());
    EXPECT_EQ(request->block, number);
    EXPECT_EQ(NumberOf(incoming_.fds[0]), number);
    EXPECT_EQ(NumberOf(incoming_.fds[1]), number + 1);
  }
  bool SendForget(uint32_t number) { return a_->Send(Forget{.local = {number}}); }
  void ExpectForget(uint32_t number) {
    ASSERT_EQ(b_->Receive(incoming_), Status::kOk);
    const auto forget = incoming_.As<Forget>();
    ASSERT_TRUE(forget.has_value());
    EXPECT_EQ(forget->local.value, number);
    for (const UniqueFd& fd : incoming_.fds) EXPECT_FALSE(fd);
  }
  void ExpectClosed() {
    EXPECT_EQ(b_->Receive(incoming_), Status::kClosed);
    EXPECT_EQ(b_->Receive(incoming_), Status::kClosed);
    EXPECT_TRUE(b_->broken());
    EXPECT_FALSE(b_->Send(Forget{}));
  }
  // Leaves room for one message at a time.
  void MakeSendBufferSmall() {
    const int bytes = 1;
    ASSERT_EQ(setsockopt(a_->fd(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
  }

  const int descriptors_before_ = OpenDescriptors();
  std::unique_ptr<MessageChannel> a_, b_;
  MessageChannel::Incoming incoming_;
};

TEST_F(MessageChannelTest, NothingIsThereAtFirst) {
  EXPECT_EQ(b_->Receive(incoming_), Status::kNothing);
  EXPECT_FALSE(b_->wants_write());
  EXPECT_TRUE(b_->Flush());
}

TEST_F(MessageChannelTest, MessagesArriveInOrderWithTheirDescriptors) {
  for (uint32_t round = 0; round < 20; ++round) {
    SendForget(round);
    SendRequest(100 + round);
    SendForget(round);
    SendForget(round + 1);
    SendRequest(200 + round);
    SendRequest(300 + round);
  }
  for (uint32_t round = 0; round < 20; ++round) {
    ExpectForget(round);
    ExpectRequest(100 + round);
    ExpectForget(round);
    ExpectForget(round + 1);
    ExpectRequest(200 + round);
    ExpectRequest(300 + round);
  }
  EXPECT_EQ(b_->Receive(incoming_), Status::kNothing);
}

TEST_F(MessageChannelTest, LargestMessageArrivesWhole) {
  Refused refused{.error = EACCES, .sentence = {}};
  refused.sentence.fill('x');
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(a_->Send(refused));
  StatusDaemon daemon{};
  daemon.uptime_ms = 5;
  ASSERT_TRUE(a_->Send(daemon));
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(b_->Receive(incoming_), Status::kOk);
    ASSERT_TRUE(incoming_.As<Refused>().has_value());
    EXPECT_EQ(incoming_.As<Refused>()->sentence, refused.sentence);
    EXPECT_FALSE(incoming_.As<Welcome>().has_value());
  }
  ASSERT_EQ(b_->Receive(incoming_), Status::kOk);
  EXPECT_EQ(incoming_.As<StatusDaemon>()->uptime_ms, 5u);
}

TEST_F(MessageChannelTest, ReceivedDescriptorsAreClosedOnExec) {
  SendRequest(1);
  ASSERT_EQ(b_->Receive(incoming_), Status::kOk);
  for (const UniqueFd& fd : incoming_.fds) EXPECT_EQ(fcntl(fd.get(), F_GETFD), FD_CLOEXEC);
}

TEST_F(MessageChannelTest, MessageMayComeByteByByte) {
  const std::vector<uint8_t> bytes = BytesOf(RequestFor(7));
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      ASSERT_EQ(b_->Receive(incoming_), Status::kNothing);
      SendRaw(a_->fd(), {&bytes[i], 1}, i == 0 ? 2 : 0);
    }
    ASSERT_EQ(b_->Receive(incoming_), Status::kOk);
    EXPECT_EQ(incoming_.As<LinkRequest>()->block, 7u);
    EXPECT_EQ(NumberOf(incoming_.fds[0]), 1u);
    EXPECT_TRUE(incoming_.fds[1]);
  }
}

TEST_F(MessageChannelTest, MessagesBeforeTheEndAreReceived) {
  SendForget(1);
  SendRequest(2);
  a_.reset();
  ExpectForget(1);
  ExpectRequest(2);
  ExpectClosed();
}

TEST_F(MessageChannelTest, MessagesBeforeGarbageAreReceived) {
  SendForget(1);
  SendRaw(a_->fd(), HeaderBytes(MessageType::kForget, 5));
  ExpectForget(1);
  ExpectClosed();
}

TEST_F(MessageChannelTest, EndInTheMiddleOfAMessageIsAnEnd) {
  std::vector<uint8_t> bytes = BytesOf(LinkRequest{});
  bytes.pop_back();
  SendRaw(a_->fd(), bytes, 2);
  EXPECT_EQ(b_->Receive(incoming_), Status::kNothing);
  a_.reset();
  ExpectClosed();
}

struct Garbage {
  const char* name;
  std::vector<uint8_t> bytes;
  size_t descriptors = 0;
};
void PrintTo(const Garbage& garbage, std::ostream* out) { *out << garbage.name; }

class GarbageTest : public MessageChannelTest, public ::testing::WithParamInterface<Garbage> {};

TEST_P(GarbageTest, BreaksTheChannel) {
  SendRaw(a_->fd(), GetParam().bytes, GetParam().descriptors);
  ExpectClosed();
}
INSTANTIATE_TEST_SUITE_P(
    Kinds, GarbageTest,
    ::testing::Values(
        Garbage{"version", HeaderBytes(MessageType::kForget, sizeof(Forget), kProtocolVersion + 1)},
        Garbage{"type_zero", HeaderBytes(MessageType{}, 0)},
        Garbage{"type_between", HeaderBytes(MessageType{20}, 4)},
        Garbage{"type_too_large", HeaderBytes(MessageType{0xffff}, 4)},
        Garbage{"empty_body", HeaderBytes(MessageType::kForget, 0)},
        Garbage{"body_too_short", HeaderBytes(MessageType::kForget, sizeof(Forget) - 1)},
        Garbage{"body_too_long", HeaderBytes(MessageType::kForget, sizeof(Forget) + 1)},
        Garbage{"body_of_4_gib", HeaderBytes(MessageType::kForget, 0xffff'ffff)},
        Garbage{"descriptor_missing", BytesOf(LinkRequest{}), 1},
        Garbage{"descriptors_missing", BytesOf(LinkRequest{}), 0},
        Garbage{"descriptor_too_many", BytesOf(Forget{}), 1},
        Garbage{"descriptor_too_many_for_a_header", HeaderBytes(MessageType::kHello, sizeof(Hello)),
                2},
        Garbage{"three_descriptors", BytesOf(LinkRequest{}), 3},
        Garbage{"three_descriptors_for_a_byte", {0}, 3}),
    [](const auto& kind) { return std::string(kind.param.name); });

TEST_F(MessageChannelTest, DescriptorsAreNotGathered) {
  const std::vector<uint8_t> bytes = BytesOf(LinkRequest{});
  SendRaw(a_->fd(), {&bytes[0], 1}, 2);
  EXPECT_EQ(b_->Receive(incoming_), Status::kNothing);
  SendRaw(a_->fd(), {&bytes[1], 1}, 1);
  ExpectClosed();
}

TEST_F(MessageChannelTest, DescriptorsDoNotComeWithTheBody) {
  const std::vector<uint8_t> bytes = BytesOf(Refused{});
  SendRaw(a_->fd(), {&bytes[0], 10}, 0);
  EXPECT_EQ(b_->Receive(incoming_), Status::kNothing);
  SendRaw(a_->fd(), {&bytes[10], bytes.size() - 10}, 1);
  ExpectClosed();
}

TEST_F(MessageChannelTest, DescriptorsOfTheNextMessageAreNotBorrowed) {
  SendRaw(a_->fd(), BytesOf(LinkRequest{}), 1);
  SendRaw(a_->fd(), BytesOf(LinkRequest{}), 1);
  SendRaw(a_->fd(), BytesOf(LinkRequest{}), 2);
  ExpectClosed();
}

TEST_F(MessageChannelTest, DescriptorsThatFindNoRoomBreakTheChannel) {
  ASSERT_TRUE(SendRequest(1));
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // The receiver has room for one of the two descriptors, and must close it.
  const UniqueFd lowest_free = NumberedFd(1);
  const rlimit tight{static_cast<rlim_t>(lowest_free.get() + 2), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  EXPECT_EQ(b_->Receive(incoming_), Status::kClosed);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ExpectClosed();
}

TEST_F(MessageChannelTest, PeerThatDoesNotReadCostsABoundedBacklog) {
  uint32_t sent = 0;
  while (SendForget(sent)) {
    ++sent;
    ASSERT_LT(sent, 100'000u);
  }
  EXPECT_FALSE(a_->broken());
  EXPECT_TRUE(a_->wants_write());
  EXPECT_GE(sent * BytesOf(Forget{}).size(), kMaxBacklogBytes);
  EXPECT_FALSE(SendForget(sent));

  for (uint32_t received = 0; received < sent; ++received) {
    ASSERT_NO_FATAL_FAILURE(ExpectForget(received));
    if (received % 100 == 0) {
      EXPECT_TRUE(a_->Flush());
    }
  }
  EXPECT_EQ(b_->Receive(incoming_), Status::kNothing);
  EXPECT_FALSE(a_->wants_write());
  EXPECT_TRUE(SendForget(sent));
  ExpectForget(sent);
}

TEST_F(MessageChannelTest, PartlyFlushedBacklogTakesMoreMessages) {
  MakeSendBufferSmall();
  uint32_t sent = 0, received = 0;
  while (SendForget(sent)) ++sent;
  const uint32_t full = sent;
  while (sent < 3 * full) {
    ASSERT_NO_FATAL_FAILURE(ExpectForget(received++));
    ASSERT_TRUE(a_->Flush());
    ASSERT_TRUE(a_->wants_write());
    while (SendForget(sent)) ++sent;
  }
  while (received < sent) {
    ASSERT_NO_FATAL_FAILURE(ExpectForget(received++));
    ASSERT_TRUE(a_->Flush());
  }
  EXPECT_EQ(b_->Receive(incoming_), Status::kNothing);
}

TEST_F(MessageChannelTest, BacklogOfDescriptorsIsBounded) {
  MakeSendBufferSmall();
  uint32_t sent = 0;
  while (!a_->wants_write()) ASSERT_TRUE(SendRequest(1 + sent++));
  const int descriptors = OpenDescriptors();
  while (SendRequest(1 + sent)) ++sent;
  EXPECT_FALSE(a_->broken());
  EXPECT_LE(OpenDescriptors(), descriptors + static_cast<int>(kMaxBacklogDescriptors));
  EXPECT_TRUE(SendForget(99'999));  // a message without descriptors still fits

  for (uint32_t received = 0; received < sent; ++received) {
    ASSERT_NO_FATAL_FAILURE(ExpectRequest(1 + received));
    EXPECT_TRUE(a_->Flush());
  }
  ExpectForget(99'999);
  EXPECT_EQ(b_->Receive(incoming_), Status::kNothing);
  EXPECT_EQ(OpenDescriptors(), descriptors_before_ + 2);  // sent descriptors are not kept
}

TEST_F(MessageChannelTest, BacklogWithAndWithoutDescriptorsKeepsItsOrder) {
  MakeSendBufferSmall();
  for (uint32_t i = 1; i < 300; ++i) {
    if (i % 10 == 0) {
      ASSERT_TRUE(SendRequest(i));
    } else {
      ASSERT_TRUE(SendForget(i));
    }
  }
  ASSERT_TRUE(a_->wants_write());
  for (uint32_t i = 1; i < 300; ++i) {
    if (i % 10 == 0) {
      ASSERT_NO_FATAL_FAILURE(ExpectRequest(i));
    } else {
      ASSERT_NO_FATAL_FAILURE(ExpectForget(i));
    }
    ASSERT_TRUE(a_->Flush());
  }
}

TEST_F(MessageChannelTest, BacklogIsGoneWithTheChannel) {
  MakeSendBufferSmall();
  while (SendRequest(1)) {
  }
  EXPECT_GT(OpenDescriptors(), descriptors_before_ + static_cast<int>(kMaxBacklogDescriptors));
}  // the fixture's destructor checks that no descriptor is left open

TEST_F(MessageChannelTest, SendToAClosedPeerBreaksTheChannel) {
  b_.reset();
  EXPECT_FALSE(SendForget(1));  // and no SIGPIPE
  EXPECT_TRUE(a_->broken());
  EXPECT_FALSE(a_->wants_write());
}

TEST_F(MessageChannelTest, PeerCloseDuringABacklogBreaksTheChannel) {
  MakeSendBufferSmall();
  while (SendRequest(1)) {
  }
  b_.reset();
  EXPECT_FALSE(a_->Flush());
  EXPECT_TRUE(a_->broken());
  EXPECT_FALSE(a_->wants_write());
  EXPECT_EQ(OpenDescriptors(), descriptors_before_ + 1);  // the socket
}

TEST_F(MessageChannelTest, ResetForgetsTheConnectionBefore) {
  MakeSendBufferSmall();
  while (SendRequest(1)) {
  }
  const std::vector<uint8_t> bytes = BytesOf(LinkRequest{});
  SendRaw(b_->fd(), {bytes.data(), 9}, 2);
  EXPECT_EQ(a_->Receive(incoming_), Status::kNothing);

  SocketPair sockets;
  a_->Reset(std::move(sockets.a));
  b_->Reset(std::move(sockets.b));
  EXPECT_FALSE(a_->wants_write());
  EXPECT_EQ(OpenDescriptors(), descriptors_before_ + 2);
  SendForget(3);
  ExpectForget(3);
  b_->Send(LeaseGranted{});
  EXPECT_EQ(a_->Receive(incoming_), Status::kOk);
  EXPECT_TRUE(incoming_.As<LeaseGranted>().has_value());

  a_->Reset({});
  EXPECT_TRUE(a_->broken());
  EXPECT_EQ(a_->Receive(incoming_), Status::kClosed);
  ExpectClosed();
}

// The kernel bounds the descriptors that a user has in flight; reaching that bound is no fault of a
// peer. Runs in a child without privileges: privileged processes are not bounded.
int SendUntilTooMuchIsUnderWay() {
  if (geteuid() == 0 && setresuid(65'534, 65'534, 65'534) != 0) return 1;
  constexpr int kDescriptors = 64;
  const rlimit limit{kDescriptors, kDescriptors};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
  SocketPair slow, other;
  MessageChannel to_slow(std::move(slow.a)), to_other(std::move(other.a));
  const std::array<int, 2> fds = {0, 1};
  for (int i = 0; to_slow.Send(LinkRequest{}, fds); ++i) {
    if (i > kDescriptors) return 3;
  }
  if (to_slow.broken() || to_slow.wants_write()) return 4;
  if (to_other.Send(LinkRequest{}, fds) || to_other.broken()) return 5;
  if (!to_other.Send(Forget{})) return 6;
  slow.b.reset();  // closes the descriptors in flight, too
  return to_other.Send(LinkRequest{}, fds) ? 0 : 7;
}

TEST_F(MessageChannelTest, TooManyDescriptorsUnderWayBreakNothing) {
  const pid_t child = fork();
  if (child == 0) _exit(SendUntilTooMuchIsUnderWay());
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace uroce::nic::control
