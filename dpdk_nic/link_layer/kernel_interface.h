#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/link_layer/rtnetlink.h"

namespace uroce::nic {

// A network interface that stays the kernel's while we send and receive on it too (af_packet,
// af_xdp). The kernel sees every frame that we see. While the object lives, multicast reaches the
// interface, and the kernel does not answer RoCEv2 packets with "port unreachable". Both effects
// end with the process, even if it is killed.
class KernelInterface {
 public:
  static ErrorOr<std::unique_ptr<KernelInterface>> Attach(const std::string& name);

  // Reads what the kernel reported of the interface since the last call. One system call if there
  // is nothing.
  void Serve();
  // Readable when there is something for Serve.
  int news_fd() const { return news_.fd(); }

  // As of the last Serve: whether the interface has been deleted (nothing brings it back), and
  // whether frames can leave: it is up and has a carrier.
  bool is_gone() const { return is_gone_; }
  bool has_carrier() const { return has_carrier_; }

  int index() const { return index_; }
  uint32_t mtu_bytes() const { return mtu_bytes_; }
  // The number of its receive queues. Two system calls.
  uint32_t receive_queues() const;

 private:
  KernelInterface();
  void AskState();
  bool ReadMtu(const std::string& name, std::string* error);
  bool ReceiveMulticast(const std::string& name, std::string* error);
  void SuppressPortUnreachable();

  int index_ = 0;
  uint32_t mtu_bytes_ = 0;
  RtnetlinkSocket news_;
  bool is_gone_ = false;
  bool has_carrier_ = true;  // unless the kernel says otherwise
  UniqueFd membership_;  // a packet socket that receives nothing and holds the multicast membership
  UniqueFd udp_guard_;
};

}  // namespace uroce::nic
