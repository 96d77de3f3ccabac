#include "tests/system/verbs/rc_queue_pair.h"

#include <cerrno>
#include <utility>

namespace system_test {
namespace {

constexpr uint32_t kPsnMask = 0xffffff;
constexpr uint8_t kReadAtomicDepth = 8;
constexpr uint8_t kMinRnrTimer = 1;  // 10 us
constexpr uint8_t kRnrRetryForEver = 7;

ibv_ah_attr PathTo(const ibv_gid& peer, uint8_t gid_index) {
  ibv_ah_attr path{};
  path.is_global = 1;
  path.port_num = kPortNumber;
  path.grh.dgid = peer;
  path.grh.sgid_index = gid_index;
  path.grh.hop_limit = 64;
  return path;
}

QueuePairHandle Create(ibv_pd* domain, ibv_cq* send_queue, ibv_cq* receive_queue,
                       const ibv_qp_cap& capabilities) {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = send_queue;
  attributes.recv_cq = receive_queue;
  attributes.cap = capabilities;
  attributes.qp_type = IBV_QPT_RC;
  QueuePairHandle made(ibv_create_qp(domain, &attributes));
  if (made == nullptr) Fail("ibv_create_qp", errno);
  return made;
}

}  // namespace

RcQueuePair::RcQueuePair(const Device& device, ibv_pd* domain, ibv_cq* send_queue,
                         ibv_cq* receive_queue, const ibv_qp_cap& capabilities, uint32_t first_psn)
    : RcQueuePair(device, Create(domain, send_queue, receive_queue, capabilities),
                  IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
                  first_psn) {}

RcQueuePair::RcQueuePair(const Device& device, QueuePairHandle made, unsigned int access,
                         uint32_t first_psn)
    : device_(device), first_psn_(first_psn & kPsnMask), queue_pair_(std::move(made)) {
  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = kPortNumber;
  init.qp_access_flags = access;
  ModifyState(init, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

QueuePairAddress RcQueuePair::address() const {
  return {.number = queue_pair_->qp_num, .first_psn = first_psn_, .gid = device_.gid()};
}

void RcQueuePair::Connect(const QueuePairAddress& peer, const RcSettings& settings) {
  ToReadyToReceive(peer, settings.path_mtu);
  ToReadyToSend(settings);
}

void RcQueuePair::ToReadyToReceive(const QueuePairAddress& peer, ibv_mtu path_mtu) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = path_mtu;
  attributes.dest_qp_num = peer.number;
  attributes.rq_psn = peer.first_psn;
  attributes.max_dest_rd_atomic = kReadAtomicDepth;
  attributes.min_rnr_timer = kMinRnrTimer;
  attributes.ah_attr = PathTo(peer.gid, device_.gid_index());
  ModifyState(attributes, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

void RcQueuePair::ToReadyToSend(const RcSettings& settings) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = settings.timeout;
  attributes.retry_cnt = settings.retry_count;
  attributes.rnr_retry = kRnrRetryForEver;
  attributes.sq_psn = first_psn_;
  attributes.max_rd_atomic = kReadAtomicDepth;
  ModifyState(attributes, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                              IBV_QP_MAX_QP_RD_ATOMIC);
}

void RcQueuePair::LoadAlternatePath(const ibv_gid& peer, uint8_t gid_index, uint8_t timeout) {
  ibv_qp_attr attributes{};
  attributes.alt_ah_attr = PathTo(peer, gid_index);
  attributes.alt_port_num = kPortNumber;
  attributes.alt_timeout = timeout;
  attributes.path_mig_state = IBV_MIG_REARM;
  Modify(attributes, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
}

void RcQueuePair::Migrate() {
  ibv_qp_attr attributes{};
  attributes.path_mig_state = IBV_MIG_MIGRATED;
  Modify(attributes, IBV_QP_PATH_MIG_STATE);
}

ibv_qp_attr RcQueuePair::Query() const {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  const int error = ibv_query_qp(queue_pair_.get(), &attributes,
                                 IBV_QP_PATH_MIG_STATE | IBV_QP_AV | IBV_QP_ALT_PATH, &init);
  if (error != 0) Fail("ibv_query_qp", error);
  return attributes;
}

void RcQueuePair::Modify(ibv_qp_attr attributes, int mask) {
  const int error = ibv_modify_qp(queue_pair_.get(), &attributes, mask);
  if (error != 0) Fail("ibv_modify_qp", error);
}

void RcQueuePair::ModifyState(ibv_qp_attr attributes, int mask) {
  Modify(attributes, mask | IBV_QP_STATE);
}

}  // namespace system_test
