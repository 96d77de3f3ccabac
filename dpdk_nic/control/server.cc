#include "dpdk_nic/control/server.h"

#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/base/random_seed.h"

namespace uroce::nic::control {
namespace {

using boost::asio::posix::stream_descriptor;
using std::chrono::milliseconds;

constexpr milliseconds kAcceptInterval{10};
// How long to wait when descriptors or memory are exhausted.
constexpr milliseconds kShortageDelay{100};

}  // namespace

Server::Server(boost::asio::io_context& io, FabricListener listener, Config config)
    : io_(io),
      config_(std::move(config)),
      started_at_(Now()),
      log_(config_.log),
      fabric_(std::move(listener)),
      claims_(fabric_.folder()),
      registry_(
          config_.limits.registry, [this](Block block) { return claims_.OwnerOf(block); },
          NewRandomSeedOrThrow()[0]),
      listener_(io, fabric_.TakeSocket().release()),
      accept_timer_(io),
      leases_(io, [this] { StopIfUnused(); }),
      first_visit_timer_(io) {}

Server::~Server() {
  listener_.close();  // before the name of the fabric is given back
  for (const auto& session : sessions_) session->Disconnect();
}

void Server::Start(FrameSwitch& frame_switch) {
  frame_switch_ = &frame_switch;
  AwaitConnections();
  if (!config_.fabric.is_private) return;
  first_visit_timer_.expires_after(config_.limits.first_use_timeout);
  first_visit_timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    was_used_ = true;
    StopIfUnused();
  });
}

void Server::AwaitConnections() {
  listener_.async_wait(stream_descriptor::wait_read, [this](boost::system::error_code error) {
    if (!error) AcceptConnections();
  });
}

void Server::AcceptConnections() {
  while (listener_.is_open() && HasRoom()) {
    UniqueFd socket(
        accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      ++accepted_;
      Welcome(std::move(socket));
    } else if (errno == EAGAIN) {
      return AwaitConnections();
    } else if (errno != EINTR && errno != ECONNABORTED) {
      Log(std::string("no connection can be accepted at the moment: ") + strerror(errno));
      return AcceptLater(kShortageDelay);
    }
  }
}

bool Server::HasRoom() {
  const transport::Time now = Now();
  if (now >= interval_end_) {
    interval_end_ = now + transport::Milliseconds(kAcceptInterval.count());
    accepted_ = 0;
  }
  if (accepted_ >= config_.limits.connections_per_interval) {
    AcceptLater(kAcceptInterval);
    return false;
  }
  has_too_many_unauthenticated_ = unauthenticated_ >= config_.limits.max_unauthenticated;
  return !has_too_many_unauthenticated_;
}

void Server::AcceptLater(milliseconds delay) {
  accept_timer_.expires_after(delay);
  accept_timer_.async_wait([this](boost::system::error_code error) {
    if (!error) AwaitConnections();
  });
}

void Server::Welcome(UniqueFd socket) {
  const auto peer = PeerCredentialsOf(socket.get());
  if (!peer) return closer_.Close(std::move(socket));
  const std::string user = std::to_string(peer->uid);
  if (unauthenticated_of_user_[peer->uid] >= config_.limits.max_unauthenticated_per_user) {
    closer_.Close(std::move(socket));
    return Log("user " + user + " opens too many connections at once: one was closed");
  }
  ++unauthenticated_;
  ++unauthenticated_of_user_[peer->uid];
  const auto session = std::make_shared<Session>(*this, std::move(socket), *peer);
  sessions_.insert(session);
  if (!config_.admits(peer->uid)) {
    return session->Refuse(EACCES, "user " + user +
                                       " is not let into this fabric: ask the administrator "
                                       "of its uroced to start it with '--users'");
  }
  session->Start();
}

void Server::ForgetUnauthenticated(uid_t uid) {
  --unauthenticated_;
  const auto user = unauthenticated_of_user_.find(uid);
  if (--user->second == 0) unauthenticated_of_user_.erase(user);
  if (!std::exchange(has_too_many_unauthenticated_, false)) return;
  boost::asio::post(io_, [this] {
    if (listener_.is_open()) AwaitConnections();
  });
}

void Server::Log(std::string_view line) { log_.Write(Now(), line); }

Session* Server::FindClient(Block block) const {
  const auto client = clients_.find(block);
  return client == clients_.end() ? nullptr : client->second;
}

ErrnoValue Server::GrantLease(const Session& session) {
  if (!config_.fabric.is_private) return 0;
  was_used_ = true;
  return leases_.Add(session.pid(), session.uid(), session.socket());
}

void Server::OnAttached(Session& session) {
  was_used_ = true;
  clients_[session.block()] = &session;
  ForgetUnauthenticated(session.uid());
}

void Server::OnClosed(Session& session, bool was_client) {
  if (was_client) {
    clients_.erase(session.block());
    frame_switch_->Remove(session.block());
    group_shares_.Remove(session.block());
    xrc_domains_.Remove(session.block());
    registry_.Detach(Now(), session.block());
  } else {
    ForgetUnauthenticated(session.uid());
  }
  sessions_.erase(session.shared_from_this());
  StopIfUnused();
}

void Server::StopIfUnused() {
  if (!config_.fabric.is_private || !was_used_ || !listener_.is_open()) return;
  if (!sessions_.empty() || !leases_.empty()) return;
  // First of all, so that a program that comes now starts another uroced.
  listener_.close();
  fabric_.Close();
  accept_timer_.cancel();
  config_.on_unused();
}

template <class Function>
void Server::ForEachClient(Function function) {
  // A copy: clients that do not read are disconnected meanwhile.
  std::vector<std::shared_ptr<Session>> clients;
  for (const auto& [block, session] : clients_) clients.push_back(session->shared_from_this());
  for (const auto& session : clients) function(*session);
}

void Server::OnNeighbor(const Neighbor& neighbor) {
  boost::asio::post(io_, [this, neighbor] {
    ForEachClient([&](Session& session) { session.TellNeighbor(neighbor); });
  });
}

void Server::OnWireState(bool is_up) {
  boost::asio::post(io_, [this, is_up] {
    if (config_.fabric.wire_is_up == is_up) return;
    config_.fabric.wire_is_up = is_up;
    Log(is_up ? "the port is up" : "the port is down");
    ForEachClient([&](Session& session) { session.TellPortState(is_up); });
  });
}

void Server::OnGids(const std::vector<transport::Gid>& gids) {
  boost::asio::post(io_, [this, gids] {
    config_.fabric.gids = gids;
    Log("addresses of the port came or went: 'uroce status' lists them");
    ForEachClient([](Session& session) { session.TellAddresses(); });
  });
}

void Server::OnNotice(const transport::Gid& about, const std::string& sentence) {
  boost::asio::post(io_, [this, about, sentence] {
    Log(sentence);
    ForEachClient([&](Session& session) { session.TellNotice(about, sentence); });
  });
}

void Server::OnWireSockets() {
  boost::asio::post(io_, [this] { ForEachClient([](Session& session) { session.ShareWire(); }); });
}

void Server::OnBrokenUplink(Block block) {
  boost::asio::post(io_, [this, block] {
    const Session* const client = FindClient(block);
    if (client == nullptr) return;
    Log("process " + std::to_string(client->pid()) + " of user " + std::to_string(client->uid()) +
        " wrote what makes no sense into its link to the wire: it was cut off");
  });
}

}  // namespace uroce::nic::control
