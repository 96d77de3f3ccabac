#pragma once

#include <cstddef>
#include <functional>
#include <map>

#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/link_layer/link_layer.h"
#include "transport/ids.h"
#include "transport/time.h"

namespace uroce::nic {

// The addresses that processes wait for: asks the link layer until it knows them or kTimeout is
// over. Time is an argument.
class NeighborQuestions {
 public:
  using AnswerSink = std::function<void(const control::Neighbor&)>;

  // Questions of all processes together. The control server limits those of one.
  static constexpr size_t kMaxQuestions = 4'096;
  // As long as the Linux kernel asks.
  static constexpr transport::Duration kTimeout = transport::Milliseconds(3'000);
  // The link layer tells when an address becomes known. It is asked again for addresses that it
  // gave up, or that have another route by now.
  static constexpr transport::Duration kAskInterval = transport::Milliseconds(100);

  // Returns false if there is no room. One question serves all processes that ask it.
  bool Add(transport::Time now, const transport::Gid& gid);
  // Drops the question: the address is known.
  void Remove(const transport::Gid& gid);

  // Asks what is due, and reports addresses that became known and questions that timed out.
  void Run(transport::Time now, LinkLayer& link_layer, const AnswerSink& answer);
  // When Run wants to be called; kNever if there is no question.
  transport::Time NextDeadline() const {
    return questions_.empty() ? transport::kNever : next_ask_;
  }

 private:
  std::map<transport::Gid, transport::Time> questions_;  // address -> when to give up
  transport::Time next_ask_;
};

}  // namespace uroce::nic
