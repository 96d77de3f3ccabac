#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dpdk_nic/error_or.h"
#include "dpdk_nic/unique_fd.h"

namespace uroce::nic {

// A network interface that stays the kernel's while we send and receive on it too (af_packet). The
// kernel sees every frame that we see. While the object lives, multicast reaches the interface, and
// the kernel does not answer RoCEv2 packets with "port unreachable". Both end with the process,
// even if it is killed.
class KernelInterface {
 public:
  static ErrorOr<std::unique_ptr<KernelInterface>> Attach(const std::string& name);

  // Whether the interface has been deleted. One system call.
  bool is_gone() const;

  int index() const { return index_; }
  uint32_t mtu_bytes() const { return mtu_bytes_; }

 private:
  KernelInterface() = default;
  bool ReadMtu(const std::string& name, std::string* error);
  bool ReceiveMulticast(const std::string& name, std::string* error);
  void QuietenUdpPort();

  int index_ = 0;
  uint32_t mtu_bytes_ = 0;
  UniqueFd membership_;  // a packet socket that receives nothing and holds the multicast membership
  UniqueFd udp_guard_;
};

}  // namespace uroce::nic
