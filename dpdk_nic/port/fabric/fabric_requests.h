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

// Requests to uroced that hold until they are withdrawn, and that a new uroced must be sent again:
// connections across the wire, multicast groups, services. The message Ask makes a request,
// Withdraw ends it; `Key` names the thing in both, and is all there is in Withdraw.
//
// States of a request:
//
//   Request  +--------+  sent   +-------+  answer  +----------+
//   -------> | to ask | ------> | asked | -------> | answered |
//            +--------+         +-------+          +----------+
//                ^   another message, or another uroced  |
//                +---------------------------------------+
//
//   From each of these: Drop, or the caller has not asked for the answer for long.
//
//            +-------------+  sent   +-----------+  the last answer   nothing
//            | to withdraw | ------> | withdrawn | ----------------->  is left
//            +-------------+         +-----------+
//
// No call blocks. Serve sends what cannot be sent now.
template <class Key, control::Message Ask, control::Message Withdraw>
class FabricRequests {
 public:
  using PathState = PacketPort::PathState;

  explicit FabricRequests(control::ControlClient& client) : client_(client) {}

  // Sends the request, or tells what became of it. Another message about the same thing replaces
  // the first. With kRefused, `error` gets the reason, and what was granted before still holds.
  PathState Request(const Key& key, const Ask& message, transport::Time now,
                    control::ErrnoValue* error = nullptr) {
    return IsAnswered(key, message, now) ? TakeAnswer(key, error) : PathState::kPending;
  }

  // The two halves of Request, for a caller that makes several requests at once. IsAnswered sends
  // the request, and returns whether TakeAnswer may be called, which it has to be then.
  bool IsAnswered(const Key& key, const Ask& message, transport::Time now) {
    Entry& entry = entries_[key];
    if (!entry.IsWanted() || memcmp(&entry.message, &message, sizeof message) != 0) {
      entry.message = message;
      entry.state = State::kToAsk;
    }
    entry.asked_at = now;
    is_up_to_date_ = false;
    Update(key, entry, now);
    return entry.state == State::kAnswered;
  }
  PathState TakeAnswer(const Key& key, control::ErrnoValue* error = nullptr) {
    Entry& entry = entries_.at(key);
    if (entry.error != 0) {
      if (error != nullptr) *error = entry.error;
      Refused(key, entry);
      return PathState::kRefused;
    }
    entry.granted = entry.message;
    return PathState::kReady;
  }

  // Whether the caller knows that uroced has granted a request for `key`.
  bool IsGranted(const Key& key) const {
    const auto found = entries_.find(key);
    return found != entries_.end() && found->second.granted.has_value();
  }

  // Withdraws the request. Returns whether uroced knows of it and has to be told.
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

  // Returns whether it answers the last request for `key`.
  bool OnAnswer(const Key& key, control::ErrnoValue error) {
    const auto found = entries_.find(key);
    if (found == entries_.end() || found->second.unanswered == 0) return false;
    Entry& entry = found->second;
    if (--entry.unanswered != 0 || entry.state != State::kAsked) return false;
    entry.state = State::kAnswered;
    entry.error = error;
    return true;
  }

  // The process has attached to another uroced than before.
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
  // A caller that has not called Request for so long has given up.
  static constexpr transport::Duration kAbandoned = transport::Milliseconds(10'000);

  enum class State : uint8_t { kToAsk, kAsked, kAnswered, kToWithdraw, kWithdrawn };

  struct Entry {
    bool IsWanted() const { return state < State::kToWithdraw; }
    // Whether uroced has been sent the message, and not its withdrawal.
    bool IsKnown() const { return state != State::kToAsk && state != State::kWithdrawn; }
    void BecomeUnwanted() {
      state = IsKnown() ? State::kToWithdraw : State::kWithdrawn;
      granted.reset();
    }

    Ask message{};
    State state = State::kToAsk;
    control::ErrnoValue error = 0;  // the answer
    uint32_t unanswered = 0;        // messages that this uroced has not answered
    std::optional<Ask> granted;     // the last that the caller knows is granted
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

  // Sends the message that the entry needs. Returns whether the entry is over.
  bool Update(const Key& key, Entry& entry, transport::Time now) {
    const bool is_abandoned = !entry.granted && now - entry.asked_at >= kAbandoned;
    if (entry.IsWanted() && is_abandoned) entry.BecomeUnwanted();
    if (entry.state == State::kToAsk && client_.Send(entry.message)) {
      entry.state = State::kAsked;
      ++entry.unanswered;
    }
    const bool withdraws = entry.state == State::kToWithdraw && IsAttached();
    if (withdraws && client_.Send(Withdraw{key})) entry.state = State::kWithdrawn;
    // The entry stays until all answers have come: a late one must not count for a new request.
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
