#include "tests/system/mover/arena.h"

#include <sys/mman.h>

#include <cerrno>

namespace mover {
namespace {

constexpr size_t kGuardBytes = 64 << 10;

}  // namespace

Arena::Arena(ibv_pd* domain, uint32_t bytes) {
  constexpr int kNobody = -1;
  void* space =
      mmap(nullptr, bytes + 2 * kGuardBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, kNobody, 0);
  if (space == MAP_FAILED) system_test::Fail("mmap", errno);
  memory_ = {static_cast<uint8_t*>(space) + kGuardBytes, Unmapper{bytes}};
  if (mprotect(memory_.get(), bytes, PROT_READ | PROT_WRITE) != 0) {
    system_test::Fail("mprotect", errno);
  }
  for (system_test::RegionHandle& region : regions_) {
    region.reset(ibv_reg_mr(domain, memory_.get(), bytes,
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                IBV_ACCESS_MW_BIND));
    if (region == nullptr) system_test::Fail("ibv_reg_mr", errno);
  }
}

ibv_sge Arena::Sge(const Piece& piece) const {
  return {
      .addr = address() + piece.offset, .length = piece.length, .lkey = region(piece.region)->lkey};
}

void Arena::Unmapper::operator()(uint8_t* memory) const {
  munmap(memory - kGuardBytes, bytes + 2 * kGuardBytes);
}

}  // namespace mover
