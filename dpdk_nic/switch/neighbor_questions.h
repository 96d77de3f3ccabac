#pragma once

#include <cstddef>
#include <functional>
#include <map>

#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/link_layer/link_layer.h"
#include "transport/ids.h"
#include "transport/time.h"

namespace uroce::nic {

// The addresses that processes wait for: asks the link layer until it knows them or the time
// ends. Time is an argument.
class NeighborQuestions {
 public:
  using AnswerSink = std::function<void(const control::Neighbor&)>;

  // Of all processes together. The control server limits those of one.
  static constexpr size_t kMaxQuestions = 4'096;
  // As long as a kernel asks.
  static constexpr transport::Duration kTimeout = transport::Milliseconds(3'000);
  // The link layer tells when an address becomes known. Asking it again is for those that it gave
  // up, or that are reached in another way by now.
  static constexpr transport::Duration kAskInterval = transport::Milliseconds(100);

  // Returns false if there is no room. One question serves all processes that ask it.
  bool Add(transport::Time now, const transport::Gid& gid);
  // It is known by now: nothing is left to be asked.
  void Remove(const transport::Gid& gid);

  // Asks what is due, and reports addresses that became known and questions that timed out.
  void Run(transport::Time now, LinkLayer& link_layer, const AnswerSink& answer);
  // When Run wants to be called; kNever if there is no question.
  transport::Time NextDeadline() const {
    return questions_.empty() ? transport::kNever : next_ask_;
  }

 private:
  std::map<transport::Gid, transport::Time> questions_;  // and when to give up
  transport::Time next_ask_;
};

}  // namespace uroce::nic
