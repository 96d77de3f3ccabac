#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/messages.h"
#include "transport/ids.h"
#include "transport/limits.h"

namespace uroce::nic::control {

// Blocks that processes may have: block 0 is uroced's, and the last one has kMulticastQpn in it.
inline constexpr Block kFirstBlock = kSwitchBlock + 1;
inline constexpr Block kLastBlock = (transport::kMaxQpn + 1) / transport::kMaxQps - 2;

// That this process has a block of a fabric, in a place where every uroced that comes later can see
// it: the name of a listening socket. The kernel gives it back when the process ends, however it
// does, and tells who it is.
class BlockClaim {
 public:
  // nullopt with errno; EADDRINUSE if another process has the block.
  static std::optional<BlockClaim> Take(uid_t daemon_uid, std::string_view fabric, Block block);

  Block block() const { return block_; }
  uid_t daemon_uid() const { return daemon_uid_; }

  // A uroced that looks connects and goes. When fd() is readable, somebody did: make room for the
  // next, as a full queue hides who holds the block.
  int fd() const { return listener_.get(); }
  void TurnAwayVisitors();

  // After fork, in the child: the claim stays the parent's alone. Async-signal-safe.
  void Abandon() { listener_.reset(); }

 private:
  BlockClaim(UniqueFd listener, uid_t daemon_uid, Block block)
      : listener_(std::move(listener)), daemon_uid_(daemon_uid), block_(block) {}

  UniqueFd listener_;
  uid_t daemon_uid_;
  Block block_;
};

// The process that claims a block. kNobody: it may be given out. kUnknownHolder: somebody does, but
// it cannot be seen who at the moment.
inline constexpr pid_t kNobody = 0;
inline constexpr pid_t kUnknownHolder = -1;
pid_t HolderOfBlock(uid_t daemon_uid, std::string_view fabric, Block block);

}  // namespace uroce::nic::control
