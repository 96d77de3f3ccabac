#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dpdk_nic/control/frame_switch.h"
#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/switch/forwarding_table.h"
#include "dpdk_nic/switch/frame_classifier.h"
#include "transport/ids.h"

namespace uroce::nic {

// Why the switch does not pass a frame on. One counter each.
enum class SwitchDrop : uint8_t {
  kNone,
  kUnknownDestination,
  kNotDeclared,
  kForeignSource,
  kMalformed,
  kNoRoom,
};

void Count(SwitchDrop reason, control::SwitchCounters* counters);

// The NIC's addresses, which all processes of its fabric share. A zero GID is a free entry.
struct WireAddresses {
  transport::MacAddress mac{};
  std::vector<transport::Gid> gids;

  bool Has(const transport::Gid& gid) const {
    return !gid.IsZero() && std::find(gids.begin(), gids.end(), gid) != gids.end();
  }
};

// Whether a process may send a frame of `frame_bytes`: only as itself, and
//   RC, UC      to a queue pair that it declared to be connected to,
//   UD          from a queue pair of its block to any other, or to a group,
//   management  messages of the connection manager about connections of its own, and queries.
// Between processes of this host pass only UD, to groups and until the two have a link, and
// messages of the connection manager, which always come this way. `wire` is nullptr in a fabric
// without a NIC, where every process has an address of its own and all of them are on this host.
SwitchDrop CheckFromProcess(const RoceHeaders& headers, size_t frame_bytes, control::Block sender,
                            const ForwardingTable& table, const WireAddresses* wire);

// The process of this host that a frame is for, after CheckFromProcess let it pass; nullopt if it
// is for the wire or a group. For management see ReceiverOfManagement.
std::optional<control::Block> FindLocalReceiver(const RoceHeaders& headers,
                                                const ForwardingTable& table,
                                                const WireAddresses* wire);

// The process that a message of the connection manager is for, by its service or by the receiver's
// communication id; kSwitchBlock if no process listens to the service, or the message names no
// receiver.
control::Block ReceiverOfManagement(const RoceHeaders& headers, const ForwardingTable& table);

// The receiver of a frame from the wire.
struct Delivery {
  SwitchDrop drop = SwitchDrop::kNone;
  // kSwitchBlock: the members of the group, or the switch itself for a query of a peer; for
  // messages of the connection manager see ReceiverOfManagement.
  control::Block block = control::kSwitchBlock;
};
Delivery FindReceiver(const RoceHeaders& headers, const ForwardingTable& table,
                      const WireAddresses& wire);

}  // namespace uroce::nic
