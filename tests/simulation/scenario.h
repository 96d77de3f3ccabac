#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulation/impairments.h"
#include "transport/psn.h"
#include "transport/qp_attributes.h"
#include "transport/time.h"

namespace uroce::transport::simulation {

// The fault that a connection gets on purpose, besides those of the wire.
enum class Poison : uint8_t {
  kNone,
  kBadRkey,         // RDMA or atomic with a key that does not exist
  kOutOfRange,      // ... beyond the end of the region
  kNoRemoteAccess,  // ... in a region that does not permit it
  kMisalignedAtomic,
  kBadLkey,                 // an SGE names a key that does not exist
  kReadOnlySink,            // a READ into memory without local write access
  kReceiveTooSmall,         // a SEND longer than the receive request
  kForeignLocalInvalidate,  // of a window that another queue pair owns
  kForeignSendInvalidate,   // ... of the peer
  kMoveToError,             // the application moves the queue pair to ERR at request `poison_at`
  kErrorAtRandom,           // ... at any time
  kNoExposedMemory,         // the application deregisters memory in use
  kNoSource,
  kNoSink,
  kNoInbox,
};
inline constexpr int kPoisons = 16;

// Whether the peer of a reliable service refuses a request with this poison.
constexpr bool IsRefused(Poison poison) {
  return (poison >= Poison::kBadRkey && poison <= Poison::kMisalignedAtomic) ||
         poison == Poison::kReceiveTooSmall || poison == Poison::kForeignSendInvalidate;
}
constexpr bool TakesMemoryAway(Poison poison) { return poison >= Poison::kNoExposedMemory; }

// One end of a connection.
struct EndScenario {
  int host = 0;
  Psn first_psn;  // of its requests
  uint8_t max_read_atomic = 1;
  uint8_t max_dest_read_atomic = 1;
  uint8_t timeout = 14;
  uint8_t retry_count = 7;
  bool timeout_too_short = false;  // shorter than the wire's round trip may be
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 1;
  QpCapabilities capabilities;
  bool signal_all = false;
  bool polls_late = false;  // polls now and then, not after every event
  bool posts_receives_late = false;
  bool posts_single_receives = false;
  bool shares_completion_queue = false;  // one queue for sends and receives
  bool overruns = false;                 // completion queues are too small
  bool is_restless = false;              // SQD and back, moves memory, resizes queues
  bool draws_from_shared_queue = false;  // receive requests come from the host's shared queue

  uint32_t work_requests = 0;  // to post
  uint32_t unsignaled_percent = 0;
  uint32_t one_kind = 0;  // 0: every kind of request; else mostly this kind
  Poison poison = Poison::kNone;
  uint32_t poison_at = 0;  // index of the work request
};

struct ConnectionScenario {
  // RC, UC, or kXrcSend for XRC from an initiator (the first end) to a target.
  QpType type = QpType::kReliableConnection;
  uint32_t sessions = 1;
  uint32_t poisoned_session = 0;
  bool ends_abruptly = false;     // sessions may end before their work is done
  uint32_t destroys_percent = 0;  // chance that the queue pair is destroyed at the end of a session
  Mtu mtu = Mtu::k1024;
  uint32_t max_message_bytes = 0;
  Duration think_time;  // longest pause between posts
  EndScenario ends[2];
};

// A datagram queue pair.
struct DatagramScenario {
  static constexpr uint32_t kGroups = 2;

  int host = 0;
  uint32_t groups = 0;  // bit i: attached to multicast group i
  QpCapabilities capabilities;
  uint32_t max_bytes = 0;      // longest datagram
  uint32_t receive_bytes = 0;  // room in a receive request
  Duration think_time;
  bool polls_late = false;
  bool posts_receives_late = false;
  bool draws_from_shared_queue = false;
  bool is_restless = false;  // SQD, SQE, ERR, RESET and back
  uint32_t work_requests = 0;
};

// The shared receive queue of a host.
struct SharedQueueScenario {
  uint32_t entries = 0;  // 0: there is none
  uint32_t bytes = 0;    // room in a request
  uint32_t max_sges = 1;
  Duration think_time;
  bool runs_dry = false;
};

struct Silence {
  int host;
  Time from;
  Time until;
};

// Everything that is decided before a run starts. A function of the seed.
struct Scenario {
  uint64_t seed = 0;
  int hosts = 2;
  bool ipv6 = false;
  Impairments impairments;
  Duration fault_phase;  // until the wire heals
  std::vector<Silence> silences;
  Duration frame_pacing;  // between two frames of a host; 0 = all at once
  std::vector<ConnectionScenario> connections;
  std::vector<DatagramScenario> datagrams;
  std::vector<SharedQueueScenario> shared_queues;  // by host
  std::vector<SharedQueueScenario> xrc_queues;     // by host: each of its XRC queues

  // The wire doubles frames or reorders them.
  bool WireScrambles() const {
    return impairments.duplicate_ppm != 0 || impairments.reorder_ppm != 0;
  }
  // Headers may be wrong under a right ICRC: then any data and any error is possible.
  bool DataMayBeWrong() const { return impairments.reseal_ppm != 0; }
};

Scenario MakeScenario(uint64_t seed);
// The same scenario, with most RC connections replaced by XRC.
Scenario MakeXrcScenario(uint64_t seed);
std::string Describe(const Scenario& scenario);

}  // namespace uroce::transport::simulation
