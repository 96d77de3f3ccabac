#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/qp_attributes.h"

namespace uroce::packet_scripts {

inline constexpr transport::QpType kServices[] = {
    transport::QpType::kReliableConnection,
    transport::QpType::kUnreliableConnection,
    transport::QpType::kUnreliableDatagram,
};

constexpr std::string_view Name(transport::QpType type) {
  constexpr std::string_view kNames[] = {"RC", "UC", "UD"};
  return kNames[static_cast<int>(type) - 2];
}

constexpr std::string_view Name(transport::QpState state) {
  constexpr std::string_view kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return kNames[static_cast<int>(state)];
}

using ServiceState = std::pair<transport::QpType, transport::QpState>;

// Every state of every service: 20, because RC has no SQE (IBA 10.3.1.6).
inline std::vector<ServiceState> EveryState() {
  std::vector<ServiceState> all;
  for (const transport::QpType type : kServices) {
    for (int i = 0; i < transport::kQpStates; ++i) {
      const auto state = static_cast<transport::QpState>(i);
      if (type == transport::QpType::kReliableConnection &&
          state == transport::QpState::kSendQueueError) {
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

}  // namespace uroce::packet_scripts
