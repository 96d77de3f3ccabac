#include "dpdk_nic/control/rate_limited_log.h"

#include <string>

namespace uroce::nic::control {

void RateLimitedLog::Write(transport::Time now, std::string_view line) {
  if (now >= interval_end_) {
    interval_end_ = now + kInterval;
    lines_ = 0;
    if (left_out_ > 0 && sink_(std::to_string(left_out_) + " lines were left out here")) {
      left_out_ = 0;
    }
  }
  if (lines_ < kLinesPerInterval && sink_(line)) {
    ++lines_;
  } else {
    ++left_out_;
  }
}

}  // namespace uroce::nic::control
