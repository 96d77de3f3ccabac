#include "verbs_provider/multicast.h"

#include <cerrno>

#include "transport/endpoint.h"
#include "verbs_provider/c_boundary.h"
#include "verbs_provider/queue_pair.h"
#include "verbs_provider/translate.h"

namespace uroce::verbs {
namespace {

using Change = transport::Status (transport::Endpoint::*)(transport::QueuePair&,
                                                          const transport::Gid&);

int ChangeMembership(ibv_qp* verbs, const ibv_gid* gid, Change change) {
  return ReturningErrno([&] {
    QueuePair& qp = QueuePair::From(verbs);
    if (qp.device->lost_by_fork()) return EIO;
    const transport::Gid group = ToGid(*gid);
    const auto status = qp.device->engine().WithEndpoint(
        [&](transport::Endpoint& endpoint) { return (endpoint.*change)(*qp.transport, group); });
    return static_cast<int>(status);
  });
}

}  // namespace

int AttachMcast(ibv_qp* qp, const ibv_gid* gid, uint16_t /*lid*/) {
  return ChangeMembership(qp, gid, &transport::Endpoint::AttachMulticast);
}

int DetachMcast(ibv_qp* qp, const ibv_gid* gid, uint16_t /*lid*/) {
  return ChangeMembership(qp, gid, &transport::Endpoint::DetachMulticast);
}

}  // namespace uroce::verbs
