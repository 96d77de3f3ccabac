#include "dpdk_nic/switch/neighbor_questions.h"

namespace uroce::nic {

using transport::Gid;
using transport::Time;

bool NeighborQuestions::Add(Time now, const Gid& gid) {
  if (questions_.contains(gid)) return true;
  if (questions_.size() == kMaxQuestions) return false;
  questions_[gid] = now + kTimeout;
  next_ask_ = now;
  return true;
}

void NeighborQuestions::Remove(const Gid& gid) { questions_.erase(gid); }

void NeighborQuestions::Run(Time now, LinkLayer& link_layer, const AnswerSink& answer) {
  if (now < NextDeadline()) return;
  next_ask_ = now + kAskInterval;
  for (auto question = questions_.begin(); question != questions_.end();) {
    const auto& [gid, give_up] = *question;
    if (const auto mac = link_layer.Resolve(now, gid)) {
      answer({.gid = gid, .mac = *mac, .is_known = 1, .reserved = 0});
    } else if (now >= give_up) {
      answer({.gid = gid, .mac = {}, .is_known = 0, .reserved = 0});
    } else {
      ++question;
      continue;
    }
    question = questions_.erase(question);
  }
}

}  // namespace uroce::nic
