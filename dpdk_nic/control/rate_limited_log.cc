#include "dpdk_nic/control/rate_limited_log.h"

#include <string>

namespace uroce::nic::control {

void RateLimitedLog::Write(transport::Time now, std::string_view line) {
  if (now >= interval_end_) {
    if (left_out_ > 0) sink_(std::to_string(left_out_) + " lines were left out here");
    interval_end_ = now + kInterval;
    lines_ = 0;
    left_out_ = 0;
  }
  if (lines_ == kLinesPerInterval) {
    ++left_out_;
    return;
  }
  ++lines_;
  sink_(line);
}

}  // namespace uroce::nic::control
