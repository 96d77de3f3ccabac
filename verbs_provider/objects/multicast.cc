#include "verbs_provider/objects/multicast.h"

#include <cerrno>

#include "transport/endpoint.h"
#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/base/translate.h"
#include "verbs_provider/device/context.h"
#include "verbs_provider/objects/path_check.h"
#include "verbs_provider/objects/queue_pair.h"

namespace uroce::verbs {
namespace {

using Change = transport::Status (transport::Endpoint::*)(transport::QueuePair&,
                                                          const transport::Gid&);

int ChangeMembership(QueuePair& qp, const transport::Gid& group, Change change) {
  const auto status = qp.engine->WithEndpoint(
      [&](transport::Endpoint& endpoint) { return (endpoint.*change)(*qp.transport, group); });
  return static_cast<int>(status);
}

// Makes the queue pair receive what is sent to the group under this GID.
int Attach(QueuePair& qp, const transport::Gid& group) {
  if (const int error = ChangeMembership(qp, group, &transport::Endpoint::AttachMulticast)) {
    return error;
  }
  const int error = qp.device->JoinGroup(group);
  if (error != 0) (void)ChangeMembership(qp, group, &transport::Endpoint::DetachMulticast);
  return error;
}

int Detach(QueuePair& qp, const transport::Gid& group) {
  const int error = ChangeMembership(qp, group, &transport::Endpoint::DetachMulticast);
  if (error == 0) qp.engine->LeaveGroup(group);
  return error;
}

}  // namespace

// A group that has the RoCEv1 name of an IPv4 group is joined under both names.
int AttachMcast(ibv_qp* verbs, const ibv_gid* gid, uint16_t /*lid*/) {
  return ReturningErrno([&] {
    if (const int error = CheckHandle<QueuePair>(verbs)) return error;
    QueuePair& qp = QueuePair::From(verbs);
    const transport::Gid group = ToGid(*gid);
    const auto ipv4_group = Ipv4GroupOf(group);
    if (const int error = Attach(qp, group)) return error;
    const int error = ipv4_group ? Attach(qp, *ipv4_group) : 0;
    if (error != 0) (void)Detach(qp, group);
    return error;
  });
}

int DetachMcast(ibv_qp* verbs, const ibv_gid* gid, uint16_t /*lid*/) {
  return ReturningErrno([&] {
    if (const int error = CheckHandle<QueuePair>(verbs)) return error;
    QueuePair& qp = QueuePair::From(verbs);
    const transport::Gid group = ToGid(*gid);
    if (const auto ipv4_group = Ipv4GroupOf(group)) (void)Detach(qp, *ipv4_group);
    return Detach(qp, group);
  });
}

}  // namespace uroce::verbs
