#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "tests/simulation/verdict.h"
#include "transport/ids.h"
#include "transport/psn.h"
#include "transport/qp/queue_pair.h"
#include "transport/wire/packet.h"

namespace uroce::simulation {

// Watches every frame from outside, as a protocol analyser would, and knows what no queue pair may
// ever do on the wire whatever happened before. Queue pair numbers must be unique among all hosts.
class WireMonitor {
 public:
  struct End {
    const transport::QueuePair* qp = nullptr;
    transport::Psn first_psn;  // of its requests
    uint32_t mtu_bytes = 0;
    uint8_t max_read_atomic = 0;
    uint8_t retry_count = 0;
    uint8_t rnr_retry = 0;
  };

  // With `strict` false only what holds for any input is checked: frames are well formed.
  WireMonitor(Verdict& verdict, bool strict) : verdict_(verdict), strict_(strict) {}

  void AddConnection(const End& a, const End& b);

  void OnSent(std::span<const uint8_t> frame);
  void OnDelivered(std::span<const uint8_t> frame);
  // The wire did something to the frame that a perfect wire would not do.
  void OnImpaired(std::span<const uint8_t> frame);

  // Whether so much went wrong since the last progress that the requester had to give up.
  bool RetriesMayBeExceeded(transport::Qpn requester) const;
  bool RnrRetriesMayBeExceeded(transport::Qpn requester) const;

 private:
  // A READ or atomic whose responses are awaited. Packets are counted from the first request.
  struct AwaitedRead {
    int64_t next;  // the first packet not responded to
    int64_t end;
  };
  // The requests of one end and the responses to them.
  struct Direction {
    End requester;
    const transport::QueuePair* responder = nullptr;
    int64_t sent_end = 0;          // requests before this have been sent
    int64_t delivered_end = 0;     // ... have arrived at the responder
    int64_t acknowledged_end = 0;  // ... have been acknowledged to the requester
    std::deque<AwaitedRead> reads;
    // For each frame that the wire impaired, the packet it was or responded to, unless that has
    // been acknowledged: these may have cost retries since the last progress.
    std::vector<int64_t> impaired;
    uint64_t impaired_ever = 0;
    uint32_t rnr_naks_since_progress = 0;
    uint64_t messages_sent = 0;
    int64_t naked = -1;                // the packet the last NAK for a gap asked for
    bool expected_arrived = true;      // since then
    bool responder_is_silent = false;  // it has sent its last word
  };

  Direction* Find(const transport::Packet& packet);
  static int64_t Unwrap(const Direction& direction, transport::Psn psn, int64_t near);
  static int64_t PacketsOf(const Direction& direction, const transport::Packet& request);
  void CheckSender(Direction& direction, const transport::Packet& packet);
  void OnRequestSent(Direction& direction, const transport::Packet& packet);
  void OnResponseSent(Direction& direction, const transport::Packet& packet);
  void OnRequestDelivered(Direction& direction, const transport::Packet& packet);
  void OnResponseDelivered(Direction& direction, const transport::Packet& packet);
  static void Progress(Direction& direction, int64_t acknowledged_end);

  Verdict& verdict_;
  bool strict_;
  std::map<transport::Qpn, Direction> directions_;  // by the requester
  std::map<transport::Qpn, transport::Qpn> peers_;
};

}  // namespace uroce::simulation
