#include "dpdk_nic/control/client.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <string>

#include "dpdk_nic/control/block_claim.h"
#include "dpdk_nic/control/control_address.h"
#include "tests/dpdk_nic/control/control_test_support.h"
#include "tests/dpdk_nic/control/scripted_uroced.h"

namespace uroce::nic::control {
namespace {

using State = ControlClient::State;
using Status = MessageChannel::Status;

constexpr Block kBlock = 17;
constexpr transport::Gid kIp = transport::Gid::FromIpv4({10, 0, 0, 1});

PortState PortStateOf(uint32_t value) { return {.is_up = value}; }

class ClientTest : public ::testing::Test {
 protected:
  ClientTest() {
    ControlClient::Options options;
    options.fabric = fabric_;
    options.mtu_bytes = 1'500;
    options.ip = kIp;
    options.published_state_fd = published_state_.get();
    client_ = std::make_unique<ControlClient>(std::move(options));
  }
  ~ClientTest() override {
    incoming_ = {};
    client_.reset();
    uroced_.reset();
    published_state_.reset();
    EXPECT_EQ(OpenDescriptors(), descriptors_before_);
  }

  void StartUroced() { uroced_ = std::make_unique<ScriptedUroced>(fabric_); }
  // Serves the client, sleeping in between, as a thread with nothing else to do does.
  void ServeUntil(State state) {
    client_->Serve();
    while (client_->state() != state) {
      ASSERT_TRUE(WaitReadable(client_->wait_fd()));
      client_->Serve();
      client_->Take(incoming_);
    }
  }
  void Attach(Block block = kBlock) {
    if (!uroced_) StartUroced();
    ASSERT_NO_FATAL_FAILURE(ServeUntil(State::kAttaching));
    uroced_->Accept();
    ASSERT_TRUE(uroced_->SayWelcome(WelcomeTo(block)));
    client_->Serve();
    ASSERT_EQ(client_->state(), State::kAttached);
  }
  void ExpectPortState(uint32_t value) {
    ASSERT_TRUE(client_->Take(incoming_));
    ASSERT_TRUE(incoming_.As<PortState>().has_value());
    EXPECT_EQ(incoming_.As<PortState>()->is_up, value);
  }
  std::string Sentence() { return client_->refusal().sentence.data(); }

  const int descriptors_before_ = OpenDescriptors();
  const std::string fabric_ = UniqueFabricName();
  UniqueFd published_state_ = NumberedFd(77);
  std::unique_ptr<ControlClient> client_;
  std::unique_ptr<ScriptedUroced> uroced_;
  MessageChannel::Incoming incoming_;
};

TEST_F(ClientTest, ConnectIsRetriedUntilDaemonStarts) {
  client_->Serve();
  EXPECT_EQ(client_->state(), State::kDetached);
  EXPECT_FALSE(client_->Send(Resolve{}));
  EXPECT_FALSE(client_->Take(incoming_));
  for (int attempt = 0; attempt < 3; ++attempt) {
    ASSERT_TRUE(WaitReadable(client_->wait_fd()));
    client_->Serve();
    EXPECT_EQ(client_->state(), State::kDetached);
  }
  StartUroced();
  ServeUntil(State::kAttaching);
}

TEST_F(ClientTest, AbsentDaemonIsTriedAtIntervals) {
  const auto start = std::chrono::steady_clock::now();
  client_->Serve();
  for (int attempt = 0; attempt < 3; ++attempt) {
    ASSERT_TRUE(WaitReadable(client_->wait_fd()));
    client_->Serve();
  }
  // A timer is never early, however slow the machine is.
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(300));
}

TEST_F(ClientTest, AttachesByHelloAndWelcome) {
  StartUroced();
  client_->Serve();
  EXPECT_EQ(client_->state(), State::kAttaching);
  EXPECT_FALSE(client_->Send(Resolve{}));
  const Resume said = uroced_->Accept();
  EXPECT_EQ(said.block, kSwitchBlock);
  EXPECT_EQ(said.hello.mtu_bytes, 1'500u);
  EXPECT_EQ(said.hello.ip, kIp);
  EXPECT_EQ(NumberOf(uroced_->incoming().fds[0]), 77u);
  EXPECT_FALSE(IsClaimed(fabric_, kBlock));
  client_->Serve();
  EXPECT_EQ(client_->state(), State::kAttaching);

  Welcome welcome = WelcomeTo(kBlock);
  welcome.has_wire = 1;
  welcome.gid_count = kMaxGids;
  ASSERT_TRUE(uroced_->SayWelcome(welcome));
  ASSERT_TRUE(WaitReadable(client_->wait_fd()));
  client_->Serve();
  EXPECT_EQ(client_->state(), State::kAttached);
  EXPECT_EQ(client_->attachments(), 1u);
  EXPECT_EQ(client_->welcome().block, kBlock);
  EXPECT_EQ(client_->welcome().mtu_bytes, 4'200u);
  EXPECT_EQ(client_->welcome().has_wire, 1);
  EXPECT_TRUE(IsClaimed(fabric_, kBlock));
}

TEST_F(ClientTest, AttachedAndIdleSleeps) {
  Attach();
  client_->Serve();
  EXPECT_FALSE(client_->Take(incoming_));
  EXPECT_FALSE(IsReadable(client_->wait_fd()));
}

TEST_F(ClientTest, MessagesReachDaemonInOrderWithTheirDescriptors) {
  Attach();
  const UniqueFd first = NumberedFd(5), second = NumberedFd(6);
  LinkRequest request{};
  request.block = 3;
  ASSERT_TRUE(client_->Send(request, std::array<int, 2>{first.get(), second.get()}));
  ASSERT_TRUE(client_->Send(Forget{.local = {9}}));
  ASSERT_EQ(uroced_->Receive(), Status::kOk);
  EXPECT_EQ(uroced_->incoming().As<LinkRequest>()->block, 3u);
  EXPECT_EQ(NumberOf(uroced_->incoming().fds[0]), 5u);
  EXPECT_EQ(NumberOf(uroced_->incoming().fds[1]), 6u);
  ASSERT_EQ(uroced_->Receive(), Status::kOk);
  EXPECT_EQ(uroced_->incoming().As<Forget>()->local.value, 9u);
}

TEST_F(ClientTest, MessagesSentWithTheWelcomeAreReceivedInOrder) {
  StartUroced();
  client_->Serve();
  uroced_->Accept();
  uroced_->SayWelcome(WelcomeTo(kBlock));
  const UniqueFd first = NumberedFd(5), second = NumberedFd(6);
  for (uint32_t i = 0; i < 50; ++i) {
    uroced_->channel().Send(PortStateOf(i));
    uroced_->channel().Send(LinkOffer{.block = i}, std::array<int, 2>{first.get(), second.get()});
  }
  client_->Serve();
  ASSERT_EQ(client_->state(), State::kAttached);
  for (uint32_t i = 0; i < 50; ++i) {
    ASSERT_NO_FATAL_FAILURE(ExpectPortState(i));
    ASSERT_TRUE(client_->Take(incoming_));
    ASSERT_TRUE(incoming_.As<LinkOffer>().has_value());
    EXPECT_EQ(incoming_.As<LinkOffer>()->block, i);
    EXPECT_TRUE(incoming_.fds[0] && incoming_.fds[1]);
  }
  EXPECT_FALSE(client_->Take(incoming_));
}

TEST_F(ClientTest, RefusalIsForGood) {
  StartUroced();
  client_->Serve();
  uroced_->Accept();
  Refused refused{.error = EACCES, .sentence = {}};
  refused.sentence.fill('x');  // and no NUL
  ASSERT_TRUE(uroced_->channel().Send(refused));
  client_->Serve();
  EXPECT_EQ(client_->state(), State::kRefused);
  EXPECT_EQ(client_->refusal().error, EACCES);
  EXPECT_EQ(Sentence(), std::string(kMaxSentenceBytes - 1, 'x'));
  EXPECT_FALSE(IsReadable(client_->wait_fd()));
  client_->Serve();
  EXPECT_EQ(client_->state(), State::kRefused);
  EXPECT_FALSE(uroced_->HasPendingConnection());
  EXPECT_FALSE(client_->Send(Resolve{}));
}

TEST_F(ClientTest, RefusalMayComeLater) {
  Attach();
  uroced_->channel().Send(PortStateOf(1));
  uroced_->channel().Send(Refused{.error = EIO, .sentence = {"gone"}});
  client_->Serve();
  ExpectPortState(1);
  EXPECT_FALSE(client_->Take(incoming_));
  EXPECT_EQ(client_->state(), State::kRefused);
  EXPECT_EQ(Sentence(), "gone");
  EXPECT_TRUE(IsClaimed(fabric_, kBlock));  // links to other processes go on using the block
}

TEST_F(ClientTest, DaemonExitDetachesAfterPendingMessagesAreRead) {
  Attach();
  uroced_->channel().Send(PortStateOf(1));
  uroced_.reset();
  ASSERT_TRUE(WaitReadable(client_->wait_fd()));
  client_->Serve();
  EXPECT_EQ(client_->state(), State::kAttached);
  ExpectPortState(1);
  EXPECT_FALSE(client_->Take(incoming_));
  EXPECT_EQ(client_->state(), State::kDetached);
  EXPECT_EQ(client_->attachments(), 1u);
  EXPECT_TRUE(IsClaimed(fabric_, kBlock));
}

TEST_F(ClientTest, AttachesAnewWithTheSameBlock) {
  Attach();
  const int wait_fd = client_->wait_fd();
  for (uint32_t round = 2; round < 10; ++round) {
    uroced_.reset();
    ServeUntil(State::kDetached);
    StartUroced();
    ServeUntil(State::kAttaching);
    EXPECT_EQ(uroced_->Accept().block, kBlock);
    EXPECT_TRUE(IsClaimed(fabric_, kBlock));
    Welcome welcome = WelcomeTo(kBlock);
    welcome.wire_is_up = round % 2;
    uroced_->SayWelcome(welcome);
    ServeUntil(State::kAttached);
    EXPECT_EQ(client_->attachments(), round);
    EXPECT_EQ(client_->welcome().wire_is_up, round % 2);
    EXPECT_EQ(client_->wait_fd(), wait_fd);
    EXPECT_TRUE(client_->Send(Resolve{}));
    EXPECT_EQ(uroced_->Receive(), Status::kOk);
  }
}

TEST_F(ClientTest, OtherBlockThanBeforeIsARefusal) {
  Attach();
  uroced_->HangUp();
  ServeUntil(State::kDetached);
  ServeUntil(State::kAttaching);
  uroced_->Accept();
  uroced_->SayWelcome(WelcomeTo(kBlock + 1));
  ServeUntil(State::kRefused);
  EXPECT_EQ(client_->refusal().error, ESTALE);
  EXPECT_NE(Sentence().find("start it again"), std::string::npos);
  EXPECT_TRUE(IsClaimed(fabric_, kBlock));
  EXPECT_FALSE(IsClaimed(fabric_, kBlock + 1));
}

TEST_F(ClientTest, ReattachProvesBlockByTheReceivedClaim) {
  Attach();
  uroced_->HangUp();
  ServeUntil(State::kDetached);
  ServeUntil(State::kAttaching);
  EXPECT_EQ(uroced_->Accept().block, kBlock);
  const UniqueFd folder = OpenFolderOf(fabric_);
  const BlockClaims claims(folder.get());
  EXPECT_TRUE(claims.IsProvenBy(uroced_->claim(), kBlock, geteuid()));
  EXPECT_EQ(NumberOf(uroced_->incoming().fds[0]), 77u);
}

TEST_F(ClientTest, FullListenBacklogIsRetried) {
  StartUroced();
  uroced_->SetBacklog(0);
  const auto first = ConnectToFabric(fabric_);
  ASSERT_TRUE(first.has_value());
  client_->Serve();
  EXPECT_EQ(client_->state(), State::kDetached);
  EXPECT_EQ(client_->connect_error(), EAGAIN);
  // The retry timer for EAGAIN is far shorter than the one for an absent uroced.
  uroced_->AcceptUnauthenticated();
  ServeUntil(State::kAttaching);
  EXPECT_EQ(client_->connect_error(), 0);
}

// Messages that no correct uroced sends: the client disconnects, keeps what it has, and attaches
// anew.
using Said = void (*)(MessageChannel&);
struct Nonsense {
  const char* name;
  bool when_attached;
  Said say;
};
void PrintTo(const Nonsense& nonsense, std::ostream* out) { *out << nonsense.name; }

void SayBytes(MessageChannel& channel) { ASSERT_EQ(write(channel.fd(), "nonsense", 8), 8); }
template <Block block, uint32_t gid_count>
void SayWelcome(MessageChannel& channel) {
  Welcome welcome = WelcomeTo(block);
  welcome.gid_count = gid_count;
  channel.Send(welcome, std::array<int, 1>{channel.fd()});
}
void SayHello(MessageChannel& channel) { channel.Send(Hello{}, std::array<int, 1>{channel.fd()}); }
void SayLinkRequest(MessageChannel& channel) {
  channel.Send(LinkRequest{}, std::array<int, 2>{channel.fd(), channel.fd()});
}
void SayPortState(MessageChannel& channel) { channel.Send(PortState{}); }
void SayStatusEnd(MessageChannel& channel) { channel.Send(StatusEnd{}); }
void SayLeaseGranted(MessageChannel& channel) { channel.Send(LeaseGranted{}); }

class NonsenseTest : public ClientTest, public ::testing::WithParamInterface<Nonsense> {};

TEST_P(NonsenseTest, IsTurnedAwayFrom) {
  if (GetParam().when_attached) {
    Attach();
  } else {
    StartUroced();
    client_->Serve();
    uroced_->Accept();
  }
  const uint32_t attachments = client_->attachments();
  GetParam().say(uroced_->channel());
  client_->Serve();
  EXPECT_FALSE(client_->Take(incoming_));
  for (const UniqueFd& fd : incoming_.fds) EXPECT_FALSE(fd);
  EXPECT_EQ(client_->state(), State::kDetached);
  EXPECT_EQ(client_->attachments(), attachments);
  EXPECT_EQ(uroced_->Receive(), Status::kClosed);
  Attach();
  EXPECT_EQ(client_->attachments(), attachments + 1);
}
INSTANTIATE_TEST_SUITE_P(
    Kinds, NonsenseTest,
    ::testing::Values(Nonsense{"bytes", false, SayBytes},
                      Nonsense{"block_of_uroced", false, SayWelcome<kSwitchBlock, 0>},
                      Nonsense{"block_too_large", false, SayWelcome<kLastBlock + 1, 0>},
                      Nonsense{"too_many_gids", false, SayWelcome<kBlock, kMaxGids + 1>},
                      Nonsense{"hello", false, SayHello},
                      Nonsense{"news_before_the_welcome", false, SayPortState},
                      Nonsense{"bytes_later", true, SayBytes},
                      Nonsense{"hello_later", true, SayHello},
                      Nonsense{"second_welcome", true, SayWelcome<kBlock, 0>},
                      Nonsense{"link_request", true, SayLinkRequest},
                      Nonsense{"status", true, SayStatusEnd},
                      Nonsense{"held", true, SayLeaseGranted}),
    [](const auto& kind) { return std::string(kind.param.name); });

TEST_F(ClientTest, EndBeforeTheWelcomeIsTriedAgain) {
  StartUroced();
  client_->Serve();
  uroced_->Accept();
  uroced_->HangUp();
  ServeUntil(State::kDetached);
  Attach();
  EXPECT_EQ(client_->attachments(), 1u);
}

TEST_F(ClientTest, QueuedMessagesAreSentWhenDaemonReadsAgain) {
  Attach();
  uint32_t sent = 0;
  while (client_->Send(Forget{.local = {sent}})) {
    ++sent;
    ASSERT_LT(sent, 100'000u);
  }
  EXPECT_EQ(client_->state(), State::kAttached);
  EXPECT_FALSE(IsReadable(client_->wait_fd()));
  for (uint32_t received = 0; received < sent; ++received) {
    if (uroced_->Receive() == Status::kNothing) {
      // The socket has room again, which wakes the client.
      ASSERT_TRUE(WaitReadable(client_->wait_fd()));
      client_->Serve();
      ASSERT_EQ(uroced_->Receive(), Status::kOk);
    }
    ASSERT_EQ(uroced_->incoming().As<Forget>()->local.value, received);
  }
  EXPECT_TRUE(client_->Send(Forget{}));
  client_->Serve();
  EXPECT_FALSE(IsReadable(client_->wait_fd()));  // the client no longer waits for room
}

TEST_F(ClientTest, DetachesWhenDaemonStopsReading) {
  Attach();
  ASSERT_EQ(shutdown(uroced_->channel().fd(), SHUT_RD), 0);
  uroced_->channel().Send(PortStateOf(1));
  EXPECT_FALSE(client_->Send(Resolve{}));
  client_->Serve();
  ExpectPortState(1);
  EXPECT_FALSE(client_->Take(incoming_));
  EXPECT_EQ(client_->state(), State::kDetached);
}

TEST_F(ClientTest, ParentStaysAttachedWhenForkedChildAbandonsClient) {
  Attach();
  SocketPair sockets;
  const pid_t child = fork();
  if (child == 0) {
    client_->Abandon();
    bool gone = client_->wait_fd() < 0 && !client_->Send(Resolve{});
    for (int i = 0; i < 3; ++i) client_->Serve();
    gone = gone && client_->state() == State::kDetached && !client_->Take(incoming_);
    client_.reset();
    char byte = 'x';
    gone = gone && write(sockets.b.get(), &byte, 1) == 1 && read(sockets.b.get(), &byte, 1) == 1;
    _exit(gone ? 0 : 1);
  }
  char byte;
  ASSERT_EQ(read(sockets.a.get(), &byte, 1), 1);
  uroced_->channel().Send(PortStateOf(1));
  ASSERT_TRUE(WaitReadable(client_->wait_fd()));
  client_->Serve();
  ExpectPortState(1);
  EXPECT_EQ(uroced_->Receive(), Status::kNothing);

  client_.reset();  // while the child lives
  EXPECT_EQ(uroced_->Receive(), Status::kClosed);
  EXPECT_FALSE(IsClaimed(fabric_, kBlock));
  ASSERT_EQ(write(sockets.a.get(), &byte, 1), 1);
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(ClientTest, RefusalEndsWakeUpsWhileAForkedChildHoldsTheSocket) {
  Attach();
  SocketPair sockets;
  const pid_t child = fork();
  if (child == 0) {
    sockets.a.reset();
    char byte;
    _exit(read(sockets.b.get(), &byte, 1) == 0 ? 0 : 1);
  }
  uroced_->channel().Send(Refused{.error = EIO, .sentence = {"gone"}});
  uroced_->HangUp();
  client_->Serve();
  EXPECT_FALSE(client_->Take(incoming_));
  ASSERT_EQ(client_->state(), State::kRefused);
  EXPECT_FALSE(IsReadable(client_->wait_fd()));
  sockets.a.reset();
  sockets.b.reset();
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST_F(ClientTest, ConnectWithoutFreeDescriptorsFailsWithEmfile) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  client_ = std::make_unique<ControlClient>(ControlClient::Options{.fabric = fabric_});
  client_->Serve();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(client_->state(), State::kRefused);
  EXPECT_EQ(client_->refusal().error, EMFILE);
  EXPECT_NE(Sentence().find("open files"), std::string::npos);
}

TEST_F(ClientTest, ClaimWithoutFreeDescriptorIsRefusedWithEmfile) {
  StartUroced();
  client_->Serve();
  uroced_->Accept();
  ASSERT_TRUE(uroced_->SayWelcome(WelcomeTo(kBlock)));
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  client_->Serve();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(client_->state(), State::kRefused);
  EXPECT_EQ(client_->refusal().error, EMFILE);
  EXPECT_NE(Sentence().find("ulimit -n"), std::string::npos);
}

// Runs as another user: attaches to a uroced of that user, which then ends, so that only root's is
// left.
int ReturnAfterOwnUrocedEnded(ControlClient& client, const std::string& fabric) {
  if (setresuid(kNobodyUid, kNobodyUid, kNobodyUid) != 0) return 1;
  auto own = std::make_unique<ScriptedUroced>(fabric);
  client.Serve();
  own->Accept();
  own->SayWelcome(WelcomeTo(kBlock));
  client.Serve();
  if (!IsClaimed(fabric, kBlock)) return 2;
  own.reset();
  MessageChannel::Incoming incoming;
  client.Serve();
  if (client.Take(incoming) || client.state() != State::kDetached) return 3;
  if (!WaitReadable(client.wait_fd())) return 4;
  client.Serve();
  return client.state() == State::kDetached ? 0 : 5;
}

TEST_F(ClientTest, AfterAnAttachmentOnlyTheSameUsersUrocedWillDo) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  StartUroced();
  const pid_t child = fork();
  if (child == 0) _exit(ReturnAfterOwnUrocedEnded(*client_, fabric_));
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_FALSE(uroced_->HasPendingConnection());
}

}  // namespace
}  // namespace uroce::nic::control
