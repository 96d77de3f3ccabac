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
// In another state than MIGRATED, or before the peer has followed, each packet has to be checked
// for the path that it came by and for its MigReq. So its network headers are neither predicted nor
// left out.
namespace uroce::transport {

// Updates the flags of QpContext for header prediction, and the header fields that the packets of
// the connection share; called when the state, the partition or the rate has changed. The functions
// below that change paths call it themselves.
void UpdatePrediction(QpContext& qp);

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
// The same for a headerless frame, which carries no addresses: the peer sends it in MIGRATED only,
// by the path that both ends use. Called while QpContext::takes_headerless is not set.
PathCheck CheckHeaderless(QpContext& qp, Route from);

}  // namespace uroce::transport
