#include "dpdk_nic/port/dpdk/frame_pool.h"

#include <rte_mbuf.h>
#include <rte_mempool.h>

namespace uroce::nic {
namespace {

// A pool of more frames is larger than the processor's cache. It first gives out the frame that
// came back last; a smaller one gains nothing by that.
constexpr uint32_t kCachedFrames = 1'023;

// DPDK takes the I/O addresses of objects that may cross pages for unknown. They are the virtual
// ones.
void SetIoAddress(rte_mempool* /*pool*/, void* /*argument*/, void* object, unsigned /*index*/) {
  auto* frame = static_cast<rte_mbuf*>(object);
  rte_mbuf_iova_set(frame, reinterpret_cast<uintptr_t>(frame->buf_addr));
}

}  // namespace

rte_mempool* CreateFramePool(const std::string& name, uint32_t frames, uint16_t data_bytes) {
  rte_pktmbuf_pool_private pool_private{};
  pool_private.mbuf_data_room_size = static_cast<uint16_t>(RTE_PKTMBUF_HEADROOM + data_bytes);
  const auto element_bytes =
      static_cast<unsigned>(sizeof(rte_mbuf) + pool_private.mbuf_data_room_size);
  // Without hugepages objects would be rounded up so that none crosses a 4 KiB page. I/O addresses
  // are virtual ones then, so what is contiguous for the program is so for a device too.
  const unsigned flags = rte_eal_has_hugepages() != 0 ? 0 : RTE_MEMPOOL_F_NO_IOVA_CONTIG;
  rte_mempool* pool =
      rte_mempool_create_empty(name.c_str(), frames, element_bytes,
                               /*cache_size=*/0, sizeof(pool_private), SOCKET_ID_ANY, flags);
  if (pool == nullptr) return nullptr;
  const char* const order = frames > kCachedFrames ? "stack" : "ring_sp_sc";
  if (rte_mempool_set_ops_byname(pool, order, nullptr) != 0) {
    rte_mempool_free(pool);
    return nullptr;
  }
  rte_pktmbuf_pool_init(pool, &pool_private);
  if (rte_mempool_populate_default(pool) < 0) {
    rte_mempool_free(pool);
    return nullptr;
  }
  rte_mempool_obj_iter(pool, rte_pktmbuf_init, nullptr);
  if (flags != 0) rte_mempool_obj_iter(pool, SetIoAddress, nullptr);
  return pool;
}

}  // namespace uroce::nic
