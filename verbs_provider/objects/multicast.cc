#include "verbs_provider/objects/multicast.h"

#include <cerrno>

#include "transport/endpoint.h"
#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/base/translate.h"
#include "verbs_provider/objects/queue_pair.h"

namespace uroce::verbs {
namespace {

using Change = transport::Status (transport::Endpoint::*)(transport::QueuePair&,
                                                          const transport::Gid&);

int ChangeMembership(QueuePair& qp, const transport::Gid& group, Change change) {
  if (qp.device->lost_by_fork()) return EIO;
  const auto status = qp.device->engine().WithEndpoint(
      [&](transport::Endpoint& endpoint) { return (endpoint.*change)(*qp.transport, group); });
  return static_cast<int>(status);
}

}  // namespace

int AttachMcast(ibv_qp* verbs, const ibv_gid* gid, uint16_t /*lid*/) {
  return ReturningErrno([&] {
    QueuePair& qp = QueuePair::From(verbs);
    const transport::Gid group = ToGid(*gid);
    if (const int error = ChangeMembership(qp, group, &transport::Endpoint::AttachMulticast)) {
      return error;
    }
    const int error = qp.device->JoinGroup(group);
    if (error != 0) (void)ChangeMembership(qp, group, &transport::Endpoint::DetachMulticast);
    return error;
  });
}

int DetachMcast(ibv_qp* verbs, const ibv_gid* gid, uint16_t /*lid*/) {
  return ReturningErrno([&] {
    QueuePair& qp = QueuePair::From(verbs);
    const transport::Gid group = ToGid(*gid);
    const int error = ChangeMembership(qp, group, &transport::Endpoint::DetachMulticast);
    if (error == 0) qp.device->engine().LeaveGroup(group);
    return error;
  });
}

}  // namespace uroce::verbs
