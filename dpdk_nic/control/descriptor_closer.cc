#include "dpdk_nic/control/descriptor_closer.h"

#include <system_error>
#include <thread>
#include <utility>

namespace uroce::nic::control {

DescriptorCloser::~DescriptorCloser() {
  const MutexLock lock(state_->mutex);
  state_->is_over = true;
  state_->changed.notify_all();
}

void DescriptorCloser::Close(UniqueFd fd) {
  if (!fd) return;
  const MutexLock lock(state_->mutex);
  state_->waiting.push_back(std::move(fd));
  state_->changed.notify_one();
  if (state_->waiting.size() <= state_->idle || state_->threads == kMaxThreads) return;
  try {
    std::thread(&DescriptorCloser::Run, state_).detach();
    ++state_->threads;
  } catch (const std::system_error&) {
    if (state_->threads == 0) state_->waiting.clear();
  }
}

void DescriptorCloser::Run(const std::shared_ptr<State>& state) {
  while (true) {
    UniqueFd fd;  // closed without the mutex
    const MutexLock lock(state->mutex);
    ++state->idle;
    while (state->waiting.empty() && !state->is_over) state->changed.wait(state->mutex);
    --state->idle;
    if (state->waiting.empty()) return;
    fd = std::move(state->waiting.front());
    state->waiting.pop_front();
  }
}

}  // namespace uroce::nic::control
