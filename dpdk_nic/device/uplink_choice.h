#pragma once

#include <string>
#include <string_view>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/control/lease_messages.h"
#include "transport/ids.h"

namespace uroce::nic {

// The way out of the host that a fabric without a port of its own is to have.
struct UplinkChoice {
  // kAny: UDP sockets if the host has a network.
  control::UplinkWish wish = control::UplinkWish::kAny;
  transport::Gid address{};  // of the host, for UDP sockets; zero: all that it has

  // "udp", "udp,address=10.0.0.1" or "none". An error says what the text can be.
  static ErrorOr<UplinkChoice> Parse(std::string_view text);
  // The options of uroced that say the same, and the words in the description of a fabric: "udp".
  std::string OptionOfUroced() const;
  std::string Text() const;
};

}  // namespace uroce::nic
