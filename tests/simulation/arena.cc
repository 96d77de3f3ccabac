#include "tests/simulation/arena.h"

#include <algorithm>
#include <cstdlib>

namespace uroce::transport::simulation {

Arena::Arena(MemoryTable& table, PdId pd, size_t bytes, AccessFlags access, Random random)
    : table_(table), pd_(pd), access_(access), storage_(bytes + 2 * kCanaryBytes, kCanary) {
  random.Fill({at(0), bytes});
  // Range checks overflow at the two ends of the address space. Words in the arena are aligned for
  // atomics in both address spaces.
  const uint64_t highest = (~uint64_t{0} - bytes + 1) & ~uint64_t{7};
  iova_ = random.Pick<uint64_t>({0, 8 * random.Below(uint64_t{1} << 40), highest});
  Register();
}

void Arena::Register() {
  if (registered_) return;
  const auto key = table_.Register(Region());
  if (!key.has_value()) std::abort();  // a simulation registers a few dozen regions
  key_ = *key;
  registered_ = true;
}

bool Arena::Deregister() {
  if (!registered_) return true;
  registered_ = table_.Deregister(key_) != Status::kOk;
  return !registered_;
}

bool Arena::Move() {
  if (!registered_) return true;
  std::vector<uint8_t> elsewhere = storage_;
  std::swap(storage_, elsewhere);
  if (table_.Reregister(key_, Region()) != Status::kOk) {
    std::swap(storage_, elsewhere);
    return false;
  }
  if (storage_.size() <= kLongestKept) {
    left_copies_.push_back(storage_);
    left_.push_back(std::move(elsewhere));
  }
  return true;
}

void Arena::ScribbleWhereItWas() {
  if (!left_.empty()) left_.back()[kCanaryBytes] ^= 1;
}

bool Arena::CanariesIntact() const {
  const auto intact = [](uint8_t byte) { return byte == kCanary; };
  return left_ == left_copies_ &&
         std::all_of(storage_.begin(), storage_.begin() + kCanaryBytes, intact) &&
         std::all_of(storage_.end() - kCanaryBytes, storage_.end(), intact);
}

bool RingAllocator::Allocate(uint64_t length, uint64_t* offset) {
  const bool empty = first_ == pieces_.size();
  uint64_t begin = empty ? 0 : pieces_.back().end;
  const uint64_t oldest = empty ? bytes_ : pieces_[first_].begin;
  const bool wrapped = !empty && pieces_.back().begin < oldest;
  if (wrapped) {
    if (begin + length >= oldest) return false;
  } else if (begin + length > bytes_) {
    if (empty || length >= oldest) return false;
    begin = 0;
  }
  pieces_.push_back({begin, begin + length});
  *offset = begin;
  return true;
}

void RingAllocator::FreeOldest() {
  if (++first_ < 64) return;
  pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(first_));
  first_ = 0;
}

}  // namespace uroce::transport::simulation
