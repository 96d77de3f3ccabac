#include "tests/simulation/shared_counters.h"

#include <algorithm>
#include <cstring>

namespace uroce::transport::simulation {
namespace {

// Whether `sum` is the sum of some of `parts`, each used at most once; removes those. There are few
// parts: a broken connection leaves at most max_rd_atomic additions behind.
bool TakeSum(std::vector<uint64_t>& parts, uint64_t sum) {
  if (sum == 0) return true;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] > sum) continue;
    std::vector<uint64_t> rest = parts;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    if (!TakeSum(rest, sum - parts[i])) continue;
    parts = rest;
    return true;
  }
  return false;
}

}  // namespace

SharedCounters::SharedCounters(MemoryTable& table, PdId pd, Random random)
    : arena_(table, pd, kWords * 8,
             AccessFlags(AccessFlags::kLocalWrite | AccessFlags::kRemoteAtomic |
                         AccessFlags::kRemoteRead),
             random) {
  for (size_t word = 0; word < kWords; ++word) initial_[word] = Value(word);
}

uint64_t SharedCounters::Value(size_t word) {
  uint64_t value;
  std::memcpy(&value, arena_.at(word * 8), 8);
  return value;
}

void SharedCounters::OnAdded(size_t word, uint64_t original, uint64_t delta) {
  additions_[word].push_back({original, delta});
}

void SharedCounters::OnUncertain(size_t word, uint64_t delta) { uncertain_[word].push_back(delta); }

void SharedCounters::Check(Verdict& verdict) {
  for (size_t word = 0; word < kWords; ++word) {
    // The sum before each addition gives the order of the additions.
    std::vector<Addition>& additions = additions_[word];
    const uint64_t initial = initial_[word];
    std::sort(additions.begin(), additions.end(), [&](const Addition& a, const Addition& b) {
      return a.original - initial < b.original - initial;
    });
    uint64_t sum = initial;
    for (const Addition& addition : additions) {
      if (!TakeSum(uncertain_[word], addition.original - sum)) {
        return verdict.Fail("word ", word, ": an addition saw ", addition.original, " instead of ",
                            sum);
      }
      sum = addition.original + addition.delta;
    }
    if (!TakeSum(uncertain_[word], Value(word) - sum)) {
      return verdict.Fail("word ", word, " holds ", Value(word), " instead of ", sum);
    }
  }
}

}  // namespace uroce::transport::simulation
