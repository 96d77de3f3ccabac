#include "tests/dpdk_nic/control/server_host.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <future>

#include "dpdk_nic/base/clock.h"
#include "tests/dpdk_nic/control/control_test_support.h"

namespace uroce::nic::control {
namespace {

// Longer than anything takes on a busy machine.
constexpr transport::Duration kPatience = transport::Milliseconds(60'000);

Server::Config Completed(Server::Config config, RateLimitedLog::Sink log,
                         std::function<void()> on_unused) {
  if (config.fabric.mtu_bytes == 0) config.fabric.mtu_bytes = 4'200;
  if (!config.admits) config.admits = [](uid_t) { return true; };
  config.log = std::move(log);
  config.on_unused = std::move(on_unused);
  return config;
}

}  // namespace

ErrnoValue RecordingSwitch::Record(const std::string& call, Block block, uint64_t detail) {
  const std::lock_guard lock(mutex_);
  std::string line = call + " " + std::to_string(block);
  if (detail != 0) line += " " + std::to_string(detail);
  calls_.push_back(std::move(line));
  return answer_;
}

ErrnoValue RecordingSwitch::ConnectUplink(Block block, std::unique_ptr<RingLink> uplink) {
  const ErrnoValue answer = Record("ConnectUplink", block);
  const std::lock_guard lock(mutex_);
  uplink_ = std::move(uplink);
  return answer;
}

ErrnoValue RecordingSwitch::Declare(Block block, const control::Declare& connection) {
  return Record("Declare", block, connection.local.value);
}

void RecordingSwitch::Forget(Block block, transport::Qpn local) {
  Record("Forget", block, local.value);
}

void RecordingSwitch::Remove(Block block) {
  Record("Remove", block);
  const std::lock_guard lock(mutex_);
  for (auto& [group, members] : groups_) members.erase(block);
  std::erase_if(groups_, [](const auto& entry) { return entry.second.empty(); });
}

ErrnoValue RecordingSwitch::JoinGroup(Block block, const transport::Gid& group) {
  const ErrnoValue answer = Record("JoinGroup", block, group.bytes[15]);
  const std::lock_guard lock(mutex_);
  if (answer != 0) return answer;
  if (groups_.size() == max_groups_ && !groups_.contains(group)) return ENOSPC;
  groups_[group].insert(block);
  return 0;
}

void RecordingSwitch::LeaveGroup(Block block, const transport::Gid& group) {
  Record("LeaveGroup", block, group.bytes[15]);
  const std::lock_guard lock(mutex_);
  groups_[group].erase(block);
  if (groups_[group].empty()) groups_.erase(group);
}

size_t RecordingSwitch::max_groups() {
  const std::lock_guard lock(mutex_);
  return max_groups_;
}

ErrnoValue RecordingSwitch::Listen(Block block, const control::Listen& service) {
  return Record("Listen", block, service.claim.service_id);
}

uint32_t RecordingSwitch::PreparePath(const transport::Gid& remote) {
  const std::lock_guard lock(mutex_);
  prepared_.push_back(remote);
  return 1'500;
}

void RecordingSwitch::Unlisten(Block block, const ServiceClaim& claim) {
  Record("Unlisten", block, claim.service_id);
}

void RecordingSwitch::Resolve(const transport::Gid& gid) { Record("Resolve", 0, gid.bytes[15]); }

void RecordingSwitch::AnswerWith(ErrnoValue error) {
  const std::lock_guard lock(mutex_);
  answer_ = error;
}

void RecordingSwitch::SetMaxGroups(size_t groups) {
  const std::lock_guard lock(mutex_);
  max_groups_ = groups;
}

void RecordingSwitch::ShareSockets(uint64_t count) {
  const std::lock_guard lock(mutex_);
  sockets_ = count;
}

std::vector<UniqueFd> RecordingSwitch::ShareWire(Block block) {
  Record("ShareWire", block);
  const std::lock_guard lock(mutex_);
  std::vector<UniqueFd> sockets;
  for (uint64_t number = 1; number <= sockets_; ++number) sockets.push_back(NumberedFd(number));
  return sockets;
}

std::vector<std::string> RecordingSwitch::TakeCalls() {
  const std::lock_guard lock(mutex_);
  return std::exchange(calls_, {});
}

std::vector<transport::Gid> RecordingSwitch::TakePrepared() {
  const std::lock_guard lock(mutex_);
  return std::exchange(prepared_, {});
}

std::unique_ptr<RingLink> RecordingSwitch::TakeUplink() {
  const std::lock_guard lock(mutex_);
  return std::move(uplink_);
}

ServerHost::ServerHost(Server::Config config, const std::string& fabric)
    : fabric_(fabric.empty() ? UniqueFabricName() : fabric) {
  const auto log = [this](std::string_view line) {
    const std::lock_guard lock(mutex_);
    log_ += std::string(line) + "\n";
    return true;
  };
  const auto on_unused = [this] {
    is_deserted_ = true;
    io_.stop();
  };
  auto listener = FabricListener::Open(fabric_);
  EXPECT_TRUE(listener) << errno;
  server_ = std::make_unique<Server>(io_, std::move(*listener),
                                     Completed(std::move(config), log, on_unused));
  server_->Start(switch_);
  thread_ = std::thread([this] { io_.run(); });
}

ServerHost::~ServerHost() {
  io_.stop();
  thread_.join();
}

void ServerHost::Do(const std::function<void(Server&)>& action) {
  std::promise<void> done;
  boost::asio::post(io_, [&] {
    action(*server_);
    done.set_value();
  });
  done.get_future().wait();
}

pid_t ServerHost::Fork(const std::function<int()>& program) {
  pid_t child = -1;
  Do([&](Server&) {
    child = fork();
    if (child == 0) _exit(program());
  });
  return child;
}

size_t ServerHost::CountClients() {
  size_t count = 0;
  Do([&](Server& server) { count = server.registry().clients().size(); });
  return count;
}

size_t ServerHost::CountLinks() {
  size_t count = 0;
  Do([&](Server& server) { count = server.registry().links().size(); });
  return count;
}

void ServerHost::WaitUntilStopped() {
  const transport::Time give_up = Now() + kPatience;
  while (!is_deserted_ && Now() < give_up) usleep(1'000);
  EXPECT_TRUE(is_deserted_);
}

std::string ServerHost::Log() {
  const std::lock_guard lock(mutex_);
  return log_;
}

UniqueFd SealedMemory() {
  UniqueFd memory(memfd_create("state", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(memory.get(), 4'096), 0);
  EXPECT_EQ(fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  return memory;
}

Peer::Peer(const std::string& fabric)
    : channel_(ConnectToFabricAt(PlacesToServe().front(), fabric)) {
  EXPECT_GE(channel_.fd(), 0) << errno;
}

bool Peer::Receive() {
  incoming_.type = {};
  incoming_.bytes = 0;
  while (true) {
    switch (channel_.Receive(incoming_)) {
      case MessageChannel::Status::kOk:
        return true;
      case MessageChannel::Status::kClosed:
        return false;
      case MessageChannel::Status::kNothing:
        if (!Wait()) return false;
        break;
    }
  }
}

// Waits until there is a message to receive or, if messages wait to be sent, room to send.
bool Peer::Wait() {
  const short room = channel_.wants_write() ? POLLOUT : 0;
  pollfd poll_fd{channel_.fd(), static_cast<short>(POLLIN | room), 0};
  const bool is_ready = poll(&poll_fd, 1, 30'000) == 1;  // only a failing test waits 30 s
  channel_.Flush();
  return is_ready;
}

bool Peer::HearsTheEnd() {
  while (Receive()) {
  }
  return channel_.broken();
}

bool Peer::HearsNothingNow() const { return !IsReadable(channel_.fd()); }

bool Peer::SayHello(Hello hello) {
  const UniqueFd memory = SealedMemory();
  return Say(hello, std::array<int, 1>{memory.get()});
}

Block Peer::Attach(Hello hello) {
  EXPECT_TRUE(SayHello(hello));
  const Block block = Hear<Welcome>().block;
  claim_ = TakeDescriptor(0);
  return block;
}

bool Peer::SayResume(Block block, int claim) {
  const UniqueFd memory = SealedMemory();
  return Say(Resume{block, {}}, std::array<int, 2>{memory.get(), claim});
}

void Peer::AskForLink(Block block, uint64_t number, uint32_t offers_received) {
  const UniqueFd memory = SealedMemory();
  EXPECT_EQ(pwrite(memory.get(), &number, sizeof number, 0), ssize_t{sizeof number});
  SocketPair link;
  EXPECT_EQ(send(link.b.get(), &number, sizeof number, 0), ssize_t{sizeof number});
  EXPECT_TRUE(
      Say(LinkRequest{block, offers_received}, std::array<int, 2>{memory.get(), link.a.get()}));
}

}  // namespace uroce::nic::control
