#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/port/devargs.h"
#include "transport/ids.h"

struct rte_mempool;

namespace uroce::nic {

class Eal;

// A DPDK Ethernet device with one receive and one transmit queue, and its frame pool: probed,
// configured and started; stopped, removed and freed with the object. Removal waits for no burst:
// the caller has stopped polling before.
class Ethdev {
 public:
  struct Config {
    uint32_t pool_frames = 0;
    uint16_t frame_bytes = 0;        // room in each mbuf
    uint16_t queue_descriptors = 0;  // wished; the driver has the last word
    uint16_t mtu_bytes = 0;          // of a NIC; 0: its own, up to useful_mtu_bytes
    uint16_t useful_mtu_bytes = 0;
    // A memif client cannot start before its server: then it is started later.
    bool may_start_later = false;
  };

  static ErrorOr<std::unique_ptr<Ethdev>> Open(Eal* eal, const Devargs& devargs,
                                               const Config& config);
  ~Ethdev();
  Ethdev(const Ethdev&) = delete;
  Ethdev& operator=(const Ethdev&) = delete;

  uint16_t id() const { return id_; }
  rte_mempool* pool() const { return pool_; }
  bool started() const { return started_; }
  uint16_t mtu_bytes() const { return mtu_bytes_; }
  transport::MacAddress mac() const;
  bool link_up() const;
  // Whether the hardware was removed.
  bool removed() const { return removed_.load(std::memory_order_relaxed); }
  // The socket inside the af_packet and af_xdp drivers, which the driver owns; -1 for others.
  int packet_socket() const { return packet_socket_; }

 private:
  Ethdev(Eal* eal, const Devargs& devargs) : eal_(eal), devargs_(devargs) {}
  bool OpenDevice(const Config& config, std::string* error);
  bool Probe(std::string* error);
  bool Configure(const Config& config, std::string* error);
  bool ChooseMtu(const Config& config, uint32_t most_bytes, uint32_t* chosen,
                 std::string* error) const;
  void Close();
  std::string Explain(const std::string& what, int result) const;
  const char* bus() const;
  const char* Advice() const;

  Eal* eal_;
  Devargs devargs_;
  rte_mempool* pool_ = nullptr;
  uint16_t id_ = 0;
  uint16_t mtu_bytes_ = 0;
  bool probed_ = false;
  bool started_ = false;
  int packet_socket_ = -1;
  std::atomic<bool> removed_{false};  // set by the interrupt thread
};

}  // namespace uroce::nic
