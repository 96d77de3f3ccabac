// One reliable connection in terms of libibverbs: a QP with its CQ and one registered buffer.
#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace live_query {

inline constexpr size_t kBufferBytes = size_t{4} << 20;
inline constexpr uint32_t kPsnMask = 0xffffff;

// Releases an object with its verb.
template <auto kRelease>
struct Releaser {
  template <typename Object>
  void operator()(Object* object) const {
    kRelease(object);
  }
};

// An opened RDMA device.
class Device {
 public:
  // `name` may be empty: the first device. Throws std::runtime_error.
  Device(const std::string& name, int gid_index);

  ibv_context* context() const { return context_.get(); }
  int gid_index() const { return gid_index_; }
  const ibv_gid& gid() const { return gid_; }
  const ibv_port_attr& port() const { return port_; }

 private:
  std::unique_ptr<ibv_context, Releaser<ibv_close_device>> context_;
  int gid_index_;
  ibv_gid gid_;
  ibv_port_attr port_;
};

// The data that one end needs of the other.
struct Endpoint {
  uint32_t qp_number;
  uint32_t psn;  // The first PSN that this end sends.
  ibv_gid gid;
  uint64_t buffer_address;
  uint32_t rkey;
};

std::string ToString(const Endpoint& endpoint);
Endpoint EndpointFromString(const std::string& text);  // Throws std::runtime_error.

// How long a requester waits for an answer (IBA 9.7.6.1.3): 4.096 us * 2^timeout, at most four
// times as long, and it repeats the request retry_count times.
struct RetryPolicy {
  uint8_t timeout;
  uint8_t retry_count;

  std::chrono::duration<double> AtLeast() const;
  std::chrono::duration<double> AtMost() const;
};

class RcConnection {
 public:
  // The QP is in RESET. Throws std::runtime_error, as every member does.
  explicit RcConnection(const Device& device);

  Endpoint local() const;

  void ToInit();
  void ToReadyToReceive(const Endpoint& peer);
  void ToReadyToSend(const RetryPolicy& policy);
  void ToReset();

  // Everything that ibv_query_qp reports.
  ibv_qp_attr Query() const;

  // Receives into the second half of the buffer.
  void PostReceive();

  // Posts one signaled request from `offset` of the buffer to the peer's buffer at `remote_offset`.
  // `operation` may be any that needs no immediate data; FETCH_AND_ADD adds 1.
  void Post(ibv_wr_opcode operation, size_t offset, size_t bytes, size_t remote_offset);

  // Takes one completion if there is one. Returns whether there was.
  bool Poll(ibv_wc* completion);

  // Waits for one completion, at most `limit`.
  ibv_wc Wait(std::chrono::seconds limit = std::chrono::seconds(60));

  std::span<std::byte> buffer() { return buffer_; }
  uint32_t mtu_bytes() const { return 128u << mtu_; }

 private:
  void Modify(ibv_qp_attr attributes, int mask, const char* state);

  const Device& device_;
  std::vector<std::byte> buffer_;
  ibv_mtu mtu_;
  uint32_t psn_;
  // Released in the opposite order.
  std::unique_ptr<ibv_pd, Releaser<ibv_dealloc_pd>> pd_;
  std::unique_ptr<ibv_mr, Releaser<ibv_dereg_mr>> mr_;
  std::unique_ptr<ibv_cq, Releaser<ibv_destroy_cq>> cq_;
  std::unique_ptr<ibv_qp, Releaser<ibv_destroy_qp>> qp_;
  Endpoint peer_{};
};

}  // namespace live_query
