#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "dpdk_nic/control/messages.h"
#include "transport/route.h"
#include "transport/time.h"

namespace uroce::nic::control {

// Block 0 is the switch, and the last one has the QPN of multicast in it.
inline constexpr Block kFirstBlock = 1;
inline constexpr Block kLastBlock = transport::kQpnBlocks - 2;
inline constexpr uint32_t kMaxClients = kLastBlock - kFirstBlock + 1;

// Who is on the fabric: which process has which block of QPNs, and who is linked with whom. Pure:
// time is an argument, and whoever asks is believed to be what the kernel says he is. Errors are
// errno values.
class Registry {
 public:
  // How long the block of a process that is gone is not given to another: longer than its peers go
  // on sending to it (eight times 4.3 s with a timeout of 20, which is more than programs use), and
  // than anybody takes to connect to a QPN that he was told.
  static constexpr transport::Duration kQuarantine = transport::Milliseconds(60'000);

  struct Limits {
    // Half of all: one user's processes never keep out everybody else's.
    uint32_t clients_per_user = 512;
    // That one client asked for; they are its memory, 3.3 MB each. To everybody, but not more.
    uint32_t links_per_client = 1'022;
  };
  // The process that holds the claim of a block, 0 if nobody does (BlockClaim).
  using ClaimHolder = std::function<pid_t(Block)>;

  // `random` decides where the search for free blocks starts, so that a daemon that was started
  // anew does not begin with the blocks that its predecessor gave out last.
  Registry(Limits limits, ClaimHolder holder_of_block, uint64_t random);

  struct Client {
    pid_t pid = 0;
    uid_t uid = 0;
    transport::Time attached_at;
    uint32_t links_asked_for = 0;
    // Others may know its QPNs.
    bool was_linked = false;
  };
  using Clients = std::map<Block, Client>;

  struct Admission {
    ErrnoValue error = 0;
    Block block = 0;  // if there is no error
  };
  // A process wants to be on the fabric, with a new block, or with the one that it holds the claim
  // of already (`resumed` != 0). ENOSPC: no block is free. EDQUOT: its user has too many. ESTALE:
  // it does not hold that block, or is on the fabric with it.
  Admission Attach(transport::Time now, pid_t pid, uid_t uid, Block resumed);
  // Forgets the process and its links.
  void Detach(transport::Time now, Block block);

  // Whether `asker` may be linked with `other` now: 0, and the link is remembered until either is
  // gone. EINVAL: with itself. EHOSTUNREACH: nobody has that block. ENOSPC: too many.
  //
  // Of two that ask for each other at the same moment the second gets EALREADY. As whoever asked
  // second may also have lost the link that the first had asked for, that is said only once for
  // each link: asking again makes a new one. The first may ask anew at any time.
  ErrnoValue OpenLink(Block asker, Block other);

  const Clients& clients() const { return clients_; }

  using Pair = std::pair<Block, Block>;  // the smaller one first
  struct Link {
    Block asker = 0;
    bool other_was_refused = false;  // has had its EALREADY
  };
  const std::map<Pair, Link>& links() const { return links_; }

 private:
  bool Holds(pid_t pid, Block block) const;
  Block TakeFreeBlock(transport::Time now);
  bool HasRoomForLink(const Client& client) const;
  void CloseLink(const Pair& pair);

  const Limits limits_;
  const ClaimHolder holder_of_block_;
  Clients clients_;
  std::map<uid_t, uint32_t> clients_of_user_;
  std::map<Pair, Link> links_;
  Block next_block_;
  std::array<transport::Time, kLastBlock + 1> quarantined_until_;
};

}  // namespace uroce::nic::control
