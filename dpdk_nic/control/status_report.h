#pragma once

#include <sys/types.h>

#include <optional>

#include "dpdk_nic/control/message_channel.h"
#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/control/registry.h"
#include "dpdk_nic/control/status_messages.h"

namespace uroce::nic::control {

class Server;
class Session;

// The answer to a StatusRequest, sent as fast as the asker reads it: it may be megabytes. It shows
// each client and link as they are when their turn comes.
class StatusReport {
 public:
  // Shows the processes of user `asker`; to root and to uroced's own user it shows all.
  StatusReport(Server& server, uid_t asker);

  // kUnderWay: to be called again after other sessions had their turn.
  enum class Progress { kDone, kUnderWay, kWaitsForRoom, kFailed };
  Progress Continue(MessageChannel& channel);

 private:
  enum class Part { kDaemon, kClients, kLinks, kEnd, kDone };

  bool SendNext(MessageChannel& channel);
  bool SendDaemon(MessageChannel& channel);
  bool SendClient(MessageChannel& channel);
  bool SendLink(MessageChannel& channel);
  bool MaySee(Block block) const;

  Server& server_;
  const uid_t asker_;
  const bool sees_all_;
  Part part_ = Part::kDaemon;
  Block next_client_ = kFirstBlock;
  Registry::Pair next_link_{};
};

}  // namespace uroce::nic::control
