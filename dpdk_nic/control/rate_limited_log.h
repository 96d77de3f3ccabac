#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "transport/time.h"

namespace uroce::nic::control {

// Log lines for uroced's administrator. Other processes can cause them, so their number in a second
// is limited; the next line says how many were suppressed.
class RateLimitedLog {
 public:
  // Must not block; false: the line could not be written now.
  using Sink = std::function<bool(std::string_view line)>;

  static constexpr uint32_t kLinesPerInterval = 20;
  static constexpr transport::Duration kInterval = transport::Milliseconds(1'000);

  explicit RateLimitedLog(Sink sink) : sink_(std::move(sink)) {}

  void Write(transport::Time now, std::string_view line);

 private:
  const Sink sink_;
  transport::Time interval_end_{INT64_MIN};
  uint32_t lines_ = 0;     // of this interval
  uint64_t left_out_ = 0;  // since their number was last logged
};

}  // namespace uroce::nic::control
