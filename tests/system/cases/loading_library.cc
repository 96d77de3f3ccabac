#include "tests/system/cases/loading_library.h"

#include <infiniband/verbs.h>
#include <stdio.h>

#include <cstring>

// Plain verbs and no objects of C++ that destroy themselves: these are the moments before those of
// the program exist and after they are gone.
namespace uroce::verbs::testing {
namespace {

constexpr size_t kBytes = 4096;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

ibv_context* context;
ibv_pd* pd;
ibv_cq* cq;
ibv_mr* mr;
ibv_qp* qp;  // connected to itself
alignas(kBytes) char memory[kBytes];

bool Connect() {
  ibv_gid gid;
  if (ibv_query_gid(context, 1, 0, &gid) != 0) return false;
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = kAccess;
  if (ibv_modify_qp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) {
    return false;
  }
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = qp->qp_num;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = gid;
  attr.ah_attr.grh.hop_limit = 64;
  if (ibv_modify_qp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
    return false;
  }
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  return ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

bool Write() {
  ibv_sge piece = {reinterpret_cast<uint64_t>(memory), 64, mr->lkey};
  ibv_send_wr request = {};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(memory) + 2048;
  request.wr.rdma.rkey = mr->rkey;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(qp, &request, &bad) != 0) return false;
  ibv_wc wc;
  int count = 0;
  while (count == 0) count = ibv_poll_cq(cq, 1, &wc);
  return count == 1 && wc.status == IBV_WC_SUCCESS;
}

__attribute__((constructor)) void Open() {
  ibv_device** const list = ibv_get_device_list(nullptr);
  if (list == nullptr || list[0] == nullptr) return;
  context = ibv_open_device(list[0]);
  pd = ibv_alloc_pd(context);
  cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  mr = ibv_reg_mr(pd, memory, kBytes, kAccess);
  ibv_qp_init_attr attr = {};
  attr.send_cq = attr.recv_cq = cq;
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {.max_send_wr = 4,
              .max_recv_wr = 4,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  qp = ibv_create_qp(pd, &attr);
  if (!Connect()) qp = nullptr;
  UseDevice("constructor");
}

__attribute__((destructor)) void Close() {
  UseDevice("destructor");
  const bool closed = ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dereg_mr(mr) == 0 &&
                      ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0;
  printf("closing %s\n", closed ? "works" : "fails");
  fflush(stdout);
}

}  // namespace

void UseDevice(const char* moment) {
  bool works = qp != nullptr;
  for (int i = 0; works && i < 100; ++i) works = Write();
  printf("%s %s\n", moment, works ? "works" : "fails");
  fflush(stdout);
}

}  // namespace uroce::verbs::testing
