#pragma once

#include <cstdint>
#include <memory>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/port/ring/shm_ring.h"

namespace uroce::nic {

// The memory of a link: a ring for each direction. Two seals protect each side from the other:
//
//   creator   memfd, every page allocated, mapped, sealed against shrinking and growing
//   opener    maps it, then seals it against writing by other means than the two mappings
//             (F_SEAL_FUTURE_WRITE), which also makes the kernel refuse to punch holes into it
//
// So neither side can take a page away from the other, which would fault (SIGBUS, if there is no
// memory just then) or, at best, pay for the page anew.
class RingMemory {
 public:
  // nullptr with errno set. Create backs every page, so that a lack of memory is an error here and
  // not a SIGBUS later. Open seals the memory that the other side sent, and then checks size, seals
  // and that its pages are backed: the creator pays for the memory, then and later. Memory that was
  // opened before cannot be opened again (EPERM).
  static std::unique_ptr<RingMemory> Create();
  static std::unique_ptr<RingMemory> Open(UniqueFd fd);
  ~RingMemory();
  RingMemory(const RingMemory&) = delete;
  RingMemory& operator=(const RingMemory&) = delete;

  // The ring that `side` (0 or 1) produces into.
  Ring ring(int side) const;
  // The descriptor for the other side; only the creator has it, until CloseFd.
  int fd() const { return fd_.get(); }
  void CloseFd() { fd_.reset(); }

  // Whether the other side has mapped and sealed it. For the creator, before CloseFd.
  bool IsSealed() const;
  // Whether every page is there. For the creator, before CloseFd.
  bool IsWhole() const { return IsWhole(fd_.get()); }

 private:
  explicit RingMemory(uint8_t* base) : base_(base) {}
  static std::unique_ptr<RingMemory> Map(int fd);
  static bool SealAgainstHoles(int fd);
  static bool IsWhole(int fd);

  UniqueFd fd_;
  uint8_t* base_;
};

}  // namespace uroce::nic
