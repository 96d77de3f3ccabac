#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/base/thread_annotations.h"
#include "transport/work_request.h"
#include "verbs_provider/abi/private_abi.h"

namespace uroce::verbs {

struct QueuePair;

// The batch of work requests that ibv_wr_start ... ibv_wr_complete build for one queue pair. It is
// posted as a whole or not at all.
//
// The lock is held from Start to Complete or Abort, as the interface demands. Complete returns the
// first error that occurred in between. The memory of a batch is kept for the next one.
class WorkRequestBuilder {
 public:
  explicit WorkRequestBuilder(QueuePair& qp) : qp_(qp) {}

  void Start() UROCE_ACQUIRE(lock_);
  // 0, or an errno value: nothing was posted then.
  int Complete() UROCE_RELEASE(lock_);
  void Abort() UROCE_RELEASE(lock_);

  // Adds a request with the wr_id and wr_flags of the ibv_qp_ex. The reference is good until the
  // next call; setters apply to the last request.
  transport::SendWorkRequest& Add(transport::SendOpcode opcode) noexcept;
  void AddBinding(ibv_mw* window, uint32_t new_rkey, const ibv_mw_bind_info& info) noexcept;
  void SetDestination(ibv_ah* ah, uint32_t remote_qpn, uint32_t remote_qkey) noexcept;
  void SetSrqn(uint32_t remote_srqn) noexcept;
  void SetSges(std::span<const ibv_sge> sges) noexcept;
  void SetInlineData(std::span<const ibv_data_buf> buffers) noexcept;

 private:
  // The entries of `sges_` of one request. Indices, because the vector moves while it grows.
  struct SgeRange {
    size_t first = 0;
    size_t count = 0;
  };

  // A window that the batch binds, and the key that it gets.
  struct BoundWindow {
    ibv_mw* window;
    uint32_t rkey;
  };

  void Fail(int error) {
    if (error_ == 0) error_ = error;
  }
  int Post();

  QueuePair& qp_;
  nic::Mutex lock_;
  int error_ = 0;
  std::vector<transport::SendWorkRequest> requests_;
  std::vector<SgeRange> sge_ranges_;                 // one per request
  std::vector<transport::ScatterGatherEntry> sges_;  // inline data: offset into inline_bytes_
  std::vector<uint8_t> inline_bytes_;
  std::vector<BoundWindow> windows_;
  transport::SendWorkRequest refused_;  // setters write here after an error
};

// The operations that IBV_QP_INIT_ATTR_SEND_OPS_FLAGS may name for a queue pair of this type and
// that the loaded libibverbs has.
uint64_t BuilderOperations(ibv_qp_type type);

// Sets the functions behind ibv_wr_* in `qp`, except those that the loaded libibverbs lacks.
void SetBuilderFunctions(abi::VerbsQp& qp);

}  // namespace uroce::verbs
