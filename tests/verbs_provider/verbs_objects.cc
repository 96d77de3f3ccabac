#include "tests/verbs_provider/verbs_objects.h"

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
  ibv_qp_init_attr attr = {};
  attr.send_cq = send_cq;
  attr.recv_cq = receive_cq;
  attr.cap = {.max_send_wr = 16,
              .max_recv_wr = 16,
              .max_send_sge = 4,
              .max_recv_sge = 4,
              .max_inline_data = 64};
  attr.qp_type = IBV_QPT_RC;
  return attr;
}

int ToInit(ibv_qp* qp, const ConnectOptions& options) {
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = options.access;
  return ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int ToRtr(ibv_qp* qp, uint32_t peer_qpn, const ibv_gid& peer_gid, const ConnectOptions& options) {
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = options.mtu;
  attr.dest_qp_num = peer_qpn;
  attr.rq_psn = options.rq_psn;
  attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = options.min_rnr_timer;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = peer_gid;
  attr.ah_attr.grh.sgid_index = options.gid_index;
  attr.ah_attr.grh.hop_limit = 64;
  return ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int ToRts(ibv_qp* qp, const ConnectOptions& options) {
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = options.sq_psn;
  attr.timeout = options.timeout;
  attr.retry_cnt = options.retry_count;
  attr.rnr_retry = options.rnr_retry;
  attr.max_rd_atomic = 4;
  return ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                           IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
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

ibv_wc WaitForCompletion(ibv_cq* cq) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
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

int SendRequest::Post(ibv_qp* qp) {
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp, this, &bad);
  EXPECT_EQ(bad, error == 0 ? nullptr : this);
  return error;
}

int PostReceive(ibv_qp* qp, const ibv_sge& sge, uint64_t id) {
  ibv_sge piece = sge;
  ibv_recv_wr wr = {.wr_id = id, .next = nullptr, .sg_list = &piece, .num_sge = 1};
  if (sge.length == 0) wr.num_sge = 0;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(qp, &wr, &bad);
  EXPECT_EQ(bad, error == 0 ? nullptr : &wr);
  return error;
}

}  // namespace uroce::verbs::testing
