#include "tools/cli/fabric_status.h"

#include <arpa/inet.h>
#include <poll.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "dpdk_nic/control/control_address.h"
#include "dpdk_nic/control/message_channel.h"

namespace uroce::cli {
namespace {

using nic::Error;
using nic::ErrorOr;
using nic::control::MessageChannel;
using nic::control::Refused;
using nic::control::StatusClient;
using nic::control::StatusDaemon;
using nic::control::StatusEnd;
using nic::control::StatusLink;
using nic::control::StatusRequest;

// uroced gives a transient client five seconds.
constexpr int kTimeout_ms = 6'000;

Error Failure(const std::string& fabric, int error) {
  return {"the uroced of fabric '" + fabric + "' cannot be asked (" + strerror(error) +
          "): try again"};
}

std::optional<nic::PublishedStateView::Snapshot> ReadEndpoint(nic::UniqueFd published_state) {
  const auto view = nic::PublishedStateView::Open(std::move(published_state));
  if (view == nullptr) return std::nullopt;
  return view->Read();
}

// Returns whether it was the last message.
bool Take(MessageChannel::Incoming& incoming, FabricStatus* status) {
  if (const auto daemon = incoming.As<StatusDaemon>()) status->daemon = *daemon;
  if (const auto client = incoming.As<StatusClient>()) {
    status->clients.push_back({*client, ReadEndpoint(std::move(incoming.fds[0]))});
  }
  if (const auto link = incoming.As<StatusLink>()) status->links.push_back(*link);
  return incoming.As<StatusEnd>().has_value();
}

ErrorOr<FabricStatus> AskOnce(const std::string& fabric, bool* hung_up) {
  *hung_up = false;
  auto connection = nic::control::ConnectToFabricWithRetry(fabric);
  if (!connection) return Error{nic::control::WhyNotConnected(fabric, errno)};
  MessageChannel channel(std::move(connection->socket));
  channel.Send(StatusRequest{0});
  FabricStatus status;
  status.fabric = fabric;
  MessageChannel::Incoming incoming;
  while (true) {
    switch (channel.Receive(incoming)) {
      case MessageChannel::Status::kOk:
        if (const auto refused = incoming.As<Refused>()) return Error{TextOf(refused->sentence)};
        if (Take(incoming, &status)) return status;
        break;
      case MessageChannel::Status::kClosed:
        *hung_up = true;
        return Failure(fabric, ECONNRESET);
      case MessageChannel::Status::kNothing:
        pollfd poll_fd{channel.fd(), POLLIN, 0};
        if (poll(&poll_fd, 1, kTimeout_ms) != 1) return Failure(fabric, ETIMEDOUT);
        break;
    }
  }
}

}  // namespace

// A uroced that stops closes connections that it has not answered. Then no daemon serves the
// fabric, or another one does: asks again.
ErrorOr<FabricStatus> AskForStatus(const std::string& fabric) {
  constexpr int kTries = 3;
  bool hung_up = false;
  ErrorOr<FabricStatus> status = AskOnce(fabric, &hung_up);
  for (int tries = 1; hung_up && tries < kTries; ++tries) status = AskOnce(fabric, &hung_up);
  return status;
}

std::string TextOf(const transport::Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text;
  const bool v4 = gid.IsIpv4Mapped();
  return inet_ntop(v4 ? AF_INET : AF_INET6, gid.bytes.data() + (v4 ? 12 : 0), text.data(),
                   text.size());
}

std::string TextOf(const transport::MacAddress& mac) {
  std::array<char, 18> text;
  std::snprintf(text.data(), text.size(), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2],
                mac[3], mac[4], mac[5]);
  return text.data();
}

std::string NameOf(transport::QpType type) {
  switch (type) {
    case transport::QpType::kReliableConnection:
      return "RC";
    case transport::QpType::kUnreliableConnection:
      return "UC";
    case transport::QpType::kUnreliableDatagram:
      return "UD";
    case transport::QpType::kRawPacket:
      return "RAW_PACKET";
    case transport::QpType::kXrcSend:
      return "XRC_SEND";
    case transport::QpType::kXrcReceive:
      return "XRC_RECV";
  }
  return "?";
}

std::string NameOf(transport::QpState state) {
  constexpr std::array kNames = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  const auto index = static_cast<size_t>(state);
  return index < kNames.size() ? kNames[index] : "?";
}

uint32_t PathMtuBytes(transport::Mtu mtu) {
  return mtu >= transport::Mtu::k256 && mtu <= transport::Mtu::k4096 ? Bytes(mtu) : 0;
}

}  // namespace uroce::cli
