#include "dpdk_nic/control/send_backlog.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>

namespace uroce::nic::control {

// Not cleared: most connections never touch it, and untouched memory costs nothing.
SendBacklog::SendBacklog() : bytes_(new uint8_t[kMaxBacklogBytes]) {}

bool SendBacklog::Append(std::span<const uint8_t> bytes, std::span<const int> fds) {
  if (bytes.size() > kMaxBacklogBytes - (end_ - begin_)) return false;
  if (!fds.empty() && (count_ == kMaxAttachments || fds.size() > kMaxDescriptors)) return false;
  if (bytes.size() > kMaxBacklogBytes - end_) {
    memmove(bytes_.get(), bytes_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (!fds.empty()) {
    Attachment added{consumed_ + (end_ - begin_), {}, fds.size()};
    for (size_t i = 0; i < fds.size(); ++i) {
      added.fds[i].reset(fcntl(fds[i], F_DUPFD_CLOEXEC, 0));
      if (!added.fds[i]) return false;
    }
    attachment(count_++) = std::move(added);
  }
  std::copy(bytes.begin(), bytes.end(), bytes_.get() + end_);
  end_ += bytes.size();
  return true;
}

SendBacklog::Run SendBacklog::Front() const {
  Run run;
  run.bytes = {bytes_.get() + begin_, end_ - begin_};
  size_t next = 0;
  if (count_ > 0 && attachment(0).position == consumed_) {
    run.fd_count = attachment(0).fd_count;
    for (size_t i = 0; i < run.fd_count; ++i) run.fds[i] = attachment(0).fds[i].get();
    next = 1;
  }
  if (next < count_) run.bytes = run.bytes.first(attachment(next).position - consumed_);
  return run;
}

void SendBacklog::Consume(size_t bytes) {
  if (bytes == 0) return;
  if (count_ > 0 && attachment(0).position == consumed_) {
    attachment(0) = {};
    oldest_ = (oldest_ + 1) % kMaxAttachments;
    --count_;
  }
  begin_ += bytes;
  consumed_ += bytes;
  if (begin_ == end_) begin_ = end_ = 0;
}

void SendBacklog::Clear() {
  attachments_ = {};
  count_ = 0;
  consumed_ += end_ - begin_;
  begin_ = end_ = 0;
}

}  // namespace uroce::nic::control
