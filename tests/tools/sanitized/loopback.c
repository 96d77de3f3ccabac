// Writes a message from one queue pair of this process to another, and checks that it arrived.
// Tests build it with the sanitizers and run it under other tools; it is C, so that any compiler
// will do. With an argument it then reads beyond the end of a block, which a sanitizer must find.

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBytes = 4096, kGid = 0, kPort = 1 };

static void need(int condition, const char* what) {
  if (condition) return;
  perror(what);
  exit(1);
}

static struct ibv_qp* create(struct ibv_pd* pd, struct ibv_cq* cq) {
  struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
  init.cap.max_send_wr = init.cap.max_recv_wr = 4;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  struct ibv_qp* qp = ibv_create_qp(pd, &init);
  need(qp != NULL, "ibv_create_qp");
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = kPort};
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  need(ibv_modify_qp(qp, &attr,
                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
       "INIT");
  return qp;
}

static void join(struct ibv_qp* qp, uint32_t peer, union ibv_gid gid) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024};
  attr.dest_qp_num = peer;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = kPort;
  attr.ah_attr.grh.dgid = gid;
  attr.ah_attr.grh.sgid_index = kGid;
  attr.ah_attr.grh.hop_limit = 1;
  need(ibv_modify_qp(qp, &attr,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
       "RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 18;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 1;
  need(ibv_modify_qp(qp, &attr,
                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
       "RTS");
}

// Runs in a second thread, so that the race detector has something to check.
static void* poll_one(void* cq) {
  struct ibv_wc wc;
  int got;
  while ((got = ibv_poll_cq(cq, 1, &wc)) == 0) {
  }
  return got == 1 && wc.status == IBV_WC_SUCCESS ? cq : NULL;
}

int main(int argc, char** argv) {
  (void)argv;
  int count = 0;
  struct ibv_device** devices = ibv_get_device_list(&count);
  need(devices != NULL && count > 0, "ibv_get_device_list");
  struct ibv_context* context = ibv_open_device(devices[0]);
  need(context != NULL, "ibv_open_device");
  struct ibv_pd* pd = ibv_alloc_pd(context);
  struct ibv_cq* cq = ibv_create_cq(context, 8, NULL, NULL, 0);
  char* memory = malloc(2 * kBytes);
  need(pd != NULL && cq != NULL && memory != NULL, "ibv_create_cq");
  memset(memory, 'x', kBytes);
  memset(memory + kBytes, 'y', kBytes);
  struct ibv_mr* mr =
      ibv_reg_mr(pd, memory, 2 * kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  need(mr != NULL, "ibv_reg_mr");
  union ibv_gid gid;
  need(ibv_query_gid(context, kPort, kGid, &gid) == 0, "ibv_query_gid");
  struct ibv_qp* sender = create(pd, cq);
  struct ibv_qp* receiver = create(pd, cq);
  join(sender, receiver->qp_num, gid);
  join(receiver, sender->qp_num, gid);

  struct ibv_sge sge = {(uintptr_t)memory, kBytes, mr->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = (uintptr_t)memory + kBytes;
  wr.wr.rdma.rkey = mr->rkey;
  struct ibv_send_wr* bad;
  pthread_t poller;
  need(pthread_create(&poller, NULL, poll_one, cq) == 0, "pthread_create");
  need(ibv_post_send(sender, &wr, &bad) == 0, "ibv_post_send");
  void* result = NULL;
  pthread_join(poller, &result);
  need(result != NULL, "completion");
  need(memcmp(memory, memory + kBytes, kBytes) == 0, "data");
  ibv_destroy_qp(sender);
  ibv_destroy_qp(receiver);
  ibv_dereg_mr(mr);
  ibv_destroy_cq(cq);
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
  ibv_free_device_list(devices);
  char beyond = 0;
  if (argc > 1) beyond = *(volatile char*)(memory + 2 * kBytes);
  free(memory);
  puts("arrived");
  return beyond == 'z';
}
