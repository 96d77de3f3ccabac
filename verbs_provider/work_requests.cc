#include "verbs_provider/work_requests.h"

#include <cerrno>
#include <cstddef>
#include <new>
#include <span>

#include "transport/endpoint.h"
#include "transport/limits.h"
#include "verbs_provider/c_boundary.h"
#include "verbs_provider/queue_pair.h"
#include "verbs_provider/translate.h"

namespace uroce::verbs {
namespace {

using transport::ScatterGatherEntry;
using transport::SendOpcode;
using transport::SendWorkRequest;

// The scatter/gather entries of one work request in the transport's form. Plain bytes underneath,
// as constructing the longest possible list each time would cost more than most lists.
class SgeList {
 public:
  // False if there are more entries than any queue takes.
  bool Assign(const ibv_sge* list, int count) {
    if (count < 0 || static_cast<uint32_t>(count) > transport::kMaxSges) return false;
    count_ = static_cast<size_t>(count);
    for (size_t i = 0; i < count_; ++i) {
      new (storage_ + i * sizeof(ScatterGatherEntry))
          ScatterGatherEntry{list[i].addr, list[i].length, transport::LKey{list[i].lkey}};
    }
    return true;
  }
  std::span<const ScatterGatherEntry> entries() const {
    return {std::launder(reinterpret_cast<const ScatterGatherEntry*>(storage_)), count_};
  }

 private:
  size_t count_ = 0;
  alignas(ScatterGatherEntry) std::byte storage_[transport::kMaxSges * sizeof(ScatterGatherEntry)];
};

int SetOperation(const QueuePair& qp, const ibv_send_wr& wr, SendWorkRequest& request) {
  switch (RawValue(wr.opcode)) {
    case IBV_WR_SEND:
      break;
    case IBV_WR_SEND_WITH_IMM:
      request.immediate = wr.imm_data;
      break;
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_LOCAL_INV:
      request.invalidate_rkey = transport::RKey{wr.invalidate_rkey};
      break;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      request.immediate = wr.imm_data;
      [[fallthrough]];
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_READ:
      request.remote_address = wr.wr.rdma.remote_addr;
      request.rkey = transport::RKey{wr.wr.rdma.rkey};
      break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      request.remote_address = wr.wr.atomic.remote_addr;
      request.rkey = transport::RKey{wr.wr.atomic.rkey};
      request.compare_or_add = wr.wr.atomic.compare_add;
      request.swap = wr.wr.atomic.swap;
      break;
    case IBV_WR_BIND_MW:
      // ibv_bind_mw is the way to bind a window of type 1.
      if (wr.bind_mw.mw == nullptr || wr.bind_mw.mw->type != IBV_MW_TYPE_2) return EINVAL;
      return SetBinding(qp, wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info, request);
    default:
      return EINVAL;
  }
  request.opcode = static_cast<SendOpcode>(wr.opcode);
  return 0;
}

int PostOne(const QueuePair& qp, const ibv_send_wr& wr) {
  SendWorkRequest request;
  SgeList sges;
  request.wr_id = wr.wr_id;
  if (const int error = SetOperation(qp, wr, request)) return error;
  if (const int error = ApplySendFlags(wr.send_flags, request)) return error;
  if (!transport::IsLocal(request.opcode)) {
    if (!sges.Assign(wr.sg_list, wr.num_sge)) return EINVAL;
    request.sges = sges.entries();
  }
  return static_cast<int>(qp.transport->PostSend(request));
}

int PostOne(const QueuePair& qp, const ibv_recv_wr& wr) {
  SgeList sges;
  if (!sges.Assign(wr.sg_list, wr.num_sge)) return EINVAL;
  return static_cast<int>(qp.transport->PostReceive({.wr_id = wr.wr_id, .sges = sges.entries()}));
}

template <class WorkRequest>
int PostChain(ibv_qp* verbs, WorkRequest* wr, WorkRequest** bad_wr) {
  const QueuePair& qp = QueuePair::From(verbs);
  if (qp.device->lost_by_fork()) {
    *bad_wr = wr;
    return EIO;
  }
  return qp.device->engine().WithEndpoint([&](transport::Endpoint&) {
    for (; wr != nullptr; wr = wr->next) {
      if (const int error = PostOne(qp, *wr)) {
        *bad_wr = wr;
        return error;
      }
    }
    return 0;
  });
}

}  // namespace

int ApplySendFlags(unsigned int flags, SendWorkRequest& request) {
  constexpr unsigned int kKnown =
      IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
  if ((flags & ~kKnown) != 0) return EINVAL;
  request.fence = (flags & IBV_SEND_FENCE) != 0;
  request.signaled = (flags & IBV_SEND_SIGNALED) != 0;
  request.solicited = (flags & IBV_SEND_SOLICITED) != 0;
  request.inline_data = (flags & IBV_SEND_INLINE) != 0;
  return 0;
}

int SetBinding(const QueuePair& qp, const ibv_mw* window, uint32_t new_rkey,
               const ibv_mw_bind_info& info, SendWorkRequest& request) {
  constexpr unsigned int kWindowAccess = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                         IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED;
  if ((info.mw_access_flags & ~kWindowAccess) != 0) return EINVAL;
  if (info.mr == nullptr && (info.addr != 0 || info.length != 0)) return EINVAL;
  if (window->pd != qp.verbs.qp.pd) return EPERM;
  if (info.mr != nullptr && info.mr->pd != window->pd) return EPERM;
  request.opcode = SendOpcode::kBindWindow;
  request.rkey = transport::RKey{new_rkey};
  request.window = {
      .present_rkey = transport::RKey{window->rkey},
      .region = transport::LKey{info.mr == nullptr ? 0 : info.mr->lkey},
      .address = info.addr,
      .length = info.length,
      .access = ToAccessFlags(info.mw_access_flags),
  };
  return 0;
}

int PostSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  return PostChain(qp, wr, bad_wr);
}

int PostRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  return PostChain(qp, wr, bad_wr);
}

}  // namespace uroce::verbs
