#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>

#include "dpdk_nic/control/client.h"
#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/port/packet_port.h"
#include "transport/time.h"

namespace uroce::nic {

// What a process has asked uroced for that holds until it is withdrawn, and that has to be asked
// for anew when another uroced is there: connections across the wire, multicast groups, services.
// `Key` names the thing in the message Ask, which asks for it, and is all there is in Withdraw.
//
// Of each thing:
//
//   Request  +--------+  sent   +-------+  answer  +----------+
//   -------> | to ask | ------> | asked | -------> | answered |
//            +--------+         +-------+          +----------+
//                ^   another message, or another uroced  |
//                +---------------------------------------+
//
//   From each of these: Drop, or nothing has come for the answer for long.
//
//            +-------------+  sent   +-----------+  the last answer   nothing
//            | to withdraw | ------> | withdrawn | ----------------->  is left
//            +-------------+         +-----------+
//
// No call waits. What cannot be said now is said by Serve.
template <class Key, control::Message Ask, control::Message Withdraw>
class FabricRequests {
 public:
  using PathState = PacketPort::PathState;

  explicit FabricRequests(control::ControlClient& client) : client_(client) {}

  // Asks, or looks what became of it. Another message about the same thing replaces the first;
  // kRefused, for the reason that goes to `error`: what was granted before holds on.
  PathState Request(const Key& key, const Ask& message, transport::Time now,
                    control::ErrnoValue* error = nullptr) {
    Entry& entry = entries_[key];
    if (!entry.IsWanted() || memcmp(&entry.message, &message, sizeof message) != 0) {
      entry.message = message;
      entry.state = State::kToAsk;
    }
    entry.asked_at = now;
    is_up_to_date_ = false;
    Update(key, entry, now);
    if (entry.state != State::kAnswered) return PathState::kPending;
    if (entry.error != 0) {
      if (error != nullptr) *error = entry.error;
      Refused(key, entry);
      return PathState::kRefused;
    }
    entry.granted = entry.message;
    return PathState::kReady;
  }

  // It is not wanted any more. Returns whether uroced is to be told so.
  bool Drop(const Key& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return false;
    Entry& entry = found->second;
    const bool is_known = entry.IsKnown() && IsAttached();
    entry.BecomeUnwanted();
    is_up_to_date_ = false;
    if (Update(key, entry, entry.asked_at)) entries_.erase(found);
    return is_known;
  }

  // Returns whether it is the answer to what was asked last.
  bool OnAnswer(const Key& key, control::ErrnoValue error) {
    const auto found = entries_.find(key);
    if (found == entries_.end() || found->second.unanswered == 0) return false;
    Entry& entry = found->second;
    if (--entry.unanswered != 0 || entry.state != State::kAsked) return false;
    entry.state = State::kAnswered;
    entry.error = error;
    return true;
  }

  // It is another uroced than before.
  void OnReattached() {
    for (auto& [key, entry] : entries_) {
      entry.state = entry.IsWanted() ? State::kToAsk : State::kWithdrawn;
      entry.unanswered = 0;
    }
    is_up_to_date_ = false;
  }

  void Serve(transport::Time now) {
    if (is_up_to_date_) return;
    is_up_to_date_ = true;
    for (auto it = entries_.begin(); it != entries_.end();) {
      const bool is_over = Update(it->first, it->second, now);
      it = is_over ? entries_.erase(it) : std::next(it);
    }
  }

 private:
  // An asker that has not looked for so long has given up.
  static constexpr transport::Duration kAbandoned = transport::Milliseconds(10'000);

  enum class State : uint8_t { kToAsk, kAsked, kAnswered, kToWithdraw, kWithdrawn };

  struct Entry {
    bool IsWanted() const { return state < State::kToWithdraw; }
    // Whether uroced has been sent the message, and not been told that it does not hold any more.
    bool IsKnown() const { return state != State::kToAsk && state != State::kWithdrawn; }
    void BecomeUnwanted() {
      state = IsKnown() ? State::kToWithdraw : State::kWithdrawn;
      granted.reset();
    }

    Ask message{};
    State state = State::kToAsk;
    control::ErrnoValue error = 0;  // the answer
    uint32_t unanswered = 0;        // of the messages that this uroced was sent
    std::optional<Ask> granted;     // the last that the asker knows to be granted
    transport::Time asked_at;
  };

  void Refused(const Key& key, Entry& entry) {
    if (!entry.granted) {
      entries_.erase(key);
      return;
    }
    entry.message = *entry.granted;
    entry.error = 0;
  }

  // Says what is to be said of the entry. Returns whether nothing is left of it.
  bool Update(const Key& key, Entry& entry, transport::Time now) {
    const bool is_abandoned = !entry.granted && now - entry.asked_at >= kAbandoned;
    if (entry.IsWanted() && is_abandoned) entry.BecomeUnwanted();
    if (entry.state == State::kToAsk && client_.Send(entry.message)) {
      entry.state = State::kAsked;
      ++entry.unanswered;
    }
    const bool withdraws = entry.state == State::kToWithdraw && IsAttached();
    if (withdraws && client_.Send(Withdraw{key})) entry.state = State::kWithdrawn;
    // Answers that are still to come belong to what was said before.
    const bool is_withdrawn = entry.state == State::kWithdrawn && entry.unanswered == 0;
    const bool is_over = !entry.IsWanted() && (is_withdrawn || !IsAttached());
    const bool is_settled = entry.IsWanted() && entry.IsKnown() && entry.granted;
    is_up_to_date_ &= is_over || is_settled;
    return is_over;
  }

  bool IsAttached() const { return client_.state() == control::ControlClient::State::kAttached; }

  control::ControlClient& client_;
  std::map<Key, Entry> entries_;
  bool is_up_to_date_ = true;  // Serve has nothing to do
};

}  // namespace uroce::nic
