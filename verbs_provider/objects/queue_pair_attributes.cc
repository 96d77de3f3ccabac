#include <cerrno>

#include "transport/endpoint.h"
#include "transport/psn.h"
#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/base/translate.h"
#include "verbs_provider/device/context.h"
#include "verbs_provider/objects/path_check.h"
#include "verbs_provider/objects/queue_pair.h"

namespace uroce::verbs {
namespace {

using transport::QpAttributeMask;

constexpr uint32_t kKnownAttributes =
    ((QpAttributeMask::kDestinationQpn << 1) - 1) | QpAttributeMask::kRateLimit;

// Checks the values that would be cut off in the transport's narrower types. The queue pair itself
// checks everything else.
int CheckValues(const ibv_qp_attr& attr, uint32_t mask) {
  const auto has = [mask](uint32_t bit) { return (mask & bit) != 0; };
  if ((mask & ~kKnownAttributes) != 0) return EINVAL;
  if (has(IBV_QP_STATE) && RawValue(attr.qp_state) > IBV_QPS_ERR) return EINVAL;
  if (has(IBV_QP_CUR_STATE) && RawValue(attr.cur_qp_state) > IBV_QPS_ERR) {
    return EINVAL;
  }
  if (has(IBV_QP_PATH_MTU) && RawValue(attr.path_mtu) > IBV_MTU_4096) return EINVAL;
  if (has(IBV_QP_PATH_MIG_STATE) && RawValue(attr.path_mig_state) > IBV_MIG_ARMED) return EINVAL;
  if (has(IBV_QP_ALT_PATH) && attr.alt_ah_attr.port_num != attr.alt_port_num) return EINVAL;
  if (has(IBV_QP_RQ_PSN) && attr.rq_psn > transport::Psn::kMask) return EINVAL;
  if (has(IBV_QP_SQ_PSN) && attr.sq_psn > transport::Psn::kMask) return EINVAL;
  return 0;
}

// Drops the attributes that only the other half of XRC has, as the kernel does (modify_qp_mask of
// uverbs_cmd.c): programs such as perftest set them for both halves.
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

// Runs the checks that need no address resolution before the resolution, which may take seconds.
int CheckInTransport(QueuePair& qp, const transport::QpAttributes& attributes, uint32_t mask) {
  const nic::Engine::Verb verb(*qp.engine);
  return static_cast<int>(qp.transport->CheckModify(attributes, mask));
}

int CheckPaths(Device& device, const ibv_qp_attr& attr, uint32_t mask) {
  const int error = (mask & IBV_QP_AV) == 0 ? 0 : CheckPath(device, attr.ah_attr);
  if (error != 0 || (mask & IBV_QP_ALT_PATH) == 0) return error;
  return CheckPath(device, attr.alt_ah_attr);
}

// Finds the next hop's Ethernet address: the only part of a path that takes time to find out. The
// hop limit of a connection is the route's, whatever the program says (ib_resolve_unicast_gid_dmac
// of Linux): most say 1.
int Resolve(Device& device, transport::AddressVector& address) {
  address.hop_limit = device.HopLimitTo(address);
  return device.Resolve(address);
}

int ResolvePaths(Device& device, uint32_t mask, transport::QpAttributes& attributes) {
  const int error = (mask & IBV_QP_AV) == 0 ? 0 : Resolve(device, attributes.address);
  if (error != 0 || (mask & IBV_QP_ALT_PATH) == 0) return error;
  return Resolve(device, attributes.alternate_address);
}

transport::QpAttributes Query(const QueuePair& qp) {
  const nic::Engine::Verb verb(*qp.engine);
  return qp.transport->Query();
}

// Prepares the path of a connection as soon as it has an address. Each datagram has a path of its
// own, but the first one from the wire must find a path when it arrives. Lowers the path MTU to
// that of the path; but an alternate path that is loaded later has to take the path MTU as it is
// (EINVAL).
int PreparePath(QueuePair& qp, transport::QpAttributes& attributes, uint32_t mask) {
  const transport::Qpn local{qp.verbs.qp.qp_num};
  if (qp.verbs.qp.qp_type == IBV_QPT_UD) {
    const bool will_receive =
        (mask & IBV_QP_STATE) != 0 && attributes.state == transport::QpState::kReadyToReceive;
    return will_receive ? qp.device->PrepareDatagramPath(local) : 0;
  }
  const auto sets = [mask](uint32_t bit) { return (mask & bit) != 0; };
  if (!sets(IBV_QP_AV | IBV_QP_ALT_PATH)) return 0;
  const transport::QpAttributes now = Query(qp);
  const auto& primary = sets(IBV_QP_AV) ? attributes.address : now.address;
  const auto& alternate =
      sets(IBV_QP_ALT_PATH) ? attributes.alternate_address : now.alternate_address;
  transport::Mtu mtu = sets(IBV_QP_PATH_MTU) ? attributes.path_mtu : now.path_mtu;
  const int error = qp.device->PreparePath(
      *qp.engine, local, primary.destination_gid, alternate.destination_gid,
      sets(IBV_QP_DEST_QPN) ? attributes.destination_qpn : now.destination_qpn, &mtu);
  attributes.path_mtu = mtu;
  const bool is_too_narrow = sets(IBV_QP_ALT_PATH) && !sets(IBV_QP_PATH_MTU) && mtu < now.path_mtu;
  return error == 0 && is_too_narrow ? EINVAL : error;
}

transport::Status Modify(QueuePair& qp, const transport::QpAttributes& attributes, uint32_t mask) {
  const nic::Engine::Verb verb(*qp.engine);
  return qp.transport->Modify(attributes, mask);
}

}  // namespace

int ModifyQp(ibv_qp* verbs, ibv_qp_attr* attr, int mask) {
  return ReturningErrno([&] {
    if (const int error = CheckHandle<QueuePair>(verbs)) return error;
    QueuePair& qp = QueuePair::From(verbs);
    const uint32_t bits = OwnMask(verbs->qp_type, static_cast<uint32_t>(mask));
    if (const int error = CheckValues(*attr, bits)) return error;
    if (const int error = CheckPaths(*qp.device, *attr, bits)) return error;
    transport::QpAttributes attributes = ToQpAttributes(*attr, bits);
    if (const int error = CheckInTransport(qp, attributes, bits)) return error;
    if (const int error = ResolvePaths(*qp.device, bits, attributes)) return error;
    if (const int error = PreparePath(qp, attributes, bits)) return error;
    const bool is_reset = (bits & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_RESET;
    std::optional<PollLocks> locks;
    if (is_reset) locks.emplace(qp);
    const transport::Status status = Modify(qp, attributes, bits);
    locks.reset();
    if (is_reset) qp.engine->ForgetPath(transport::Qpn{verbs->qp_num});
    return static_cast<int>(status);
  });
}

// Ignores typical_pkt_sz, a hint for NICs that count packets.
int ModifyQpRateLimit(ibv_qp* verbs, ibv_qp_rate_limit_attr* attr) {
  return ReturningErrno([&] {
    if (const int error = CheckHandle<QueuePair>(verbs)) return error;
    QueuePair& qp = QueuePair::From(verbs);
    if (attr->comp_mask != 0) return EINVAL;
    transport::QpAttributes attributes;
    attributes.rate_limit = {attr->rate_limit, attr->max_burst_sz};
    return static_cast<int>(Modify(qp, attributes, QpAttributeMask::kRateLimit));
  });
}

int QueryQp(ibv_qp* verbs, ibv_qp_attr* attr, int /*mask*/, ibv_qp_init_attr* init_attr) {
  return ReturningErrno([&] {
    if (const int error = CheckHandle<QueuePair>(verbs)) return error;
    QueuePair& qp = QueuePair::From(verbs);
    // One query, so that all attributes are of one moment.
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
