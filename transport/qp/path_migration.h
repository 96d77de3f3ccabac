#pragma once

#include <cstdint>

#include "transport/qp/environment.h"
#include "transport/wire/packet.h"

// Automatic path migration (IBA 17.2.8): a connection may have a second path, the alternate, and
// moves to it when the first one is given up. MigReq of a packet says whether its sender is in
// MIGRATED: from it each end learns that the other end is ready to migrate, and that it has
// migrated.
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

// Updates the short-way flags of QpContext; called when the state, the partition or the rate has
// changed. The functions below that change paths call it themselves.
void UpdateShortWay(QpContext& qp);

// Builds both paths anew: addresses, the GID table or a neighbour have changed. A path whose source
// address is gone reaches no peer; a call after the address has returned restores it.
void SetPaths(QpContext& qp);
// Whether the source address of a path has gone or returned since SetPaths.
bool HaveSourcesChanged(const QpContext& qp);
// Removes both paths, as in RESET.
void ForgetPaths(QpContext& qp);

// Enters REARM. An alternate path is loaded.
void Rearm(QpContext& qp);
inline bool CanMigrate(const QpContext& qp) {
  return qp.attributes.migration_state == MigrationState::kArmed;
}
// Makes the alternate path the primary one. Raises kPathMigrated.
void Migrate(QpContext& qp);

enum class PathCheck : uint8_t {
  kForeign,         // by neither path, or not by the one that the state requires
  kOtherPartition,  // by the right path, but with a P_Key of another partition
  kPrimary,         // by the primary path
  kMigrated,        // by the alternate path, which this packet made the primary one
};
// Finds the path that a packet came by, checks its P_Key (IBA C9-43) and follows its MigReq as
// drawn above. Raises kPathMigrationError in ARMED if the peer has migrated to a path that is not
// the alternate.
PathCheck CheckPath(QpContext& qp, const Packet& packet);
// The same for a bare frame. It carries neither addresses nor MigReq: the peer sends it in MIGRATED
// only, by the path that both ends use. Called while QpContext::takes_bare_frames is not set.
PathCheck CheckBareFrame(QpContext& qp, Route from);

}  // namespace uroce::transport
