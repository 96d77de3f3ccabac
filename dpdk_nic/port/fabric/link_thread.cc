#include "dpdk_nic/port/fabric/link_thread.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dpdk_nic/base/log.h"
#include "transport/time.h"

namespace uroce::nic {

LinkThread::LinkThread(Mode mode) : mode_(mode), results_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

LinkThread::~LinkThread() {
  if (!is_running_) return;
  stopping_.store(true, std::memory_order_relaxed);
  thread_.Wake();
  thread_.Join();
}

void LinkThread::Make() {
  {
    const MutexLock lock(mutex_);
    ++to_make_;
  }
  Submit();
}

void LinkThread::Accept(Offered offered) {
  {
    const MutexLock lock(mutex_);
    const auto same = std::find_if(to_accept_.begin(), to_accept_.end(), [&](const Offered& other) {
      return other.route == offered.route;
    });
    if (same != to_accept_.end()) {
      *same = std::move(offered);
    } else {
      to_accept_.push_back(std::move(offered));
    }
  }
  Submit();
}

void LinkThread::Destroy(std::unique_ptr<RingLink> link) {
  {
    const MutexLock lock(mutex_);
    to_destroy_.push_back(std::move(link));
  }
  Submit();
}

void LinkThread::Log(std::string sentence) {
  {
    const MutexLock lock(mutex_);
    if (to_log_.size() == kMaxSentences) return;
    to_log_.push_back(std::move(sentence));
  }
  Submit();
}

// If the thread cannot be started, as when the system has none left, the caller does the work.
void LinkThread::Submit() {
  if (mode_ == Mode::kThread && !is_running_) {
    is_running_ = thread_.Start("uroce-links", [this] { Run(); }) == 0;
  }
  if (is_running_) return thread_.Wake();
  while (DoOneJob()) {
  }
}

void LinkThread::Run() {
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (!DoOneJob()) thread_.Wait(-1, -1, transport::kNever);
  }
}

bool LinkThread::DoOneJob() {
  const MutexLock working(working_);
  return MakeOne() || AcceptOne() || DestroyOne() || LogOne();
}

bool LinkThread::MakeOne() {
  {
    const MutexLock lock(mutex_);
    if (to_make_ == 0) return false;
    --to_make_;
  }
  Made made;
  made.offer = RingLink::Create();
  if (!made.offer) made.error = errno;
  const MutexLock lock(mutex_);
  made_.push_back(std::move(made));
  TellResult();
  return true;
}

bool LinkThread::AcceptOne() {
  Offered offered;
  {
    const MutexLock lock(mutex_);
    if (to_accept_.empty()) return false;
    offered = std::move(to_accept_.front());
    to_accept_.pop_front();
  }
  Accepted accepted{.route = offered.route, .number = offered.number, .link = nullptr};
  accepted.link = RingLink::Accept(std::move(offered.memory), std::move(offered.socket));
  if (accepted.link == nullptr) accepted.error = errno;
  const MutexLock lock(mutex_);
  accepted_.push_back(std::move(accepted));
  TellResult();
  return true;
}

bool LinkThread::DestroyOne() {
  std::unique_ptr<RingLink> link;  // unmapped when the lock has been released
  const MutexLock lock(mutex_);
  if (to_destroy_.empty()) return false;
  link = std::move(to_destroy_.back());
  to_destroy_.pop_back();
  return true;
}

bool LinkThread::LogOne() {
  std::string sentence;
  {
    const MutexLock lock(mutex_);
    if (to_log_.empty()) return false;
    sentence = std::move(to_log_.front());
    to_log_.pop_front();
  }
  nic::Log(LogLevel::kWarning, sentence);
  return true;
}

void LinkThread::TellResult() {
  if (mode_ == Mode::kInline) return;  // the caller takes it at once
  [[maybe_unused]] const int result = eventfd_write(results_.get(), 1);
}

void LinkThread::DrainResultsFd() {
  eventfd_t results;
  [[maybe_unused]] const int result = eventfd_read(results_.get(), &results);
}

std::optional<LinkThread::Made> LinkThread::TakeMade() {
  const MutexLock lock(mutex_);
  if (made_.empty()) return std::nullopt;
  // Not a local Made: g++ takes what TSan adds to it for uninitialised.
  auto made = std::make_optional(std::move(made_.front()));
  made_.pop_front();
  return made;
}

std::optional<LinkThread::Accepted> LinkThread::TakeAccepted() {
  const MutexLock lock(mutex_);
  if (accepted_.empty()) return std::nullopt;
  Accepted accepted = std::move(accepted_.front());
  accepted_.pop_front();
  return accepted;
}

void LinkThread::AbandonAfterFork() {
  for (Offered& offered : to_accept_) {
    offered.memory.reset();
    offered.socket.reset();
  }
  for (Made& made : made_) {
    if (!made.offer) continue;
    made.offer->link->Abandon();
    made.offer->memory.reset();
    made.offer->socket.reset();
  }
  for (Accepted& accepted : accepted_) {
    if (accepted.link != nullptr) accepted.link->Abandon();
  }
  results_.reset();
}

}  // namespace uroce::nic
