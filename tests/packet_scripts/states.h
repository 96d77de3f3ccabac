#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/qp_attributes.h"

namespace uroce::transport::packet_scripts {

inline constexpr QpType kServices[] = {
    QpType::kReliableConnection,
    QpType::kUnreliableConnection,
    QpType::kUnreliableDatagram,
};

constexpr std::string_view Name(QpType type) {
  constexpr std::string_view kNames[] = {"RC", "UC", "UD"};
  return kNames[static_cast<int>(type) - 2];
}

constexpr std::string_view Name(QpState state) {
  constexpr std::string_view kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return kNames[static_cast<int>(state)];
}

using ServiceState = std::pair<QpType, QpState>;

// Every state of every service: 20, because RC has no SQE (IBA 10.3.1.6).
inline std::vector<ServiceState> EveryState() {
  std::vector<ServiceState> all;
  for (const QpType type : kServices) {
    for (int i = 0; i < kQpStates; ++i) {
      const auto state = static_cast<QpState>(i);
      if (type == QpType::kReliableConnection && state == QpState::kSendQueueError) {
        continue;
      }
      all.push_back({type, state});
    }
  }
  return all;
}

template <class Info>
std::string NameOfState(const Info& info) {
  return std::string(Name(info.param.first)) + '_' + std::string(Name(info.param.second));
}

}  // namespace uroce::transport::packet_scripts
