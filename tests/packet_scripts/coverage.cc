#include "tests/packet_scripts/coverage.h"

namespace uroce::transport::packet_scripts {

namespace {

constexpr NamedCounter kCounters[] = {
    {"transmitted_packets", &Counters::transmitted_packets},
    {"transmitted_bytes", &Counters::transmitted_bytes},
    {"received_packets", &Counters::received_packets},
    {"received_bytes", &Counters::received_bytes},
    {"retransmitted_packets", &Counters::retransmitted_packets},
    {"ack_timeouts", &Counters::ack_timeouts},
    {"probes", &Counters::probes},
    {"retries_exceeded", &Counters::retries_exceeded},
    {"psn_naks_received", &Counters::psn_naks_received},
    {"implied_naks", &Counters::implied_naks},
    {"rnr_naks_received", &Counters::rnr_naks_received},
    {"rnr_retries_exceeded", &Counters::rnr_retries_exceeded},
    {"psn_naks_sent", &Counters::psn_naks_sent},
    {"rnr_naks_sent", &Counters::rnr_naks_sent},
    {"error_naks_sent", &Counters::error_naks_sent},
    {"duplicate_requests", &Counters::duplicate_requests},
    {"memory_gone", &Counters::memory_gone},
};

}  // namespace

std::span<const NamedCounter> NamedCounters() { return kCounters; }

void Coverage::Add(const Counters& seen) {
  for (const NamedCounter& counter : kCounters) {
    if (seen.*counter.member != 0) counters.insert(counter.name);
  }
}

Coverage& coverage() {
  static Coverage instance;
  return instance;
}

uint8_t KindOf(Syndrome syndrome) {
  switch (syndrome.kind()) {
    case Syndrome::Kind::kAck:
      return Syndrome::Ack(0).wire_byte();
    case Syndrome::Kind::kRnrNak:
      return Syndrome::RnrNak(0).wire_byte();
    default:
      return syndrome.wire_byte();
  }
}

}  // namespace uroce::transport::packet_scripts
