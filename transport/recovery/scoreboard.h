#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "transport/limits.h"
#include "transport/psn.h"
#include "transport/time.h"
#include "transport/zeroed_array.h"

namespace uroce::transport {

// The packets that a requester has sent and that are not acknowledged yet: which have arrived. The
// order in which packets leave is known; a packet is overtaken when one has arrived that left after
// it, and lost when it has not arrived a while later (RFC 8985 finds losses so, too).
//
//      oldest              frontier            next
//   -----|---- a . L . a a s a |-----------------|---->  PSNs        a: has arrived
//        | not acknowledged    | nothing is known yet                .: overtaken, may come yet
//                                                                    L: lost, to be sent again
//                                                                    s: sent again
//
// "Arrived" means a request that the peer keeps or has executed, or a response that is in place.
class Scoreboard {
 public:
  // So many packets behind the oldest can be followed. What is known of others is ignored.
  static constexpr uint32_t kPackets = kMaxCongestionWindow;
  // Bounds of how late an overtaken packet may be. The time is a part of the shortest round trip,
  // and longer on a path where packets came that had been taken to be lost. After kMemory losses
  // without such a packet it is half as long.
  static constexpr int64_t kPartOfRoundTrip = 4;
  static constexpr Duration kLongestWait = Milliseconds(10);
  static constexpr uint32_t kMemory = 16;

  // nullptr if there is no memory.
  static std::unique_ptr<Scoreboard> Make();
  Scoreboard() : holes_(MakeZeroedArray<Hole>(kPackets)) {}

  // Nothing is known of the packets from `oldest` on.
  void Restart(Psn oldest);

  // Whether anything is known.
  bool is_open() const { return frontier_.IsAfter(oldest_); }
  // One beyond the newest packet that has arrived as it was first sent.
  Psn newest_end() const { return newest_; }
  uint32_t arrived() const { return arrived_count_; }
  uint32_t lost() const { return lost_count_; }
  bool HasArrived(Psn psn) const { return IsKnown(psn) && arrived_.Has(psn); }
  // Whether the packet was sent again at `since` or later, and has not arrived.
  bool WasSentAgain(Psn psn, Time since) const {
    return IsKnown(psn) && sent_again_.Has(psn) && HoleOf(psn).sent_again >= since;
  }

  // A packet has arrived. `shortest`: the shortest round trip. False if that was known.
  bool OnArrived(Time now, Psn psn, Duration shortest);
  // Something has arrived that left after the packets from `begin` on and before `end`.
  void Overtake(Time now, Psn begin, Psn end);
  // All packets before `oldest` are acknowledged. Returns how many of these OnArrived has not told.
  uint32_t OnAcknowledged(Time now, Psn oldest, Duration shortest);
  // Whether the packet has arrived is open again.
  void ForgetArrival(Psn psn);
  // The packets from `begin` on and before `end` are to be sent again: the peer asks for them, or
  // is silent. Those that have arrived are not. Returns how many more are lost now.
  uint32_t MarkLost(Psn begin, Psn end);

  // The lost packet with the lowest PSN, and how many follow it that are lost, too, up to `most`;
  // lost() is not 0.
  Psn first_lost() const;
  uint32_t CountLostFrom(Psn psn, uint32_t most) const;
  // The packet ends something of which all has arrived; to be remembered for the caller.
  void Settle(Psn psn) { settled_.Set(psn); }
  bool IsSettled(Psn psn) const { return IsKnown(psn) && settled_.Has(psn); }

  // Packets were sent again, or responses were asked for again. `next` is one beyond the last
  // packet that was sent. A request that arrives then shows that all which left before had their
  // chance to; a response shows nothing of those behind it, which the peer sends later.
  void OnSentAgain(Time now, Psn psn, uint32_t packets, Psn next, bool is_response);

  // Finds the packets that are lost now. Returns how many were not known to be. To be called after
  // other calls, and at next_loss().
  uint32_t FindLosses(Time now, Duration shortest);
  Time next_loss() const { return next_loss_; }

 private:
  // Of a packet before frontier_ that has not arrived.
  struct Hole {
    Time overtaken;   // kNever: it was not
    Time sent_again;  // the last time
    Psn before;       // sent again before the packet with this PSN left for the first time
    bool is_response;
  };
  // One bit a packet.
  class Bits {
   public:
    bool Has(Psn psn) const { return (WordOf(psn) & BitOf(psn)) != 0; }
    void Set(Psn psn) { words_[IndexOf(psn)] |= BitOf(psn); }
    void Clear(Psn psn) { words_[IndexOf(psn)] &= ~BitOf(psn); }
    void ClearAll() { words_.fill(0); }
    uint64_t WordOf(Psn psn) const { return words_[IndexOf(psn)]; }

   private:
    static size_t IndexOf(Psn psn) { return psn.value() % kPackets / 64; }
    static uint64_t BitOf(Psn psn) { return uint64_t{1} << psn.value() % 64; }
    std::array<uint64_t, kPackets / 64> words_{};
  };

  bool IsKnown(Psn psn) const { return !psn.IsBefore(oldest_) && psn.IsBefore(frontier_); }
  const Hole& HoleOf(Psn psn) const { return holes_[psn.value() % kPackets]; }
  Hole& HoleOf(Psn psn) { return holes_[psn.value() % kPackets]; }
  Duration Wait(Duration shortest) const {
    return std::max(Duration{shortest.ns / kPartOfRoundTrip}, learned_wait_);
  }
  Psn ExtendTo(Psn end);
  void Learn(Duration late_by);
  void OnHoleFilled(Time now, Psn psn, Duration shortest);
  bool IsOvertaken(Psn psn, const Hole& hole) const;
  template <class Visit>
  void ForEachHole(Visit visit);

  Psn oldest_;
  Psn frontier_;
  Bits arrived_;
  Bits lost_;        // has not arrived
  Bits sent_again_;  // has not arrived
  Bits settled_;     // has arrived
  ZeroedArray<Hole> holes_;
  uint32_t arrived_count_ = 0;
  uint32_t lost_count_ = 0;
  // The last to leave of the packets that were sent again and have arrived: its time and PSN.
  Time newest_again_at_{};
  Psn newest_again_;
  Psn newest_;  // newest_end()
  Duration learned_wait_{};
  uint32_t losses_ = 0;  // since the wait was learned
  Time next_loss_ = kNever;
  bool has_news_ = false;  // FindLosses may find something before next_loss_
};

}  // namespace uroce::transport
