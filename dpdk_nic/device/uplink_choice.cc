#include "dpdk_nic/device/uplink_choice.h"

#include <arpa/inet.h>

#include <array>

#include "dpdk_nic/device/device_config.h"

namespace uroce::nic {
namespace {

using control::UplinkWish;

constexpr std::string_view kUdp = "udp";
constexpr std::string_view kWithAddress = "udp,address=";

}  // namespace

ErrorOr<UplinkChoice> UplinkChoice::Parse(std::string_view text) {
  if (text == "none") return UplinkChoice{.wish = UplinkWish::kNone};
  if (text == kUdp) return UplinkChoice{.wish = UplinkWish::kUdp};
  if (text.starts_with(kWithAddress)) {
    const auto address = ParseHostAddress(std::string(text.substr(kWithAddress.size())));
    if (address) return UplinkChoice{.wish = UplinkWish::kUdp, .address = *address};
  }
  return Error{"choose 'udp', or 'udp,address=ADDR' with an address of this host"};
}

std::string UplinkChoice::Text() const {
  if (address.IsZero()) return std::string(kUdp);
  std::array<char, INET6_ADDRSTRLEN> text;
  const bool v4 = address.IsIpv4Mapped();
  inet_ntop(v4 ? AF_INET : AF_INET6, address.bytes.data() + (v4 ? 12 : 0), text.data(),
            text.size());
  return std::string(kWithAddress) + text.data();
}

std::string UplinkChoice::OptionOfUroced() const {
  if (wish == UplinkWish::kAny) return {};
  return wish == UplinkWish::kNone ? "--no-uplink" : "--uplink=" + Text();
}

}  // namespace uroce::nic
