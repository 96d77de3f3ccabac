#pragma once

#include <cstdint>
#include <vector>

#include "transport/ids.h"
#include "transport/psn.h"
#include "transport/wire/reth.h"

namespace uroce::transport {

// A request that was executed and has a response of its own. READ data is fetched when the response
// packets are built; an atomic's result is remembered; the others are answered as a READ of no
// bytes.
struct Reply {
  bool is_atomic = false;
  bool is_replay = false;   // the answer to a duplicate request
  bool is_relayed = false;  // the data is that of XrcRelay::front()
  Psn first_psn;            // of the response to this request
  Psn next_psn;             // of the next response packet
  Psn end_psn;
  uint32_t msn = 0;
  PdId pd{};    // of the memory that is read
  Reth read{};  // what is read
  uint64_t atomic_result = 0;
};

// The replies that wait to be sent, in the order of their PSNs, and the results of the last
// atomics, for duplicates of them. Together they are the responder resources that
// max_dest_rd_atomic promises (IBA 9.4.4). Only Reserve allocates.
class ReplyQueue {
 public:
  // Allocates for so many resources; the contents stay. After std::bad_alloc nothing has changed.
  void Reserve(uint32_t resources);
  // `resources` = max_dest_rd_atomic, for which there is room. Forgets everything.
  void Configure(uint32_t resources);
  void Clear() { Configure(resources_); }
  // Another max_dest_rd_atomic, for which there is room. Keeps replies and the youngest atomics.
  void Resize(uint32_t resources);

  bool empty() const { return replies_.empty(); }
  Reply& Front() { return replies_.front(); }
  void PopFront();

  // Whether another request that is no duplicate may be taken.
  bool HasRoom() const { return originals_ < resources_; }
  void Push(const Reply& reply);

  // Puts the answer to a duplicate request before all replies with later PSNs, so that responses
  // leave in PSN order (IBA C9-110). A reply that is still being sent for the same PSNs restarts at
  // that of the duplicate. False if there is no room: the peer will ask once more.
  bool PushReplay(const Reply& reply);

  void RememberAtomic(Psn psn, uint64_t result);
  // nullptr if the result is too old, or there was no atomic with this PSN.
  const uint64_t* FindAtomic(Psn psn) const;

 private:
  struct AtomicResult {
    bool valid = false;
    Psn psn;
    uint64_t result = 0;
  };

  uint32_t resources_ = 0;
  uint32_t originals_ = 0;  // replies in the queue that are not replays
  std::vector<Reply> replies_;
  std::vector<AtomicResult> atomics_;  // a ring
  uint32_t next_atomic_ = 0;
};

}  // namespace uroce::transport
