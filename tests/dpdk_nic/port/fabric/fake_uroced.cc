#include "tests/dpdk_nic/port/fabric/fake_uroced.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <thread>

#include "dpdk_nic/control/status_messages.h"

namespace uroce::nic {

using control::ErrnoValue;
using transport::Gid;

FakeUroced::FakeUroced(const std::string& fabric, control::Welcome like)
    : listener_(control::FabricListener::Open(fabric)), like_(like) {
  EXPECT_TRUE(listener_) << fabric;
}

control::Welcome FakeUroced::LocalFabric() {
  control::Welcome welcome{};
  welcome.mtu_bytes = 4'200;
  return welcome;
}

control::Welcome FakeUroced::WiredFabric() {
  control::Welcome welcome{};
  welcome.mtu_bytes = 1'500;
  welcome.has_wire = welcome.wire_is_up = 1;
  welcome.mac = {2, 1, 1, 1, 1, 1};
  welcome.gid_count = 2;
  welcome.gids[0] = Gid::LinkLocal(welcome.mac);
  welcome.gids[1] = Gid::FromIpv4({10, 0, 0, 1});
  return welcome;
}

void FakeUroced::Serve() {
  while (true) {
    UniqueFd socket(accept4(listener_->fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) break;
    clients_.emplace_back(std::move(socket));
  }
  for (auto client = clients_.begin(); client != clients_.end();) {
    control::MessageChannel::Incoming message;
    auto status = control::MessageChannel::Status::kOk;
    while ((status = client->channel.Receive(message)) == control::MessageChannel::Status::kOk) {
      OnMessage(*client, message);
    }
    client->channel.Flush();
    const bool is_gone = status == control::MessageChannel::Status::kClosed;
    client = is_gone ? clients_.erase(client) : std::next(client);
  }
}

void FakeUroced::Attach(FabricPort& port) {
  std::atomic<bool> is_done = false;
  std::thread attaching([&] {
    const auto error = port.Attach();
    EXPECT_FALSE(error.has_value()) << error->sentence;
    is_done = true;
  });
  while (!is_done) Serve();
  attaching.join();
}

FakeUroced::Client& FakeUroced::client(control::Block block) {
  for (Client& client : clients_) {
    if (client.block == block) return client;
  }
  ADD_FAILURE() << "no client has block " << block;
  return clients_.front();
}

bool FakeUroced::has_client(control::Block block) const {
  for (const Client& client : clients_) {
    if (client.block == block) return true;
  }
  return false;
}

void FakeUroced::OnMessage(Client& client, control::MessageChannel::Incoming& message) {
  if (const auto hello = message.As<control::Hello>()) {
    OnHello(client, {control::kSwitchBlock, *hello});
  } else if (const auto resume = message.As<control::Resume>()) {
    OnHello(client, *resume);
  } else if (const auto request = message.As<control::LinkRequest>()) {
    OnLinkRequest(client, *request, message);
  } else if (const auto connection = message.As<control::Declare>()) {
    client.declared.push_back(*connection);
    const ErrnoValue error = declare_error ? declare_error(*connection) : 0;
    client.channel.Send(control::DeclareAnswer{connection->local, error, path_mtu_bytes});
  } else if (const auto forget = message.As<control::Forget>()) {
    client.forgotten.push_back(forget->local);
  } else if (const auto join = message.As<control::JoinGroup>()) {
    client.joined.push_back(join->group);
    const ErrnoValue error = join_error ? join_error(join->group) : 0;
    client.channel.Send(control::GroupAnswer{join->group, error});
  } else if (const auto listen = message.As<control::Listen>()) {
    const ErrnoValue error = listen_error ? listen_error(*listen) : 0;
    client.channel.Send(control::ListenAnswer{listen->claim, error, 0});
  } else if (const auto unlisten = message.As<control::Unlisten>()) {
    client.channel.Send(control::UnlistenAnswer{unlisten->claim});
  } else if (const auto domain = message.As<control::OpenXrcDomain>()) {
    client.opened.push_back(*domain);
    const bool resumes = !domain->key.IsZero();
    const auto key = resumes ? domain->key : transport::XrcKey{{1, 2, 3}};
    client.channel.Send(control::XrcDomainAnswer{domain->handle, key, xrc_error, 0});
  } else if (const auto closed = message.As<control::CloseXrcDomain>()) {
    client.closed.push_back(closed->handle);
    client.channel.Send(control::XrcDomainClosed{closed->handle});
  } else if (const auto leave = message.As<control::LeaveGroup>()) {
    client.left.push_back(leave->group);
  } else if (const auto resolve = message.As<control::Resolve>()) {
    client.resolved.push_back(resolve->gid);
  } else if (const auto lost = message.As<control::WireDrops>()) {
    client.drops = lost->drops;
  } else if (message.As<control::StatusRequest>()) {
    control::StatusDaemon status{};
    status.has_wire = like_.has_wire;
    status.wire_is_up = like_.wire_is_up;
    status.mtu_bytes = like_.mtu_bytes;
    status.mac = like_.mac;
    status.gid_count = like_.gid_count;
    status.gids = like_.gids;
    client.channel.Send(status);
  } else {
    ADD_FAILURE() << "message " << static_cast<int>(message.type);
  }
}

void FakeUroced::OnHello(Client& client, const control::Resume& said) {
  client.said = said;
  if (!refusal_.empty()) {
    control::Refused refused{EBUSY, {}};
    refusal_.copy(refused.sentence.data(), refused.sentence.size() - 1);
    client.channel.Send(refused);
    return;
  }
  client.block = said.block != control::kSwitchBlock ? said.block : next_block_++;
  control::Welcome welcome = like_;
  welcome.block = client.block;
  // Any descriptor serves as the claim: FakeUroced does not check the claim that a client shows.
  client.channel.Send(welcome, std::array<int, 1>{listener_->fd()});
}

void FakeUroced::OnLinkRequest(Client& client, const control::LinkRequest& request,
                               control::MessageChannel::Incoming& message) {
  client.requests.push_back(request.block);
  if (ignores_links) {
    for (UniqueFd& fd : message.fds) kept_.push_back(std::move(fd));
    return;
  }
  const ErrnoValue error = Link(client, request, message);
  client.channel.Send(control::LinkAnswer{request.block, error});
}

// An offer to the asker that it has not received yet counts as an offer of `request.block`: in the
// tests no third process asks at the same moment.
ErrnoValue FakeUroced::Link(Client& client, const control::LinkRequest& request,
                            control::MessageChannel::Incoming& message) {
  if (link_error) {
    if (const ErrnoValue error = link_error(client.block, request.block)) return error;
  }
  if (request.block == control::kSwitchBlock) {
    client.uplink = RingLink::Accept(std::move(message.fds[0]), std::move(message.fds[1]));
    EXPECT_NE(client.uplink, nullptr);
    return 0;
  }
  if (!has_client(request.block)) return EHOSTUNREACH;
  if (client.offers_sent != request.offers_received) return EALREADY;
  Client& other = this->client(request.block);
  ++other.offers_sent;
  const std::array<int, 2> fds = {message.fds[0].get(), message.fds[1].get()};
  EXPECT_TRUE(other.channel.Send(control::LinkOffer{client.block}, fds));
  return 0;
}

}  // namespace uroce::nic
