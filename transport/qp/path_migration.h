#pragma once

#include <cstdint>

#include "transport/qp/environment.h"
#include "transport/wire/packet.h"

// Automatic path migration (IBA 17.2.8): a connection may have a second path, the alternate, and
// goes on there when the first one is given up. MigReq of a packet says whether its sender is in
// MIGRATED: so both ends find out that the other one is ready to migrate, and that it has migrated.
//
//              modify: REARM             peer has rearmed:
//  +----------+              +-------+   a packet with MigReq 0   +-------+
//  | MIGRATED |------------->| REARM |--------------------------->| ARMED |
//  +----------+              +-------+                            +-------+
//       ^                        |                                    |
//       |      peer has migrated: a packet with MigReq 1 by the       |
//       +------------------------+------------------------------------+
//              alternate path; in ARMED also: modify: MIGRATED,
//              retries used up
//
// A queue pair in another state than MIGRATED, or whose peer may not have followed it yet, uses no
// short way: QpContext::uses_short_way.
namespace uroce::transport {

// Whether packets go the short ways from now on: to be called when the state, the partition or the
// rate has changed. What changes the paths does it by itself.
void UpdateShortWay(QpContext& qp);

// Lays out both paths anew: addresses, the GID table or a neighbour have changed. A path from an
// address that has gone leads to nobody, and is as it was should the address come back.
void SetPaths(QpContext& qp);
// Whether an address that one of the paths leads from has gone, or is there again.
bool HaveSourcesChanged(const QpContext& qp);
// As before INIT: neither path.
void ForgetPaths(QpContext& qp);

// An alternate path is loaded, and REARM is asked for.
void Rearm(QpContext& qp);
inline bool CanMigrate(const QpContext& qp) {
  return qp.attributes.migration_state == MigrationState::kArmed;
}
// The alternate path is the primary one from now on. Raises kPathMigrated.
void Migrate(QpContext& qp);

enum class PathCheck : uint8_t {
  kForeign,         // of neither path, or not of the one that the state asks for
  kOtherPartition,  // of the right path, but with a P_Key that is not its
  kPrimary,         // the path that packets are sent by
  kMigrated,        // the same, since this packet
};
// Which path a packet of the connection came by (IBA C9-43: and its P_Key is that of the path), and
// what its MigReq means: see above. Raises
// kPathMigrationError in ARMED if the peer has migrated to a path that is not the alternate.
PathCheck CheckPath(QpContext& qp, const Packet& packet);
// The same of a bare frame: it tells neither its path nor MigReq, but is sent in MIGRATED only, on
// the path that both ends have agreed on. To be asked while QpContext::takes_bare_frames is not
// set.
PathCheck CheckBareFrame(QpContext& qp, Route from);

}  // namespace uroce::transport
