#include "verbs_provider/data_path/work_requests.h"

#include <cerrno>

#include "verbs_provider/abi/newer_verbs.h"
#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/base/translate.h"
#include "verbs_provider/data_path/work_request_chain.h"
#include "verbs_provider/objects/address_handle.h"
#include "verbs_provider/objects/queue_pair.h"

namespace uroce::verbs {
namespace {

using transport::SendOpcode;
using transport::SendWorkRequest;

int SetOperation(const ibv_send_wr& wr, SendWorkRequest& request) {
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
    case abi::kWrAtomicWrite:  // no FLUSH: ibv_send_wr has no fields for it
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
      return SetBinding(wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info, request);
    default:
      return EINVAL;
  }
  request.opcode = static_cast<SendOpcode>(wr.opcode);
  return 0;
}

// Nearly all requests of RC: a SEND or WRITE of one piece.
bool IsPlain(const QueuePair& qp, const ibv_send_wr& wr) {
  constexpr unsigned int kPlain = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
  const uint32_t opcode = RawValue(wr.opcode);
  return (opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_SEND) && (wr.send_flags & ~kPlain) == 0 &&
         wr.num_sge == 1 && wr.sg_list->length != 0 && qp.verbs.qp.qp_type == IBV_QPT_RC;
}

int PostPlain(const nic::Engine::Verb& verb, const QueuePair& qp, const ibv_send_wr& wr) {
  const ibv_sge& piece = *wr.sg_list;
  const transport::PlainSendRequest request = {
      .opcode = static_cast<SendOpcode>(wr.opcode),
      .signaled = (wr.send_flags & IBV_SEND_SIGNALED) != 0,
      .solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0,
      .wr_id = wr.wr_id,
      .piece = {piece.addr, piece.length, transport::LKey{piece.lkey}},
      .remote_address = wr.wr.rdma.remote_addr,
      .rkey = transport::RKey{wr.wr.rdma.rkey}};
  return static_cast<int>(qp.engine->PostSend(verb, *qp.transport, request));
}

int PostOne(const nic::Engine::Verb& verb, const QueuePair& qp, const ibv_send_wr& wr) {
  if (IsPlain(qp, wr)) [[likely]]
    return PostPlain(verb, qp, wr);
  SendWorkRequest request;
  SgeList sges;
  request.wr_id = wr.wr_id;
  if (const int error = SetOperation(wr, request)) return error;
  if (const int error = ApplySendFlags(wr.send_flags, request)) return error;
  // The other operations have no address: their members of `wr.wr` lie in the same bytes.
  const bool is_datagram =
      request.opcode == SendOpcode::kSend || request.opcode == SendOpcode::kSendWithImmediate;
  if (qp.verbs.qp.qp_type == IBV_QPT_UD && is_datagram) {
    const auto& ud = wr.wr.ud;
    if (const int error = SetDestination(qp, ud.ah, ud.remote_qpn, ud.remote_qkey, request)) {
      return error;
    }
  }
  if (qp.verbs.qp.qp_type == IBV_QPT_XRC_SEND) {
    request.remote_srqn = ToSrqn(wr.qp_type.xrc.remote_srqn);
  }
  if (!transport::IsLocal(request.opcode)) {
    if (!sges.Assign(wr.sg_list, wr.num_sge)) return EINVAL;
    request.sges = sges.entries();
  }
  const transport::Status status = qp.engine->PostSend(verb, *qp.transport, request);
  const bool is_bound =
      request.opcode == SendOpcode::kBindWindow && status == transport::Status::kOk;
  if (is_bound) wr.bind_mw.mw->rkey = BoundKey(*wr.bind_mw.mw, request);
  return static_cast<int>(status);
}

}  // namespace

uint32_t BoundKey(const ibv_mw& window, const SendWorkRequest& request) {
  constexpr uint32_t kTagMask = 0xff;
  return (window.rkey & ~kTagMask) | (request.rkey.value & kTagMask);
}

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

int SetBinding(const ibv_mw* window, uint32_t new_rkey, const ibv_mw_bind_info& info,
               SendWorkRequest& request) {
  // The other access flags of regions mean nothing for a window.
  constexpr unsigned int kWindowAccess = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                         IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED |
                                         abi::kAccessFlushGlobal;
  if (info.mr == nullptr && (info.addr != 0 || info.length != 0)) return EINVAL;
  // As for a region: plain memory is not persistent.
  if ((info.mw_access_flags & abi::kAccessFlushPersistent) != 0) return EINVAL;
  request.opcode = SendOpcode::kBindWindow;
  request.rkey = transport::RKey{new_rkey};
  request.window = {
      .present_rkey = transport::RKey{window->rkey},
      .region = transport::LKey{info.mr == nullptr ? 0 : info.mr->lkey},
      .address = info.addr,
      .length = info.length,
      .access = ToAccessFlags(info.mw_access_flags & kWindowAccess),
  };
  return 0;
}

int SetDestination(const QueuePair& qp, ibv_ah* verbs, uint32_t remote_qpn, uint32_t remote_qkey,
                   SendWorkRequest& request) {
  if (verbs == nullptr) return EINVAL;
  const AddressHandle& ah = AddressHandle::From(verbs);
  request.address = &ah.address;
  request.has_foreign_address = ah.pd != qp.pd;
  request.remote_qpn = transport::Qpn{remote_qpn & transport::kMaxQpn};  // as NICs do
  request.remote_qkey = remote_qkey;
  return 0;
}

int PostSend(ibv_qp* verbs, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  const QueuePair& qp = QueuePair::From(verbs);
  return PostChain(*qp.device, *qp.engine, wr, bad_wr,
                   [&](const nic::Engine::Verb& verb, const ibv_send_wr& one) {
                     return PostOne(verb, qp, one);
                   });
}

int PostRecv(ibv_qp* verbs, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  const QueuePair& qp = QueuePair::From(verbs);
  return PostReceiveChain(*qp.device, *qp.engine, *qp.transport, wr, bad_wr,
                          &transport::QueuePair::PostReceive);
}

}  // namespace uroce::verbs
