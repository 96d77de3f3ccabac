#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "transport/endpoint_state.h"

namespace uroce::nic {

// The state of a process's endpoint in memory that it shares for others to look at: live, without
// its doing anything for it. Sealed, so that no other process can map it for writing and that it
// cannot shrink under a reader.
class PublishedState {
 public:
  // nullptr with errno set: no memory, or a kernel before Linux 5.1.
  static std::unique_ptr<PublishedState> Create();
  ~PublishedState();
  PublishedState(const PublishedState&) = delete;
  PublishedState& operator=(const PublishedState&) = delete;

  transport::EndpointState* endpoint() const { return endpoint_; }
  // In a forked child: what it changes from now on is changed in a copy of its own. Only
  // async-signal-safe calls.
  void AbandonAfterFork();
  // What readers are given.
  int fd() const { return fd_.get(); }

 private:
  PublishedState(UniqueFd fd, transport::EndpointState* endpoint)
      : fd_(std::move(fd)), endpoint_(endpoint) {}

  UniqueFd fd_;
  transport::EndpointState* endpoint_;
};

// A look at the state of another process. Every field may change at any time and hold any value.
class PublishedStateView {
 public:
  // nullptr with errno set; EPROTO if the memory has another size or is not sealed.
  static std::unique_ptr<PublishedStateView> Open(UniqueFd fd);
  ~PublishedStateView();
  PublishedStateView(const PublishedStateView&) = delete;
  PublishedStateView& operator=(const PublishedStateView&) = delete;

  const transport::EndpointState& endpoint() const { return *endpoint_; }
  // Copies of the records that there are, made where the process ever had a queue pair: memory that
  // is only looked at is allocated, too, and it is the process's.
  std::vector<transport::QueuePairRecord> QueuePairs() const;

 private:
  PublishedStateView(UniqueFd fd, const transport::EndpointState* endpoint)
      : fd_(std::move(fd)), endpoint_(endpoint) {}

  const UniqueFd fd_;
  const transport::EndpointState* const endpoint_;
};

}  // namespace uroce::nic
