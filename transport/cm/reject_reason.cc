#include "transport/cm/reject_reason.h"

#include <array>
#include <cstddef>

namespace uroce::transport::cm {
namespace {

constexpr std::array<std::string_view, 36> kNames = {
    "",
    "no queue pair",
    "no EE context",
    "no resources",
    "timeout",
    "unsupported request",
    "invalid communication id",
    "invalid communication instance",
    "invalid service id",
    "invalid transport service type",
    "stale connection",
    "no RD channel",
    "invalid primary GID",
    "invalid primary LID",
    "invalid primary service level",
    "invalid primary traffic class",
    "invalid primary hop limit",
    "invalid primary packet rate",
    "invalid alternate GID",
    "invalid alternate LID",
    "invalid alternate service level",
    "invalid alternate traffic class",
    "invalid alternate hop limit",
    "invalid alternate packet rate",
    "communication manager redirected",
    "port redirected",
    "invalid path MTU",
    "insufficient responder resources",
    "rejected by the application",
    "invalid RNR retry count",
    "duplicate local communication id",
    "unsupported class version",
    "invalid primary flow label",
    "invalid alternate flow label",
    "",
    "vendor option not supported",
};

}  // namespace

std::string_view Name(RejectReason reason) {
  const auto index = static_cast<size_t>(reason);
  if (index >= kNames.size() || kNames[index].empty()) return "unknown reason";
  return kNames[index];
}

}  // namespace uroce::transport::cm
