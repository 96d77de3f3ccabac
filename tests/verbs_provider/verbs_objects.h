#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <vector>

// Verbs objects that destroy themselves, for tests that are written against the public API alone.
namespace uroce::verbs::testing {

template <class Object, int (*destroy)(Object*)>
struct Destroyer {
  void operator()(Object* object) const { EXPECT_EQ(destroy(object), 0); }
};

using Context = std::unique_ptr<ibv_context, Destroyer<ibv_context, ibv_close_device>>;
using Pd = std::unique_ptr<ibv_pd, Destroyer<ibv_pd, ibv_dealloc_pd>>;
using Mr = std::unique_ptr<ibv_mr, Destroyer<ibv_mr, ibv_dereg_mr>>;
using Cq = std::unique_ptr<ibv_cq, Destroyer<ibv_cq, ibv_destroy_cq>>;
using Qp = std::unique_ptr<ibv_qp, Destroyer<ibv_qp, ibv_destroy_qp>>;
using Srq = std::unique_ptr<ibv_srq, Destroyer<ibv_srq, ibv_destroy_srq>>;
using Ah = std::unique_ptr<ibv_ah, Destroyer<ibv_ah, ibv_destroy_ah>>;
using Td = std::unique_ptr<ibv_td, Destroyer<ibv_td, ibv_dealloc_td>>;
using Dm = std::unique_ptr<ibv_dm, Destroyer<ibv_dm, ibv_free_dm>>;
using Mw = std::unique_ptr<ibv_mw, Destroyer<ibv_mw, ibv_dealloc_mw>>;
using Channel =
    std::unique_ptr<ibv_comp_channel, Destroyer<ibv_comp_channel, ibv_destroy_comp_channel>>;

// The device under test, opened. Null after a failed expectation.
Context OpenUroce();

// The objects that most tests need: a context, a protection domain and a registered buffer.
class Host {
 public:
  static constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                    IBV_ACCESS_MW_BIND;

  explicit Host(size_t buffer_bytes = 1 << 16, int access = kAllAccess);

  Context context;
  Pd pd;
  std::vector<uint8_t> buffer;
  Mr mr;

  Cq CreateCq(int entries, ibv_comp_channel* channel = nullptr);
  uint8_t* data() { return buffer.data(); }
  uint64_t address(size_t offset = 0) const {
    return reinterpret_cast<uintptr_t>(buffer.data()) + offset;
  }
  ibv_sge Sge(size_t offset, uint32_t length) const {
    return {.addr = address(offset), .length = length, .lkey = mr->lkey};
  }
};

// Attributes of a queue pair with 16 work requests of up to 4 pieces each way.
ibv_qp_init_attr Attributes(ibv_qp_type type, ibv_cq* send_cq, ibv_cq* receive_cq,
                            ibv_srq* srq = nullptr);
ibv_qp_init_attr RcAttributes(ibv_cq* send_cq, ibv_cq* receive_cq);
// The same for ibv_create_qp_ex, with ibv_wr_* for these operations.
ibv_qp_init_attr_ex ExtendedAttributes(ibv_pd* pd, const ibv_qp_init_attr& basic,
                                       uint64_t operations);

struct ConnectOptions {
  uint8_t gid_index = 1;
  uint8_t hop_limit = 64;
  ibv_mtu mtu = IBV_MTU_1024;
  uint8_t timeout = 14;  // 67 ms
  uint8_t retry_count = 7;
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 1;  // 10 us
  uint32_t rq_psn = 0;
  uint32_t sq_psn = 0;
  uint32_t qkey = 0x1111'1111;  // UD
  unsigned int access = Host::kAllAccess;
};

// RESET -> INIT -> RTR -> RTS with the attributes that the type of the queue pair requires, towards
// the queue pair `peer_qpn` at `peer_gid`; UD has no peer. Returns the errno of a step that fails.
int ToInit(ibv_qp* qp, const ConnectOptions& options = {});
int ToRtr(ibv_qp* qp, uint32_t peer_qpn, const ibv_gid& peer_gid,
          const ConnectOptions& options = {});
int ToRts(ibv_qp* qp, const ConnectOptions& options = {});
// Moves `a` and `b` to RTS, connected to each other.
void ConnectLoopback(ibv_qp* a, ibv_qp* b, const ConnectOptions& options = {});
// Moves a UD queue pair to RTS.
void BringUp(ibv_qp* qp, const ConnectOptions& options = {});

// An address vector to `gid` from our GID of index `gid_index`.
ibv_ah_attr AddressOf(const ibv_gid& gid, uint8_t gid_index);

// The next completion, however long it takes; a failed expectation after a minute.
ibv_wc WaitForCompletion(ibv_cq* cq);

// A send work request of one piece (or none, for length 0), signaled.
struct SendRequest : ibv_send_wr {
  ibv_sge piece = {};

  SendRequest(ibv_wr_opcode operation, const ibv_sge& sge, uint64_t id = 1);
  SendRequest(const SendRequest&) = delete;
  SendRequest& operator=(const SendRequest&) = delete;

  SendRequest& Remote(uint64_t address, uint32_t rkey);
  // Sets the destination of a datagram.
  SendRequest& To(ibv_ah* ah, uint32_t qpn, uint32_t qkey);
  // Returns what ibv_post_send returned, and checks *bad_wr.
  int Post(ibv_qp* qp);
};

int PostReceive(ibv_qp* qp, const ibv_sge& sge, uint64_t id);
int PostReceive(ibv_srq* srq, const ibv_sge& sge, uint64_t id);

// Modifies the state alone.
int Modify(ibv_qp* qp, ibv_qp_state state);
ibv_qp_attr Query(ibv_qp* qp);
// Waits for the next asynchronous event, checks it, and acknowledges it.
void ExpectAsyncEvent(ibv_context* context, ibv_event_type type, const void* object);
// No asynchronous event may be pending: verbs post their events before they return.
void ExpectNoAsyncEvent(ibv_context* context);

}  // namespace uroce::verbs::testing
