#include "dpdk_nic/control/session.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/control/hello_check.h"
#include "dpdk_nic/control/server.h"
#include "dpdk_nic/port/ring/ring_link.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

namespace uroce::nic::control {
namespace {

using boost::asio::posix::stream_descriptor;
using transport::Gid;

// Messages of one session before others have their turn.
constexpr int kMessagesPerTurn = 32;
constexpr int kOff = 0;
// How long a process gets no other notice about the same host.
constexpr transport::Duration kNoticeInterval = transport::Milliseconds(10'000);
// Hosts that one process can get notices about. If it names more, the earlier ones are forgotten.
constexpr size_t kMaxNamed = 1'024;

// 127.0.0.0/8 or ::1: no other host reaches it.
bool IsLoopback(const Gid& gid) {
  const Gid loopback = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  return gid == loopback || (gid.IsIpv4Mapped() && gid.bytes[12] == 127);
}

// The channel has checked that the message has the size of its type.
template <Message T>
T Body(const MessageChannel::Incoming& incoming) {
  return incoming.As<T>().value();
}

}  // namespace

Session::Session(Server& server, UniqueFd socket, const PeerCredentials& peer)
    : server_(server),
      peer_(peer),
      channel_(std::move(socket), &server.closer()),
      watch_(server.io()),
      deadline_(server.io()) {}

Session::~Session() { Disconnect(); }

void Session::Start() {
  boost::system::error_code failure;
  if (watch_.assign(channel_.fd(), failure)) return BreakOff("cannot be listened to");
  deadline_.expires_after(server_.limits().handshake_timeout);
  deadline_.async_wait([self = shared_from_this()](boost::system::error_code error) {
    if (!error && !self->is_client()) self->Close();
  });
  AwaitMessages();
}

void Session::Disconnect() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  watch_.release();
  channel_.Reset({});
  deadline_.cancel();
  published_state_.reset();
  report_.reset();
}

void Session::Close() {
  if (state_ == State::kClosed) return;
  const auto self = shared_from_this();  // the server lets go of it
  const bool was_client = is_client();
  Disconnect();
  server_.OnClosed(*this, was_client);
}

void Session::BreakOff(std::string_view why) {
  if (state_ == State::kClosed) return;
  server_.Log("process " + std::to_string(peer_.pid) + " of user " + std::to_string(peer_.uid) +
              " " + std::string(why) + ": its connection was closed");
  Close();
}

void Session::Refuse(ErrnoValue error, const std::string& sentence) {
  Refused refused{error, {}};
  sentence.copy(refused.sentence.data(), refused.sentence.size() - 1);
  channel_.Send(refused);
  server_.Log("process " + std::to_string(peer_.pid) + " of user " + std::to_string(peer_.uid) +
              " was refused: " + sentence);
  Close();
}

void Session::AwaitMessages() {
  watch_.async_wait(stream_descriptor::wait_read,
                    [self = shared_from_this()](boost::system::error_code error) {
                      if (!error) self->ReadMessages();
                    });
}

void Session::ReadMessages() {
  MessageChannel::Incoming incoming;
  for (int i = 0; i < kMessagesPerTurn && state_ != State::kClosed; ++i) {
    switch (channel_.Receive(incoming)) {
      case MessageChannel::Status::kNothing:
        return AwaitMessages();
      case MessageChannel::Status::kClosed:
        return Close();
      case MessageChannel::Status::kOk:
        Handle(incoming);
        for (UniqueFd& unused : incoming.fds) server_.closer().Close(std::move(unused));
        break;
    }
  }
  if (state_ != State::kClosed) AwaitMessages();
}

void Session::AwaitRoom() {
  if (awaits_room_ || !channel_.wants_write()) return;
  awaits_room_ = true;
  watch_.async_wait(stream_descriptor::wait_write,
                    [self = shared_from_this()](boost::system::error_code error) {
                      if (!error) self->OnRoom();
                    });
}

void Session::OnRoom() {
  awaits_room_ = false;
  // A broken channel makes the socket readable, too.
  if (!channel_.Flush()) return;
  AwaitRoom();
  ContinueReport();
}

void Session::Handle(MessageChannel::Incoming& incoming) {
  if (state_ == State::kUnauthenticated) return HandleFirst(incoming);
  if (state_ == State::kClient) return HandleClient(incoming);
  BreakOff("says more than it should");
}

void Session::HandleFirst(MessageChannel::Incoming& incoming) {
  switch (incoming.type) {
    case MessageType::kHello:
      return OnHello(Body<Hello>(incoming), std::move(incoming.fds[0]));
    case MessageType::kResume:
      return OnResume(Body<Resume>(incoming), std::move(incoming.fds[0]),
                      std::move(incoming.fds[1]));
    case MessageType::kLeaseRequest:
      return OnLeaseRequest(Body<LeaseRequest>(incoming));
    case MessageType::kStatusRequest:
      return OnStatusRequest();
    default:
      return BreakOff("says what makes no sense before Hello");
  }
}

void Session::HandleClient(MessageChannel::Incoming& incoming) {
  FrameSwitch& frame_switch = server_.frame_switch();
  switch (incoming.type) {
    case MessageType::kLinkRequest: {
      const auto request = Body<LinkRequest>(incoming);
      Send(LinkAnswer{request.block, OpenLink(request, incoming.fds)});
      return TellIfUnknown(request.block);
    }
    case MessageType::kResolve:
      return OnResolve(Body<Resolve>(incoming).gid);
    case MessageType::kDeclare: {
      const auto declare = Body<Declare>(incoming);
      const ErrnoValue error = frame_switch.Declare(block_, declare);
      const uint32_t path_mtu = error == 0 ? PreparePaths(declare) : 0;
      return Send(DeclareAnswer{declare.local, error, path_mtu});
    }
    case MessageType::kForget:
      return frame_switch.Forget(block_, Body<Forget>(incoming).local);
    case MessageType::kJoinGroup: {
      const Gid group = Body<JoinGroup>(incoming).group;
      if (group.IsMulticast()) Name(group);
      Send(GroupAnswer{group, JoinAsFarAsAllowed(group)});
      return ShareWire();
    }
    case MessageType::kLeaveGroup: {
      const Gid group = Body<LeaveGroup>(incoming).group;
      server_.group_shares().Leave(block_, group);
      return frame_switch.LeaveGroup(block_, group);
    }
    case MessageType::kListen: {
      const auto listen = Body<Listen>(incoming);
      const ErrnoValue error = frame_switch.Listen(block_, listen);
      if (error == 0 && listen.listens != 0 && !IsLoopback(listen.claim.address)) PreparePath({});
      return Send(ListenAnswer{listen.claim, error, 0});
    }
    case MessageType::kUnlisten: {
      const ServiceClaim claim = Body<Unlisten>(incoming).claim;
      frame_switch.Unlisten(block_, claim);
      return Send(UnlistenAnswer{claim});
    }
    case MessageType::kWireDrops:
      wire_drops_ = Body<WireDrops>(incoming).drops;
      return;
    case MessageType::kOpenXrcDomain:
      return Send(server_.xrc_domains().Open(block_, Body<OpenXrcDomain>(incoming),
                                             std::move(incoming.fds[0])));
    case MessageType::kCloseXrcDomain: {
      const uint64_t handle = Body<CloseXrcDomain>(incoming).handle;
      server_.xrc_domains().Close(block_, handle);
      return Send(XrcDomainClosed{handle});
    }
    default:
      return BreakOff("says what makes no sense after Hello");
  }
}

void Session::OnHello(const Hello& hello, UniqueFd published_state) {
  if (!Admit(hello, std::move(published_state))) return;
  Registry& registry = server_.registry();
  const auto admission = registry.Attach(Now(), peer_.pid, peer_.uid, 0);
  if (admission.error != 0) return Refuse(admission.error, WhyNotAdmitted(admission.error));
  UniqueFd claim = server_.claims().Give(admission.block, peer_.uid);
  if (!claim) {
    const int error = errno;
    registry.Detach(Now(), admission.block);
    return Refuse(error, WhyNotAdmitted(error));
  }
  Attach(hello, admission.block, std::move(claim));
}

void Session::OnResume(const Resume& resume, UniqueFd published_state, UniqueFd claim) {
  if (!server_.claims().IsProvenBy(claim.get(), resume.block, peer_.uid)) {
    server_.closer().Close(std::move(claim));
    return Refuse(ESTALE, WhyNotAdmitted(ESTALE));
  }
  if (!Admit(resume.hello, std::move(published_state))) return;
  // uroced may not have seen the end of the process's last connection yet.
  if (Session* last = server_.FindClient(resume.block)) last->Close();
  const auto admission = server_.registry().Attach(Now(), peer_.pid, peer_.uid, resume.block);
  if (admission.error != 0) return Refuse(admission.error, WhyNotAdmitted(admission.error));
  Attach(resume.hello, resume.block, std::move(claim));
}

bool Session::Admit(const Hello& hello, UniqueFd published_state) {
  const auto refusal = WhyNotToAttach(hello, published_state.get(), server_.fabric());
  if (!refusal) {
    published_state_ = std::move(published_state);
    return true;
  }
  server_.closer().Close(std::move(published_state));
  Refuse(refusal->error, refusal->sentence);
  return false;
}

void Session::Attach(const Hello& hello, Block block, UniqueFd claim) {
  const FabricDescription& fabric = server_.fabric();
  block_ = block;
  state_ = State::kClient;
  deadline_.cancel();
  server_.OnAttached(*this);

  Welcome welcome{};
  welcome.block = block_;
  welcome.mtu_bytes = hello.mtu_bytes != 0 ? hello.mtu_bytes : fabric.mtu_bytes;
  welcome.by_own_sockets = fabric.by_own_sockets;
  fabric.Fill(welcome);
  Send(welcome, std::array<int, Welcome::kDescriptors>{claim.get()});
}

// A transient client has no more descriptors to send; from Linux 6.16 on the kernel refuses them.
void Session::BecomeTransient() {
  state_ = State::kTransient;
  setsockopt(channel_.fd(), SOL_SOCKET, SO_PASSRIGHTS, &kOff, sizeof kOff);
}

void Session::OnLeaseRequest(const LeaseRequest& request) {
  BecomeTransient();
  if (const auto refusal = WhyNotTheUplink(request, server_.fabric())) {
    return Refuse(refusal->error, refusal->sentence);
  }
  const ErrnoValue error = server_.GrantLease(*this);
  if (error == 0) return Send(LeaseGranted{0});
  Refuse(error, WhyNoLease(error));
}

void Session::OnStatusRequest() {
  BecomeTransient();
  report_ = std::make_unique<StatusReport>(server_, peer_.uid);
  ContinueReport();
}

void Session::ContinueReport() {
  if (report_ == nullptr) return;
  switch (report_->Continue(channel_)) {
    case StatusReport::Progress::kDone:
      report_.reset();
      return AwaitRoom();
    case StatusReport::Progress::kUnderWay:
      return boost::asio::post(server_.io(),
                               [self = shared_from_this()] { self->ContinueReport(); });
    case StatusReport::Progress::kWaitsForRoom:
      return AwaitRoom();
    case StatusReport::Progress::kFailed:
      return Close();
  }
}

void Session::OnResolve(const Gid& gid) {
  const bool has_way = server_.fabric().has_wire && !gid.IsZero();
  if (has_way && gid.IsMulticast()) PreparePath(gid);
  const bool can_be_asked = has_way && !gid.IsMulticast();
  if (!can_be_asked || to_resolve_.size() == kMaxToResolve) {
    return Send(Neighbor{.gid = gid, .mac = {}, .is_known = 0, .reserved = 0});
  }
  PreparePath(gid);
  if (resolving_.count(gid) == 0) to_resolve_.insert(gid);
  ResolveNext();
}

void Session::Name(const Gid& remote) {
  if (named_.size() >= kMaxNamed && named_.count(remote) == 0) named_.clear();
  named_.try_emplace(remote);
}

// The longest IP packet that both paths take, as far as it is known.
uint32_t Session::PreparePaths(const Declare& connection) {
  const uint32_t primary = PreparePath(connection.remote_gid);
  if (connection.alternate_gid.IsZero()) return primary;
  const uint32_t alternate = PreparePath(connection.alternate_gid);
  return primary == 0 || alternate == 0 ? std::max(primary, alternate)
                                        : std::min(primary, alternate);
}

uint32_t Session::PreparePath(const Gid& remote) {
  Name(remote);
  const uint32_t path_mtu_bytes = server_.frame_switch().PreparePath(remote);
  ShareWire();
  return path_mtu_bytes;
}

void Session::ShareWire() {
  const bool wants = is_client() && !named_.empty() && !has_wire_sockets_;
  if (!wants || !server_.fabric().by_own_sockets) return;
  const std::vector<UniqueFd> sockets = server_.frame_switch().ShareWire(block_);
  has_wire_sockets_ = !sockets.empty();
  for (const UniqueFd& socket : sockets) {
    Send(WireSocket{0}, std::array<int, WireSocket::kDescriptors>{socket.get()});
  }
}

bool Session::TellNotice(const Gid& about, const std::string& sentence) {
  // The zero GID is first: it stands for any host, of a process that only receives.
  const auto first_host = named_.upper_bound(Gid{});
  const auto named = about.IsZero() ? first_host : named_.find(about);
  if (!is_client() || named == named_.end()) return false;
  const transport::Time now = Now();
  // Without a way out of the host there is the same sentence for each host.
  if (now < named->second || sentence == last_notice_) return true;
  named->second = now + kNoticeInterval;
  last_notice_ = sentence;
  Say(sentence);
  return true;
}

void Session::Say(const std::string& sentence) {
  Notice notice{};
  sentence.copy(notice.sentence.data(), notice.sentence.size() - 1);
  Send(notice);
}

ErrnoValue Session::JoinAsFarAsAllowed(const Gid& group) {
  FrameSwitch& frame_switch = server_.frame_switch();
  GroupShares& shares = server_.group_shares();
  const auto verdict = shares.MayJoin(block_, uid(), group, frame_switch.max_groups());
  if (verdict != GroupShares::Verdict::kMayJoin) {
    TellLimitOfGroups(verdict);
    return ENOSPC;
  }
  const ErrnoValue error = frame_switch.JoinGroup(block_, group);
  if (error == 0) shares.Join(block_, uid(), group);
  return error;
}

void Session::TellLimitOfGroups(GroupShares::Verdict verdict) {
  const transport::Time now = Now();
  if (now < next_limit_notice_) return;
  next_limit_notice_ = now + kNoticeInterval;
  const GroupShares& shares = server_.group_shares();
  const bool is_of_user = verdict == GroupShares::Verdict::kUserHasTooMany;
  const size_t groups = is_of_user ? shares.GroupsOfUser(uid()) : shares.GroupsOf(block_);
  const std::string sentence = "process " + std::to_string(pid()) + " of user " +
                               std::to_string(uid()) + " cannot join another multicast group: " +
                               (is_of_user ? "the processes of its user have " : "it has ") +
                               std::to_string(groups) + " already; leave some";
  server_.Log(sentence);
  Say(sentence);
}

// Without the notice, a peer on another fabric shows only as a timeout: fabrics of one host have
// the same GIDs.
void Session::TellIfUnknown(Block peer) {
  const transport::Time now = Now();
  if (now < next_peer_notice_ || !server_.registry().IsUnknown(now, peer)) return;
  next_peer_notice_ = now + kNoticeInterval;
  Say("no process on this fabric has the queue pair that a queue pair of process " +
      std::to_string(pid()) +
      " is connected to: its process has ended, or is on another fabric ('uroce run --fabric'), or "
      "in a container that does not share the folder of this one's fabrics");
}

void Session::ResolveNext() {
  while (resolving_.size() < kMaxResolving && !to_resolve_.empty()) {
    const Gid gid = *to_resolve_.begin();
    resolving_.insert(to_resolve_.extract(to_resolve_.begin()));
    server_.frame_switch().Resolve(gid);
  }
}

void Session::TellNeighbor(const Neighbor& neighbor) {
  if (!is_client()) return;
  const size_t asked = resolving_.erase(neighbor.gid) + to_resolve_.erase(neighbor.gid);
  ResolveNext();
  if (asked != 0 || neighbor.is_known) Send(neighbor);
}

void Session::TellPortState(bool is_up) {
  if (is_client()) Send(PortState{is_up});
}

void Session::TellAddresses() {
  if (!is_client()) return;
  const std::vector<Gid>& gids = server_.fabric().gids;
  Addresses addresses{};
  std::copy_n(gids.begin(), std::min(gids.size(), kMaxGids), addresses.gids.begin());
  Send(addresses);
}

ErrnoValue Session::OpenLink(const LinkRequest& request, std::span<UniqueFd, 2> fds) {
  Registry& registry = server_.registry();
  ErrnoValue error = registry.MayLink(Now(), block_, request.block, request.offers_received);
  if (error != 0) return error;
  // Closing a descriptor of another kind may block (a file system in user space, TCP with
  // SO_LINGER), also in the receiver of the offer.
  if (!KeepsItsSize(fds[0].get()) || !RingLink::IsSocketOfALink(fds[1])) return EPROTO;
  // A link carries no descriptors: a thread that moves frames would have to close them.
  setsockopt(fds[1].get(), SOL_SOCKET, SO_PASSRIGHTS, &kOff, sizeof kOff);
  if (request.block == kSwitchBlock) {
    auto uplink = RingLink::Accept(std::move(fds[0]), std::move(fds[1]));
    if (uplink == nullptr) return errno;
    error = server_.frame_switch().ConnectUplink(block_, std::move(uplink));
  } else {
    error = PassOn(request, fds);
  }
  if (error == 0) registry.AddLink(Now(), block_, request.block);
  return error;
}

ErrnoValue Session::PassOn(const LinkRequest& request, std::span<UniqueFd, 2> fds) {
  Session* const peer = server_.FindClient(request.block);
  // A flood of offers must not disconnect its receiver.
  if (peer->channel_.wants_write()) return EAGAIN;
  const std::array<int, LinkOffer::kDescriptors> offered = {fds[0].get(), fds[1].get()};
  if (peer->channel_.Send(LinkOffer{block_}, offered)) {
    peer->AwaitRoom();
    return 0;
  }
  if (!peer->channel_.broken()) return EAGAIN;
  peer->Close();
  return EHOSTUNREACH;
}

}  // namespace uroce::nic::control
