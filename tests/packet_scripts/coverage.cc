#include "tests/packet_scripts/coverage.h"

namespace uroce::transport::packet_scripts {

void Coverage::Add(const Counters& seen) {
  for (const QueuePairCounterRow& counter : kQueuePairCounters) {
    if (seen.*counter.of_endpoint != 0) counters.insert(counter.name);
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
