#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/port/port_drops.h"
#include "transport/endpoint_state.h"
#include "transport/time.h"

namespace uroce::nic {

// The state that a process publishes.
struct ProcessState {
  PortCounters port;  // at most kPortInterval old while the process runs
  transport::EndpointState endpoint;
};

// The state of a process in shared memory. Others read it live, without any work of its
// own. It is sealed: no other process can map it for writing, and it cannot shrink under a reader.
class PublishedState {
 public:
  // nullptr with errno set: no memory, or a kernel before Linux 5.1.
  static std::unique_ptr<PublishedState> Create();
  ~PublishedState();
  PublishedState(const PublishedState&) = delete;
  PublishedState& operator=(const PublishedState&) = delete;

  transport::EndpointState* endpoint() const { return &state_->endpoint; }
  // The time between two publications of the port's counters: the port asks the kernel for some.
  static constexpr transport::Duration kPortInterval = transport::Milliseconds(500);
  bool are_port_counters_due(transport::Time now) const { return now >= next_port_; }
  void SetPortCounters(transport::Time now, const PortCounters& counters) {
    next_port_ = now + kPortInterval;
    state_->port = counters;
  }
  // In a forked child, which from now on changes a private copy. Makes only async-signal-safe
  // calls.
  void AbandonAfterFork();
  // The descriptor that readers are given.
  int fd() const { return fd_.get(); }

 private:
  PublishedState(UniqueFd fd, ProcessState* state) : fd_(std::move(fd)), state_(state) {}

  UniqueFd fd_;
  ProcessState* state_;
  transport::Time next_port_;
};

// A read-only view of the state of another process. Every field may change at any time and hold any
// value.
class PublishedStateView {
 public:
  // nullptr with errno set; EPROTO if the memory has another size or is not sealed.
  static std::unique_ptr<PublishedStateView> Open(UniqueFd fd);
  ~PublishedStateView();
  PublishedStateView(const PublishedStateView&) = delete;
  PublishedStateView& operator=(const PublishedStateView&) = delete;

  const transport::EndpointState& endpoint() const { return state_->endpoint; }
  // Copies of the existing records. Reads only where the process ever had a queue pair: to read
  // elsewhere would allocate memory of the process.
  std::vector<transport::QueuePairRecord> QueuePairs() const;
  // One picture of all of it: no packet is missing in `counters` while a queue pair goes.
  struct Snapshot {
    transport::Counters counters;  // of all queue pairs, those that are gone included
    transport::cm::Counters connection_manager;
    transport::PeerCounters peers;
    PortCounters port;
    std::vector<transport::QueuePairRecord> queue_pairs;
  };
  Snapshot Read() const;

 private:
  PublishedStateView(UniqueFd fd, const ProcessState* state) : fd_(std::move(fd)), state_(state) {}

  const UniqueFd fd_;
  const ProcessState* const state_;
};

}  // namespace uroce::nic
