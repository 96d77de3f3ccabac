#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/system/verbs/device.h"
#include "tests/system/verbs/handles.h"
#include "tests/system/verbs/rc_queue_pair.h"

namespace agent {

// The data with which a peer can connect to a connection and write to its buffer.
struct Address {
  system_test::QueuePairAddress queue_pair;
  uint64_t buffer;
  uint32_t rkey;
};

std::string ToString(const Address& address);  // Words separated by blanks.

struct Outcome {
  ibv_wc_status status;
  std::chrono::duration<double> duration;  // from the post to the completion
};

// A reliable connection with a buffer that its peer may write to.
class Connection {
 public:
  // Throws std::runtime_error, as every member does.
  explicit Connection(const system_test::Device& device);

  Address address() const;
  void Connect(const Address& peer, const system_test::RcSettings& settings);

  system_test::RcQueuePair& queue_pair() { return queue_pair_; }

  // Fills `bytes` bytes of our buffer with `value` and writes them to the peer's. Waits for the
  // completion.
  Outcome Write(uint8_t value, uint32_t bytes);
  // The bytes at the start of our buffer that have the value `value`.
  size_t CountLeading(uint8_t value) const;
  // Polls until the first `bytes` bytes of our buffer have the value `value`.
  void WaitForLeading(uint8_t value, uint32_t bytes);

 private:
  ibv_wc Await();

  static constexpr size_t kBufferBytes = size_t{1} << 20;

  std::vector<uint8_t> buffer_;
  system_test::DomainHandle domain_;
  system_test::RegionHandle region_;
  system_test::QueueHandle completions_;
  system_test::RcQueuePair queue_pair_;
  Address peer_{};
};

}  // namespace agent
