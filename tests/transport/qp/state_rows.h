#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "transport/qp_attributes.h"

namespace uroce::transport {

// The tables of ibv_modify_qp (IBA 11.2.5.2; the manual page names the attributes), written in
// words, independently of the transport's tables: what may be set on which transition.
struct StateRow {
  QpState from;
  QpState to;
  std::string_view required;
  std::string_view optional;
};

// nullptr if there is no such transition.
const StateRow* FindRow(QpType type, QpState from, QpState to);

// One attribute of ibv_modify_qp.
struct Attribute {
  std::string_view name;
  uint32_t bit;
  // Copies the fields that ibv_query_qp shows after this attribute was set from `from`.
  void (*copy)(const QpAttributes& from, QpAttributes& to);
};

// All attributes but STATE.
std::span<const Attribute> AllAttributes();
// The bits of names with blanks between them.
uint32_t BitsOf(std::string_view names);
std::vector<uint32_t> SingleBits(uint32_t bits);

std::string_view Name(QpState state);
std::string_view Name(QpType type);

inline constexpr QpState kAllStates[] = {
    QpState::kReset,       QpState::kInit,           QpState::kReadyToReceive,
    QpState::kReadyToSend, QpState::kSendQueueDrain, QpState::kSendQueueError,
    QpState::kError,
};

}  // namespace uroce::transport
