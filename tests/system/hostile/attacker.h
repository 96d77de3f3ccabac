#pragma once

#include <memory>
#include <string>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/client.h"
#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/port/ring/ring_memory.h"
#include "dpdk_nic/port/ring/shm_ring.h"

namespace uroce::nic {

// A process of a fabric that sends well-formed control messages, but otherwise follows no rule.
class Attacker {
 public:
  // Attaches; ends the process if that fails.
  explicit Attacker(const std::string& fabric);

  // Offers `to` a link over fresh memory, in place of the last. False if uroced is not reading.
  bool Offer(control::Block to);
  // Handles the messages of uroced.
  void Listen();
  // Attaches anew if uroced has cut us off.
  void AttachAgain();
  template <control::Message T>
  bool Say(const T& message) {
    return client_->Send(message);
  }

  control::Block block() const { return client_->welcome().block; }
  // Answers to offers: how many uroced passed on, and how many exceeded a limit.
  uint32_t accepted() const { return accepted_; }
  uint32_t limited() const { return limited_; }
  // The attacker's mapping and its end of the socket of the last offer.
  RingMemory* memory() { return memory_.get(); }
  int socket() const { return socket_.get(); }
  // Whether the other process has closed the link.
  bool IsLinkClosed() const;

 private:
  const std::string fabric_;
  const UniqueFd published_state_;
  std::unique_ptr<control::ControlClient> client_;
  std::unique_ptr<RingMemory> memory_;
  UniqueFd socket_;
  uint32_t offers_received_ = 0;
  uint32_t accepted_ = 0;
  uint32_t limited_ = 0;
};

}  // namespace uroce::nic
