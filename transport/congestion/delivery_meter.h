#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "transport/psn.h"
#include "transport/time.h"

namespace uroce::transport {

// One measurement of a path, made when a recorded packet is acknowledged.
struct DeliverySample {
  uint64_t packets_per_second = 0;  // how fast packets were acknowledged; 0: not known
  // The rate is that of a burst after the path was empty: its capacity, not our share of it.
  bool is_burst = false;
  std::optional<Duration> round_trip;  // unless the packet was sent twice
  Duration answered_after{};           // the time since the packet was last sent
  bool is_limited = false;  // by the program, which had no more to send: the path may carry more
  bool ends_round = false;  // one round trip has passed since the last sample that said so
};

// Measures round trip and delivery rate of a connection, as BBR does: a packet that leaves is
// recorded with what was delivered by then. Only some packets are recorded, spread over the window.
class DeliveryMeter {
 public:
  static constexpr size_t kRecords = 128;

  // Called with one beyond the last PSN of which a response is awaited.
  void Restart() { *this = {}; }
  // A packet with this PSN asks for a response. `is_repeated`: it was sent before. At most one
  // packet in `spacing` is recorded.
  void OnSent(Time now, Psn psn, uint32_t spacing, bool is_limited, bool is_repeated);
  // The oldest packet is sent again: the response to it may be to either, and tells nothing.
  void OnProbe();
  // The same for so many packets from `psn` on, while others go on.
  void OnSentAgain(Psn psn, uint32_t packets);
  // Packets are sent again from the oldest on: forgets what is under way.
  void GoBack() {
    count_ = 0;
    awaits_train_ = true;
  }
  // `packets` more have arrived, the newest right before `end`.
  std::optional<DeliverySample> OnAcknowledged(Time now, Psn end, uint32_t packets);

 private:
  struct Record {
    Psn psn;
    bool is_limited;
    bool is_repeated;
    bool is_void;  // it was sent again
    Time sent;
    Time earlier_sent;   // of the record that had been acknowledged last
    uint64_t delivered;  // by then
    Time delivered_at;   // when the last of these was acknowledged
  };

  Record& At(size_t i) { return records_[(first_ + i) % kRecords]; }
  uint64_t RateOf(const Record& record, Time now) const;

  std::array<Record, kRecords> records_;
  size_t first_ = 0;
  size_t count_ = 0;
  uint64_t delivered_ = 0;
  uint64_t round_end_ = 0;  // a record with so much delivered ends the round
  Time delivered_at_{};
  Time acknowledged_sent_{};
  Duration shortest_{INT64_MAX};  // round trip
  // The path was empty when packets were sent again. It is measured from the first of them that was
  // acknowledged on.
  bool awaits_train_ = false;
  Time train_at_{};
  Time train_sent_{};
  uint64_t train_delivered_ = 0;
};

}  // namespace uroce::transport
