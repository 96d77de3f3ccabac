#include "tools/cli/fabric_status.h"

#include <arpa/inet.h>

#include <cstdio>

namespace uroce::cli {

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
