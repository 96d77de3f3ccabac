#include "dpdk_nic/port/fabric/fabric_query.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/control/control_address.h"
#include "dpdk_nic/control/message_channel.h"

namespace uroce::nic {
namespace {

using control::MessageChannel;
using transport::Milliseconds;
using transport::Time;

constexpr transport::Duration kTimeout = Milliseconds(5'000);

Error NoAnswer() { return {"uroced does not answer: end it and start it again"}; }

}  // namespace

ErrorOr<control::StatusDaemon> QueryFabric(const std::string& fabric) {
  auto connection = control::ConnectToFabricWithRetry(fabric);
  if (!connection) return Error{control::WhyNotConnected(fabric, errno)};
  MessageChannel channel(std::move(connection->socket));
  if (!channel.Send(control::StatusRequest{0})) return NoAnswer();
  const Time give_up = Now() + kTimeout;
  MessageChannel::Incoming incoming;
  while (true) {
    const MessageChannel::Status status = channel.Receive(incoming);
    if (const auto daemon = incoming.As<control::StatusDaemon>()) return *daemon;
    if (const auto refused = incoming.As<control::Refused>()) {
      const auto end = std::find(refused->sentence.begin(), refused->sentence.end(), '\0');
      return Error{std::string(refused->sentence.begin(), end)};
    }
    const transport::Duration left = give_up - Now();
    if (status != MessageChannel::Status::kNothing || left <= transport::Duration{0}) {
      return NoAnswer();
    }
    pollfd poll_fd{channel.fd(), POLLIN, 0};
    poll(&poll_fd, 1, static_cast<int>(left.ns / 1'000'000) + 1);
  }
}

}  // namespace uroce::nic
