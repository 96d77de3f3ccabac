#pragma once

#include <string>
#include <string_view>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/control/lease_messages.h"
#include "transport/ids.h"

namespace uroce::nic {

// The way out of the host that the user chose for a fabric without a port of its own.
struct UplinkChoice {
  // kAny: UDP sockets if the host has a network.
  control::UplinkWish wish = control::UplinkWish::kAny;
  transport::Gid address{};  // of the host, for UDP sockets; zero: all that it has

  // "udp", "udp,address=10.0.0.1" or "none". The error says what to choose.
  static ErrorOr<UplinkChoice> Parse(std::string_view text);
  // The option of uroced with the same meaning, and the text in the description of a fabric: "udp".
  std::string OptionOfUroced() const;
  std::string Text() const;
};

}  // namespace uroce::nic
