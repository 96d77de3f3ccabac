#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "dpdk_nic/control/messages.h"
#include "transport/time.h"

namespace uroce::nic::control {

inline constexpr uint32_t kMaxClients = kLastBlock - kFirstBlock + 1;

// The clients of a fabric: the block of QPNs that each has, and the links between them. Pure: time
// is an argument, and the caller has verified the uid and the block of a process. Errors are errno
// values.
class Registry {
 public:
  // How long the block of an ended process is not assigned again: longer than its peers go on
  // sending to it (eight times 4.3 s with a timeout of 20, which is more than programs use), and
  // longer than programs take to connect to a QPN that they were told.
  static constexpr transport::Duration kQuarantine = transport::Milliseconds(60'000);

  struct Limits {
    // Half of all, so that one user cannot keep out all others. Processes that have a block and
    // have not attached to this uroced count, too.
    uint32_t clients_per_user = 512;
    // Links that one client asked for, 4.9 MB of its memory each: as many as there are peers.
    uint32_t links_per_client = 1'022;
    // Offers that one client may make to another at once, and how long it takes to earn one more:
    // each costs the receiver a mapping of those 4.9 MB, and the sender next to nothing.
    uint32_t offers_at_once = 8;
    transport::Duration offer_interval = transport::Milliseconds(250);
  };
  // The user whose process has the claim of a block: BlockClaims::OwnerOf.
  using ClaimOwner = std::function<std::optional<uid_t>(Block)>;

  // `random` decides where the search for free blocks starts, so that a restarted uroced does not
  // begin with the blocks that its predecessor gave out last.
  Registry(Limits limits, ClaimOwner owner_of_block, uint64_t random);

  struct Client {
    pid_t pid = 0;
    uid_t uid = 0;
    transport::Time attached_at;
    uint32_t links_asked_for = 0;
    uint32_t offers_sent = 0;  // LinkOffers to it
    // Other processes may know its QPNs.
    bool was_linked = false;
  };
  using Clients = std::map<Block, Client>;

  struct Admission {
    ErrnoValue error = 0;
    Block block = 0;  // if there is no error
  };
  // Attaches a process, with a new block, or with the block whose claim it has already (`resumed`
  // != 0). ENOSPC: no block is free. EDQUOT: its user has too many. ESTALE: `resumed` is no block
  // of a process, or a client has it.
  Admission Attach(transport::Time now, pid_t pid, uid_t uid, Block resumed);
  // Forgets the process and its links.
  void Detach(transport::Time now, Block block);

  // Whether `asker`, which has received so many of the offers that were sent to it, may be linked
  // with `other` now. 0: yes. EINVAL: `other` is the asker itself. EHOSTUNREACH: no client has that
  // block. ENOSPC: the asker has too many links. EALREADY: the request crossed an offer of `other`.
  // EAGAIN: the asker has offered `other` too many links lately.
  ErrnoValue MayLink(transport::Time now, Block asker, Block other, uint32_t offers_received) const;
  // Whether no process has the block or had it lately, as far as the registry knows. Costs system
  // calls.
  bool IsUnknown(transport::Time now, Block block) const;
  // To be called when MayLink allowed the link and `other` has been sent the offer. Replaces an
  // earlier link of the two; the new one lasts until either is gone.
  void AddLink(transport::Time now, Block asker, Block other);

  const Clients& clients() const { return clients_; }

  using Pair = std::pair<Block, Block>;  // the smaller one first
  struct Link {
    Block asker = 0;
    uint32_t offer = 0;  // its number among those sent to the other, from 1
  };
  const std::map<Pair, Link>& links() const { return links_; }

 private:
  bool HasTooMany(transport::Time now, uid_t uid);
  void ReclaimAbsentBlocks();
  Block TakeFreeBlock(transport::Time now);
  void CloseLink(const Pair& pair);

  const Limits limits_;
  const ClaimOwner owner_of_block_;
  Clients clients_;
  struct User {
    uint32_t blocks = 0;  // of its clients and of absent_
    transport::Time next_recount{INT64_MIN};
  };
  void Charge(uid_t uid) { ++users_[uid].blocks; }
  void Discharge(uid_t uid);
  void Return(Block block, uid_t uid);

  std::map<uid_t, User> users_;
  // Blocks that processes may have although they are not clients: they have not come back to a
  // restarted uroced, or have hung up, or have just ended.
  std::map<Block, uid_t> absent_;
  Block next_absent_ = kFirstBlock;
  std::map<Pair, Link> links_;
  // When an asker, the first of the pair, will have earned back all offers that it made: each adds
  // one interval. Removed with either process.
  std::map<Pair, transport::Time> offers_earned_at_;
  Block next_block_;
  std::array<transport::Time, kLastBlock + 1> quarantined_until_;
};

}  // namespace uroce::nic::control
