#pragma once

#include <sys/types.h>

#include <optional>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/messages.h"

namespace uroce::nic::control {

// Which processes have which blocks of a fabric, in a way that outlives uroced: a block has a file
// that only uroced's user can open, with the uid of the user it was given to. uroced opens and
// locks it and hands the open file to the process (SCM_RIGHTS). The lock is the open file's, so
// that it goes when the process ends, however it does; and the open file is the proof, towards the
// next uroced, that the process has the block: another open file of the same name has no lock.
class BlockClaims {
 public:
  // Files in `folder`, which stays the caller's, and open.
  explicit BlockClaims(int folder) : folder_(folder) {}

  // The user whose process has the block; nullopt if it may be given out.
  std::optional<uid_t> OwnerOf(Block block) const;

  // Gives the block to a process of that user: what is to be sent to it. Invalid with errno:
  // EWOULDBLOCK if a process has the block.
  UniqueFd Give(Block block, uid_t user) const;

  // Whether a process of that user has the block, as it can show `claim`. That may be any file:
  // nothing is done with it that could make us wait.
  bool IsProvenBy(int claim, Block block, uid_t user) const;

  // Removes the files of blocks that no process has.
  void RemoveUnused() const;

 private:
  int folder_;
};

}  // namespace uroce::nic::control
