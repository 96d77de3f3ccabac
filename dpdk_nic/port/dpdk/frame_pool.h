#pragma once

#include <cstdint>
#include <string>

struct rte_mempool;

namespace uroce::nic {

// Creates a pool of `frames` mbufs that hold `data_bytes` each behind the usual headroom. nullptr
// if DPDK has no memory left.
//
// The pool has no per-thread caches: a port and its pool are used by one thread at a time (the
// engine's lock), but by different ones.
rte_mempool* CreateFramePool(const std::string& name, uint32_t frames, uint16_t data_bytes);

}  // namespace uroce::nic
