#pragma once

#include <sys/types.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/control_address.h"
#include "dpdk_nic/control/group_shares.h"
#include "dpdk_nic/control/lease_messages.h"
#include "dpdk_nic/control/message_channel.h"
#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/control/status_report.h"
#include "dpdk_nic/control/wire_messages.h"
#include "transport/ids.h"
#include "transport/time.h"

namespace uroce::nic::control {

class Server;

// uroced's end of one connection: does what the messages of a process ask, or answers why not. Cuts
// off a process whose message makes no sense at the time, or that does not read.
//
//         Hello, Resume                    LeaseRequest, StatusRequest
//   kClient <------------ kUnauthenticated ------------> kTransient
//
// kUnauthenticated and kTransient end after Server::Limits::handshake_timeout.
//
// A client may then send every message but these four, a transient client none.
class Session : public std::enable_shared_from_this<Session> {
 public:
  // Addresses that the switch is asked for at a time. Several, as hosts that do not answer take
  // seconds; few, as the switch has room for the questions of 256 such processes.
  static constexpr size_t kMaxResolving = 16;
  // Addresses that wait for their turn: as many hosts as a process may start to talk to at once.
  static constexpr size_t kMaxToResolve = 1'024;

  Session(Server& server, UniqueFd socket, const PeerCredentials& peer);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  ~Session();

  void Start();
  // Ends the session; the process sees the end of file. Harmless when it has ended.
  void Close();
  // Close without telling the server.
  void Disconnect();

  // Sends Refused with a sentence for the user, and ends the session.
  void Refuse(ErrnoValue error, const std::string& sentence);
  void TellPortState(bool is_up);
  void TellAddresses();
  // Sends the sentence if the process named the host `about` (zero: any host), and got none about
  // it lately and not the same one last. Returns whether the process named the host.
  bool TellNotice(const transport::Gid& about, const std::string& sentence);
  // Gives the process sockets of its own, if it named a host, has none yet, and the wire has some.
  void ShareWire();
  // Sends a known address, or the failure of one that the process asked for.
  void TellNeighbor(const Neighbor& neighbor);

  bool is_client() const { return state_ == State::kClient; }
  // 0: in a process namespace that is not visible from here.
  pid_t pid() const { return peer_.pid; }
  int socket() const { return channel_.fd(); }
  uid_t uid() const { return peer_.uid; }
  Block block() const { return block_; }                       // a client's
  const PortDrops& wire_drops() const { return wire_drops_; }  // as the process reports
  int published_state() const { return published_state_.get(); }

 private:
  enum class State { kUnauthenticated, kClient, kTransient, kClosed };

  void AwaitMessages();
  void ReadMessages();
  void AwaitRoom();
  void OnRoom();

  void Handle(MessageChannel::Incoming& incoming);
  void HandleFirst(MessageChannel::Incoming& incoming);
  void HandleClient(MessageChannel::Incoming& incoming);
  void OnHello(const Hello& hello, UniqueFd published_state);
  void OnResume(const Resume& resume, UniqueFd published_state, UniqueFd claim);
  // Whether the process may be on the fabric with this Hello; otherwise refuses it.
  bool Admit(const Hello& hello, UniqueFd published_state);
  void Attach(const Hello& hello, Block block, UniqueFd claim);
  void BecomeTransient();
  void OnLeaseRequest(const LeaseRequest& request);
  void OnStatusRequest();
  void OnResolve(const transport::Gid& gid);
  // Remembers that the process is to get notices about `remote`.
  void Name(const transport::Gid& remote);
  // Prepares the path to a host beyond this one that the process names; a zero GID stands for any.
  // Returns the longest IP packet that the path takes.
  uint32_t PreparePath(const transport::Gid& remote);
  uint32_t PreparePaths(const Declare& connection);
  void ResolveNext();
  ErrnoValue JoinAsFarAsAllowed(const transport::Gid& group);
  void TellIfUnknown(Block peer);
  // Tells the process that it may join no more groups.
  void TellLimitOfGroups(GroupShares::Verdict verdict);
  void Say(const std::string& sentence);
  ErrnoValue OpenLink(const LinkRequest& request, std::span<UniqueFd, 2> fds);
  ErrnoValue PassOn(const LinkRequest& request, std::span<UniqueFd, 2> fds);
  void ContinueReport();
  void BreakOff(std::string_view why);

  template <Message T>
  void Send(const T& message, std::span<const int, T::kDescriptors> fds = {}) {
    if (!channel_.Send(message, fds)) return BreakOff("does not read what it is told");
    AwaitRoom();
  }

  Server& server_;
  const PeerCredentials peer_;
  MessageChannel channel_;
  // Watches the channel's socket, which stays the channel's.
  boost::asio::posix::stream_descriptor watch_;
  boost::asio::steady_timer deadline_;
  State state_ = State::kUnauthenticated;
  bool awaits_room_ = false;
  Block block_ = 0;
  UniqueFd published_state_;
  std::set<transport::Gid> resolving_;
  std::set<transport::Gid> to_resolve_;
  // Hosts that the process named, and until when it gets no other notice about each.
  std::map<transport::Gid, transport::Time> named_;
  std::string last_notice_;  // of TellNotice
  transport::Time next_limit_notice_{INT64_MIN};
  transport::Time next_peer_notice_{INT64_MIN};
  bool has_wire_sockets_ = false;
  PortDrops wire_drops_;
  std::unique_ptr<StatusReport> report_;
};

}  // namespace uroce::nic::control
