#pragma once

#include <sys/types.h>

#include <optional>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/messages.h"

namespace uroce::nic::control {

// Records which process has which block of a fabric, in a way that outlives uroced. A block has a
// file that only uroced's user can open; it holds the uid of the user that got the block. uroced
// opens and locks the file and hands the open file to the process (SCM_RIGHTS). The lock belongs to
// the open file, so it goes when the process ends, however it ends. And the open file proves to the
// next uroced that the process has the block: another open file of the same name has no lock.
class BlockClaims {
 public:
  // The files are in `folder`, which stays the caller's and open.
  explicit BlockClaims(int folder) : folder_(folder) {}

  // The user whose process has the block; nullopt if the block may be given out.
  std::optional<uid_t> OwnerOf(Block block) const;

  // Gives the block to a process of that user; returns the claim to send to it. Invalid with errno:
  // EWOULDBLOCK if a process has the block.
  UniqueFd Give(Block block, uid_t user) const;

  // Whether `claim` proves that a process of that user has the block. `claim` may be any file: no
  // operation on it makes us wait.
  bool IsProvenBy(int claim, Block block, uid_t user) const;

  // Removes the files of blocks that no process has.
  void RemoveUnused() const;

 private:
  int folder_;
};

}  // namespace uroce::nic::control
