#include "dpdk_nic/port/dpdk/eal/log_buffer.h"

#include <algorithm>

namespace uroce::nic {
namespace {

std::string_view WithoutFunctionName(std::string_view line) {
  const size_t end = line.find("(): ");
  if (end == std::string_view::npos) return line;
  if (line.substr(0, end).find(' ') != std::string_view::npos) return line;
  return line.substr(end + 4);
}

}  // namespace

void LogBuffer::Append(std::string_view text) {
  const MutexLock lock(mutex_);
  for (char c : text) {
    if (c == '\n') {
      FinishLine();
    } else if (partial_.size() < kMaxLineBytes) {
      partial_.push_back(c);
    }
  }
}

void LogBuffer::FinishLine() {
  if (partial_.empty()) return;
  if (lines_.size() == kMaxLines) lines_.pop_front();
  lines_.push_back(std::move(partial_));
  partial_.clear();
}

void LogBuffer::Clear() {
  const MutexLock lock(mutex_);
  partial_.clear();
  lines_.clear();
}

std::string LogBuffer::LastLines(size_t count) const {
  const MutexLock lock(mutex_);
  std::string joined;
  const size_t first = lines_.size() - std::min(count, lines_.size());
  for (size_t i = first; i < lines_.size(); ++i) {
    if (!joined.empty()) joined += "; ";
    joined += WithoutFunctionName(lines_[i]);
  }
  return joined;
}

}  // namespace uroce::nic
