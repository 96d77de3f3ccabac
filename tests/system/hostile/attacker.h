#pragma once

#include <memory>
#include <string>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/client.h"
#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/port/ring/shm_ring.h"

namespace uroce::nic {

// A process of a fabric that follows the letter of the control protocol and nothing else of it.
class Attacker {
 public:
  // Attaches; ends the process if that does not succeed.
  explicit Attacker(const std::string& fabric);

  // Offers `to` a link over fresh memory, in place of the last. False if uroced takes nothing now.
  bool Offer(control::Block to);
  // Hears what uroced has to say.
  void Listen();
  // Attaches anew if uroced has cut us off.
  void AttachAgain();
  template <control::Message T>
  bool Say(const T& message) {
    return client_->Send(message);
  }

  control::Block block() const { return client_->welcome().block; }
  // Answers to offers: how many were passed on, and how many were too many.
  uint32_t accepted() const { return accepted_; }
  uint32_t limited() const { return limited_; }
  // Of the last offer: our mapping, and our end of the socket.
  RingMemory* memory() { return memory_.get(); }
  int socket() const { return socket_.get(); }
  // Whether the other process has given it up.
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
