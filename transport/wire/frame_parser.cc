#include "transport/wire/frame_parser.h"

#include "transport/wire/encapsulation.h"
#include "transport/wire/packet_view.h"

namespace uroce::transport {

DropReason ParseFrame(std::span<const uint8_t> frame, Packet& packet, IcrcUse icrc) {
  Decapsulator decapsulator;
  ReceivedPacket received;
  const DropReason reason = decapsulator.Strip(frame, icrc, received);
  if (reason != DropReason::kNone) return reason;
  packet = Packet{};
  return ParseReceived(received, ViewPacket(received.bytes), packet);
}

}  // namespace uroce::transport
