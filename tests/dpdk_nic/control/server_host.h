#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/control_address.h"
#include "dpdk_nic/control/frame_switch.h"
#include "dpdk_nic/control/message_channel.h"
#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/control/server.h"
#include "dpdk_nic/port/ring/ring_link.h"

namespace uroce::nic::control {

using Calls = std::vector<std::string>;

// Records the calls of the server, and returns the errors that the test sets.
class RecordingSwitch : public FrameSwitch {
 public:
  ErrnoValue ConnectUplink(Block block, std::unique_ptr<RingLink> uplink) override;
  void Remove(Block block) override;
  ErrnoValue Declare(Block block, const control::Declare& connection) override;
  void Forget(Block block, transport::Qpn local) override;
  ErrnoValue JoinGroup(Block block, const transport::Gid& group) override;
  void LeaveGroup(Block block, const transport::Gid& group) override;
  size_t max_groups() override;
  ErrnoValue Listen(Block block, const control::Listen& service) override;
  void Unlisten(Block block, const ServiceClaim& claim) override;
  void Resolve(const transport::Gid& gid) override;
  uint32_t PreparePath(const transport::Gid& remote) override;
  std::vector<UniqueFd> ShareWire(Block block) override;
  SwitchCounters counters() override {
    return {.frames_to_wire = 1, .dropped_no_room = 8, .port = {{1, 2}}};
  }
  SwitchUsage usage(Block block) override { return {.declared_connections = block, .groups = 3}; }

  void AnswerWith(ErrnoValue error);
  // Limits how many groups can have members.
  void SetMaxGroups(size_t groups);
  // From now on ShareWire returns `count` NumberedFds, 1, 2 ..., for each process.
  void ShareSockets(uint64_t count);
  // The calls recorded since the last TakeCalls, e.g. "Declare 7 458752".
  Calls TakeCalls();
  // The remote GIDs given to PreparePath since the last call.
  std::vector<transport::Gid> TakePrepared();
  std::unique_ptr<RingLink> TakeUplink();

 private:
  ErrnoValue Record(const std::string& call, Block block, uint64_t detail = 0);

  std::mutex mutex_;
  ErrnoValue answer_ = 0;
  size_t max_groups_ = SIZE_MAX;
  std::map<transport::Gid, std::set<Block>> groups_;  // none empty
  uint64_t sockets_ = 0;
  std::vector<std::string> calls_;
  std::vector<transport::Gid> prepared_;
  std::unique_ptr<RingLink> uplink_;
};

// A server in this process, with a thread of its own, on a fabric of its own.
class ServerHost {
 public:
  explicit ServerHost(Server::Config config = {}, const std::string& fabric = {});
  ~ServerHost();

  const std::string& fabric() const { return fabric_; }
  RecordingSwitch& frame_switch() { return switch_; }
  // Runs on the server's thread; returns when it is done.
  void Do(const std::function<void(Server&)>& action);
  // Starts a process that runs `program` and exits with its result. Forks on the server's thread,
  // so that the thread is not in the middle of anything.
  pid_t Fork(const std::function<int()>& program);
  size_t CountClients();
  size_t CountLinks();
  // Waits until the server of a private fabric has no process left to serve; fails after a minute.
  void WaitUntilStopped();
  bool is_stopped() const { return is_deserted_; }
  // The log so far, in one string.
  std::string Log();

  Server& server() { return *server_; }

 private:
  const std::string fabric_;
  std::mutex mutex_;
  std::string log_;
  std::atomic<bool> is_deserted_ = false;
  RecordingSwitch switch_;
  boost::asio::io_context io_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

inline Hello HelloWithMtu(uint32_t mtu_bytes) { return {mtu_bytes, {}}; }
inline Hello HelloWithIp(const transport::Gid& ip) { return {0, ip}; }

// Memory such as a process publishes its state in.
UniqueFd SealedMemory();

// A client of uroced that waits for each answer.
class Peer {
 public:
  // Connects to this user's uroced.
  explicit Peer(const std::string& fabric);
  // Uses a connection that was made already.
  explicit Peer(UniqueFd socket) : channel_(std::move(socket)) {}

  template <Message T>
  bool Say(const T& message, std::span<const int, T::kDescriptors> fds = {}) {
    return channel_.Send(message, fds);
  }
  // The next message, which has to be a T.
  template <Message T>
  T Hear() {
    Receive();
    EXPECT_EQ(incoming_.type, T::kType);
    return incoming_.As<T>().value_or(T{});
  }
  // A descriptor that came with the last message.
  UniqueFd TakeDescriptor(size_t index) { return std::move(incoming_.fds[index]); }
  // The first T that comes; other messages are ignored.
  template <Message T>
  T HearAmongOthers() {
    while (Receive() && incoming_.type != T::kType) {
    }
    return incoming_.As<T>().value_or(T{});
  }
  // Whether uroced closes the connection; messages before that are ignored.
  bool HearsTheEnd();
  bool HearsNothingNow() const;

  bool SayHello(Hello hello = {});
  // Says Hello, and returns the block of the Welcome.
  Block Attach(Hello hello = {});
  // Sends Resume for a block that it has.
  bool SayResume(Block block, int claim);
  // The descriptor that came with the Welcome.
  int claim() const { return claim_.get(); }
  // Asks for a link with descriptors of which NumberOf is `number`.
  void AskForLink(Block block, uint64_t number = 1, uint32_t offers_received = 0);

  MessageChannel& channel() { return channel_; }

 private:
  bool Receive();
  bool Wait();

  MessageChannel channel_;
  MessageChannel::Incoming incoming_;
  UniqueFd claim_;
};

}  // namespace uroce::nic::control
