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
// for anew when another uroced is there: connections across the wire, multicast groups. `Key` names
// the thing in the message Ask, which asks for it, and is all there is in Withdraw.
//
// Nobody waits here. What cannot be said now is said by Serve.
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
    if (entry.is_unwanted || memcmp(&entry.message, &message, sizeof message) != 0) {
      entry.message = message;
      entry.is_unwanted = entry.is_said = false;
      entry.answer.reset();
    }
    entry.asked_at = now;
    is_up_to_date_ = false;
    Update(key, entry, now);
    if (!entry.answer) return PathState::kPending;
    if (*entry.answer != 0) {
      if (error != nullptr) *error = *entry.answer;
      Refused(key, entry);
      return PathState::kRefused;
    }
    entry.granted = entry.message;
    entry.is_in_use = true;
    return PathState::kReady;
  }

  // It is not wanted any more. Returns whether uroced is to be told so.
  bool Drop(const Key& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return false;
    Entry& entry = found->second;
    const bool is_known = entry.is_said && IsAttached();
    entry.is_unwanted = true;
    entry.is_in_use = false;
    is_up_to_date_ = false;
    if (Update(key, entry, entry.asked_at)) entries_.erase(found);
    return is_known;
  }

  void OnAnswer(const Key& key, control::ErrnoValue error) {
    const auto found = entries_.find(key);
    if (found == entries_.end() || found->second.unanswered == 0) return;
    Entry& entry = found->second;
    if (--entry.unanswered == 0 && entry.is_said) entry.answer = error;  // else of an older one
  }

  // It is another uroced than before.
  void OnReattached() {
    for (auto& [key, entry] : entries_) {
      entry.is_said = false;
      entry.unanswered = 0;
      entry.answer.reset();
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
  // Whoever asked has given up: nobody waits so long for an answer.
  static constexpr transport::Duration kAbandoned = transport::Milliseconds(10'000);

  struct Entry {
    Ask message{};
    uint32_t unanswered = 0;  // of the messages that this uroced was sent
    bool is_said = false;     // uroced knows of it, or will refuse it
    bool is_in_use = false;   // whoever asked knows that it was granted
    bool is_unwanted = false;
    std::optional<control::ErrnoValue> answer;  // to the last one
    std::optional<Ask> granted;                 // the last that the asker knows to be granted
    transport::Time asked_at;
  };

  void Refused(const Key& key, Entry& entry) {
    if (!entry.granted) {
      entries_.erase(key);
      return;
    }
    entry.message = *entry.granted;
    entry.answer = 0;
  }

  // Says what is to be said of the entry. Returns whether nothing is left of it.
  bool Update(const Key& key, Entry& entry, transport::Time now) {
    if (!entry.is_in_use && now - entry.asked_at >= kAbandoned) entry.is_unwanted = true;
    if (entry.is_unwanted) {
      if (entry.is_said && IsAttached()) entry.is_said = !client_.Send(Withdraw{key});
      // Answers that are still to come belong to what was said before.
      const bool is_over = !IsAttached() || (!entry.is_said && entry.unanswered == 0);
      is_up_to_date_ &= is_over;
      return is_over;
    }
    if (!entry.is_said && client_.Send(entry.message)) {
      entry.is_said = true;
      ++entry.unanswered;
    }
    is_up_to_date_ &= entry.is_said && entry.is_in_use;
    return false;
  }

  bool IsAttached() const { return client_.state() == control::ControlClient::State::kAttached; }

  control::ControlClient& client_;
  std::map<Key, Entry> entries_;
  bool is_up_to_date_ = true;  // Serve has nothing to do
};

}  // namespace uroce::nic
