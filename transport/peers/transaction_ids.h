#pragma once

#include <cstdint>

#include "transport/peers/peer_query.h"
#include "transport/random_numbers.h"

namespace uroce::transport {

// Transaction ids of queries: the block of the asker, and random bits by which an answer proves
// that its sender has seen the query.
class TransactionIds {
 public:
  TransactionIds(uint32_t block, RandomNumbers& random) : block_(block), random_(random) {}

  uint64_t Next() {
    return uint64_t{block_} << kTransactionBlockShift |
           random_.Next() >> (64 - kTransactionBlockShift);
  }

 private:
  const uint32_t block_;
  RandomNumbers& random_;
};

}  // namespace uroce::transport
