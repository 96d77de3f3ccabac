#include <cerrno>

#include "transport/endpoint.h"
#include "transport/psn.h"
#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/base/translate.h"
#include "verbs_provider/objects/path_check.h"
#include "verbs_provider/objects/queue_pair.h"

namespace uroce::verbs {
namespace {

using transport::QpAttributeMask;

constexpr uint32_t kKnownAttributes = (QpAttributeMask::kDestinationQpn << 1) - 1;

// Values that would be cut off on their way into the transport's narrower types. Everything else is
// checked by the queue pair itself.
int CheckValues(const ibv_qp_attr& attr, uint32_t mask) {
  const auto has = [mask](uint32_t bit) { return (mask & bit) != 0; };
  if ((mask & ~kKnownAttributes) != 0) return EINVAL;
  if (has(IBV_QP_STATE) && RawValue(attr.qp_state) > IBV_QPS_ERR) return EINVAL;
  if (has(IBV_QP_CUR_STATE) && RawValue(attr.cur_qp_state) > IBV_QPS_ERR) {
    return EINVAL;
  }
  if (has(IBV_QP_PATH_MTU) && RawValue(attr.path_mtu) > IBV_MTU_4096) return EINVAL;
  // Automatic path migration is a feature that we do not have (and do not claim).
  if (has(IBV_QP_ALT_PATH)) return EOPNOTSUPP;
  if (has(IBV_QP_PATH_MIG_STATE) && RawValue(attr.path_mig_state) != IBV_MIG_MIGRATED) {
    return EINVAL;
  }
  if (has(IBV_QP_RQ_PSN) && attr.rq_psn > transport::Psn::kMask) return EINVAL;
  if (has(IBV_QP_SQ_PSN) && attr.sq_psn > transport::Psn::kMask) return EINVAL;
  return 0;
}

// Of XRC the kernel ignores what the other half alone has (modify_qp_mask of uverbs_cmd.c):
// programs such as perftest set it for both.
uint32_t OwnMask(ibv_qp_type type, uint32_t mask) {
  switch (RawValue(type)) {
    case IBV_QPT_XRC_SEND:
      return mask & ~uint32_t{IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER};
    case IBV_QPT_XRC_RECV:
      return mask & ~uint32_t{IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY};
    default:
      return mask;
  }
}

// Checks that need no address resolution, before one that may take seconds.
int CheckInTransport(QueuePair& qp, const transport::QpAttributes& attributes, uint32_t mask) {
  const nic::Engine::Verb verb(qp.device->engine());
  return static_cast<int>(qp.transport->CheckModify(attributes, mask));
}

// The Ethernet address of the next hop: the only part of the path that takes time to find out.
int ResolvePath(Device& device, uint32_t mask, transport::QpAttributes& attributes) {
  return (mask & IBV_QP_AV) == 0 ? 0 : device.Resolve(attributes.address);
}

transport::QpAttributes Query(const QueuePair& qp) {
  const nic::Engine::Verb verb(qp.device->engine());
  return qp.transport->Query();
}

// A connection has a way from the moment that it has an address. Datagrams each go their own; but
// those from the wire must find one when the first of them comes.
// The path MTU becomes the one of the way if that is narrower.
int PreparePath(QueuePair& qp, transport::QpAttributes& attributes, uint32_t mask) {
  const transport::Qpn local{qp.verbs.qp.qp_num};
  if (qp.verbs.qp.qp_type == IBV_QPT_UD) {
    const bool will_receive =
        (mask & IBV_QP_STATE) != 0 && attributes.state == transport::QpState::kReadyToReceive;
    return will_receive ? qp.device->PrepareDatagramPath(local) : 0;
  }
  if ((mask & IBV_QP_AV) == 0) return 0;
  const transport::Qpn remote =
      (mask & IBV_QP_DEST_QPN) != 0 ? attributes.destination_qpn : Query(qp).destination_qpn;
  return qp.device->PreparePath(local, attributes.address.destination_gid, remote,
                                &attributes.path_mtu);
}

transport::Status Modify(QueuePair& qp, const transport::QpAttributes& attributes, uint32_t mask) {
  const nic::Engine::Verb verb(qp.device->engine());
  return qp.transport->Modify(attributes, mask);
}

}  // namespace

int ModifyQp(ibv_qp* verbs, ibv_qp_attr* attr, int mask) {
  return ReturningErrno([&] {
    QueuePair& qp = QueuePair::From(verbs);
    if (qp.device->lost_by_fork()) return EIO;
    const uint32_t bits = OwnMask(verbs->qp_type, static_cast<uint32_t>(mask));
    if (const int error = CheckValues(*attr, bits)) return error;
    if ((bits & IBV_QP_AV) != 0) {
      if (const int error = CheckPath(*qp.device, attr->ah_attr)) return error;
    }
    transport::QpAttributes attributes = ToQpAttributes(*attr, bits);
    if (const int error = CheckInTransport(qp, attributes, bits)) return error;
    if (const int error = ResolvePath(*qp.device, bits, attributes)) return error;
    if (const int error = PreparePath(qp, attributes, bits)) return error;
    const bool is_reset = (bits & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_RESET;
    std::optional<PollLocks> locks;
    if (is_reset) locks.emplace(qp);
    const transport::Status status = Modify(qp, attributes, bits);
    locks.reset();
    if (is_reset) qp.device->engine().ForgetPath(transport::Qpn{verbs->qp_num});
    return static_cast<int>(status);
  });
}

int QueryQp(ibv_qp* verbs, ibv_qp_attr* attr, int /*mask*/, ibv_qp_init_attr* init_attr) {
  return ReturningErrno([&] {
    QueuePair& qp = QueuePair::From(verbs);
    if (qp.device->lost_by_fork()) return EIO;
    // One look, so that all attributes are of one moment.
    *attr = FromQpAttributes(Query(qp));

    const transport::QpInitAttributes& init = qp.transport->init_attributes();
    *init_attr = {.qp_context = verbs->qp_context,
                  .send_cq = verbs->send_cq,
                  .recv_cq = verbs->recv_cq,
                  .srq = verbs->srq,
                  .cap = FromCapabilities(init.capabilities),
                  .qp_type = verbs->qp_type,
                  .sq_sig_all = init.signal_all};
    return 0;
  });
}

}  // namespace uroce::verbs
