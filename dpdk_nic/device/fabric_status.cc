#include "dpdk_nic/device/fabric_status.h"

#include <poll.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "dpdk_nic/control/control_address.h"
#include "dpdk_nic/control/message_channel.h"

namespace uroce::nic {
namespace {

using control::MessageChannel;
using control::Refused;
using control::StatusClient;
using control::StatusDaemon;
using control::StatusEnd;
using control::StatusLink;
using control::StatusRequest;

// uroced gives a transient client five seconds.
constexpr int kTimeout_ms = 6'000;

Error Failure(const std::string& fabric, int error) {
  return {"the uroced of fabric '" + fabric + "' cannot be asked (" + strerror(error) +
          "): try again"};
}

std::optional<PublishedStateView::Snapshot> ReadEndpoint(UniqueFd published_state) {
  const auto view = PublishedStateView::Open(std::move(published_state));
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
  auto connection = control::ConnectToFabricWithRetry(fabric);
  if (!connection) return Error{control::WhyNotConnected(fabric, errno)};
  MessageChannel channel(std::move(connection->socket));
  channel.Send(StatusRequest{0});
  FabricStatus status;
  status.fabric = fabric;
  MessageChannel::Incoming incoming;
  while (true) {
    switch (channel.Receive(incoming)) {
      case MessageChannel::Status::kOk:
        if (const auto refused = incoming.As<Refused>())
          return Error{std::string(refused->sentence.data(),
                                   strnlen(refused->sentence.data(), refused->sentence.size()))};
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

}  // namespace uroce::nic
