#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "tests/system/verbs/device.h"
#include "tests/system/verbs/handles.h"

namespace system_test {

// The data with which the peer can connect to a queue pair. Sent as it lies in memory: both ends
// are one program on one machine.
struct QueuePairAddress {
  uint32_t number;
  uint32_t first_psn;  // of its requests
  ibv_gid gid;
};

struct RcSettings {
  ibv_mtu path_mtu;
  uint8_t timeout;  // 4.096 us * 2^timeout; 0: wait for ever
  uint8_t retry_count;
};

// A reliable connection. Receives may be posted from the start, sends once it is connected.
class RcQueuePair {
 public:
  // Creates a queue pair in INIT. Throws std::runtime_error, as Connect does.
  RcQueuePair(const Device& device, ibv_pd* domain, ibv_cq* send_queue, ibv_cq* receive_queue,
              const ibv_qp_cap& capabilities, uint32_t first_psn);
  // Takes over a queue pair that was created already, with these access flags.
  RcQueuePair(const Device& device, QueuePairHandle made, unsigned int access, uint32_t first_psn);

  ibv_qp* get() const { return queue_pair_.get(); }
  QueuePairAddress address() const;

  // Moves the queue pair to RTR and RTS.
  void Connect(const QueuePairAddress& peer, const RcSettings& settings);

  // Loads the path to `peer`, the peer's other GID, from our GID of that index, and rearms.
  void LoadAlternatePath(const ibv_gid& peer, uint8_t gid_index, uint8_t timeout);
  void Migrate();
  ibv_qp_attr Query() const;

 private:
  void Modify(ibv_qp_attr attributes, int mask);
  void ModifyState(ibv_qp_attr attributes, int mask);
  void ToReadyToReceive(const QueuePairAddress& peer, ibv_mtu path_mtu);
  void ToReadyToSend(const RcSettings& settings);

  const Device& device_;
  uint32_t first_psn_;
  QueuePairHandle queue_pair_;
};

}  // namespace system_test
