#include "tests/verbs_provider/verbs_objects.h"

#include <poll.h>

#include <chrono>
#include <cstring>
#include <string_view>

namespace uroce::verbs::testing {

Context OpenUroce() {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  Context context;
  for (int i = 0; i < count; ++i) {
    if (std::string_view(ibv_get_device_name(list[i])) == "uroce0") {
      context.reset(ibv_open_device(list[i]));
    }
  }
  ibv_free_device_list(list);
  EXPECT_NE(context, nullptr) << "uroce0 is not there or cannot be opened";
  return context;
}

Host::Host(size_t buffer_bytes, int access)
    : context(OpenUroce()), pd(ibv_alloc_pd(context.get())), buffer(buffer_bytes) {
  EXPECT_NE(pd, nullptr);
  mr.reset(ibv_reg_mr(pd.get(), buffer.data(), buffer.size(), access));
  EXPECT_NE(mr, nullptr);
}

Cq Host::CreateCq(int entries, ibv_comp_channel* channel) {
  Cq cq(ibv_create_cq(context.get(), entries, this, channel, 0));
  EXPECT_NE(cq, nullptr);
  return cq;
}

ibv_qp_init_attr RcAttributes(ibv_cq* send_cq, ibv_cq* receive_cq) {
  return Attributes(IBV_QPT_RC, send_cq, receive_cq);
}

ibv_qp_init_attr_ex ExtendedAttributes(ibv_pd* pd, const ibv_qp_init_attr& basic,
                                       uint64_t operations) {
  ibv_qp_init_attr_ex attr = {};
  std::memcpy(&attr, &basic, sizeof basic);  // `attr` begins with the members of `basic`
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = pd;
  attr.send_ops_flags = operations;
  return attr;
}

ibv_qp_init_attr Attributes(ibv_qp_type type, ibv_cq* send_cq, ibv_cq* receive_cq, ibv_srq* srq) {
  ibv_qp_init_attr attr = {};
  attr.send_cq = send_cq;
  attr.recv_cq = receive_cq;
  attr.cap = {.max_send_wr = 16,
              .max_recv_wr = 16,
              .max_send_sge = 4,
              .max_recv_sge = 4,
              .max_inline_data = 64};
  attr.srq = srq;
  attr.qp_type = type;
  return attr;
}

int ToInit(ibv_qp* qp, const ConnectOptions& options) {
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = options.access;
  attr.qkey = options.qkey;
  const int own = qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | own);
}

int ToRtr(ibv_qp* qp, uint32_t peer_qpn, const ibv_gid& peer_gid, const ConnectOptions& options) {
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = options.mtu;
  attr.dest_qp_num = peer_qpn;
  attr.rq_psn = options.rq_psn;
  attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = options.min_rnr_timer;
  attr.ah_attr = AddressOf(peer_gid, options.gid_index);
  attr.ah_attr.grh.hop_limit = options.hop_limit;
  int mask = IBV_QP_STATE;
  if (qp->qp_type != IBV_QPT_UD) {
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  }
  if (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_RECV) {
    mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  }
  return ibv_modify_qp(qp, &attr, mask);
}

int ToRts(ibv_qp* qp, const ConnectOptions& options) {
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = options.sq_psn;
  attr.timeout = options.timeout;
  attr.retry_cnt = options.retry_count;
  attr.rnr_retry = options.rnr_retry;
  attr.max_rd_atomic = 4;
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (qp->qp_type == IBV_QPT_XRC_RECV) mask |= IBV_QP_TIMEOUT;
  if (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_SEND) {
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  return ibv_modify_qp(qp, &attr, mask);
}

void ConnectLoopback(ibv_qp* a, ibv_qp* b, const ConnectOptions& options) {
  ibv_gid gid = {};
  ASSERT_EQ(ibv_query_gid(a->context, 1, options.gid_index, &gid), 0);
  ConnectOptions reverse = options;
  std::swap(reverse.sq_psn, reverse.rq_psn);
  ASSERT_EQ(ToInit(a, options), 0);
  ASSERT_EQ(ToInit(b, reverse), 0);
  ASSERT_EQ(ToRtr(a, b->qp_num, gid, options), 0);
  ASSERT_EQ(ToRtr(b, a->qp_num, gid, reverse), 0);
  ASSERT_EQ(ToRts(a, options), 0);
  ASSERT_EQ(ToRts(b, reverse), 0);
}

void BringUp(ibv_qp* qp, const ConnectOptions& options) {
  ASSERT_EQ(ToInit(qp, options), 0);
  ASSERT_EQ(ToRtr(qp, 0, {}, options), 0);
  ASSERT_EQ(ToRts(qp, options), 0);
}

ibv_ah_attr AddressOf(const ibv_gid& gid, uint8_t gid_index) {
  ibv_ah_attr attr = {};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.dgid = gid;
  attr.grh.sgid_index = gid_index;
  attr.grh.hop_limit = 64;
  return attr;
}

ibv_wc WaitForCompletion(ibv_cq* cq) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  ibv_wc wc;
  std::memset(&wc, 0xee, sizeof wc);
  while (std::chrono::steady_clock::now() < deadline) {
    const int count = ibv_poll_cq(cq, 1, &wc);
    EXPECT_GE(count, 0);
    if (count != 0) return wc;
  }
  ADD_FAILURE() << "no completion";
  return wc;
}

SendRequest::SendRequest(ibv_wr_opcode operation, const ibv_sge& sge, uint64_t id)
    : ibv_send_wr{}, piece(sge) {
  wr_id = id;
  sg_list = &piece;
  num_sge = sge.length == 0 ? 0 : 1;
  opcode = operation;
  send_flags = IBV_SEND_SIGNALED;
}

SendRequest& SendRequest::Remote(uint64_t address, uint32_t rkey) {
  if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr.atomic.remote_addr = address;
    wr.atomic.rkey = rkey;
  } else {
    wr.rdma.remote_addr = address;
    wr.rdma.rkey = rkey;
  }
  return *this;
}

SendRequest& SendRequest::To(ibv_ah* ah, uint32_t qpn, uint32_t qkey) {
  wr.ud.ah = ah;
  wr.ud.remote_qpn = qpn;
  wr.ud.remote_qkey = qkey;
  return *this;
}

int SendRequest::Post(ibv_qp* qp) {
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp, this, &bad);
  EXPECT_EQ(bad, error == 0 ? nullptr : this);
  return error;
}

namespace {

template <class Queue>
int PostOneReceive(Queue* queue, int (*post)(Queue*, ibv_recv_wr*, ibv_recv_wr**),
                   const ibv_sge& sge, uint64_t id) {
  ibv_sge piece = sge;
  ibv_recv_wr wr = {.wr_id = id, .next = nullptr, .sg_list = &piece, .num_sge = 1};
  if (sge.length == 0) wr.num_sge = 0;
  ibv_recv_wr* bad = nullptr;
  const int error = post(queue, &wr, &bad);
  EXPECT_EQ(bad, error == 0 ? nullptr : &wr);
  return error;
}

}  // namespace

int PostReceive(ibv_qp* qp, const ibv_sge& sge, uint64_t id) {
  return PostOneReceive(qp, ibv_post_recv, sge, id);
}

int PostReceive(ibv_srq* srq, const ibv_sge& sge, uint64_t id) {
  return PostOneReceive(srq, ibv_post_srq_recv, sge, id);
}

int Modify(ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr attr = {};
  attr.qp_state = state;
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

ibv_qp_attr Query(ibv_qp* qp) {
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &init), 0);
  return attr;
}

void ExpectAsyncEvent(ibv_context* context, ibv_event_type type, const void* object) {
  ibv_async_event event = {};
  ASSERT_EQ(ibv_get_async_event(context, &event), 0);
  EXPECT_EQ(event.event_type, type) << ibv_event_type_str(event.event_type);
  EXPECT_EQ(event.element.qp, object);  // a union of pointers
  ibv_ack_async_event(&event);
}

void ExpectNoAsyncEvent(ibv_context* context) {
  pollfd waiting = {.fd = context->async_fd, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&waiting, 1, 0), 0);
}

}  // namespace uroce::verbs::testing
