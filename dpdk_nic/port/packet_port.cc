#include "dpdk_nic/port/packet_port.h"

#include <algorithm>

#include "dpdk_nic/link_layer/link_layer.h"
#include "transport/wire/encapsulation.h"

namespace uroce::nic {

PacketPort::ReceivedFrame PacketPort::ReceiveEthernet(std::span<uint8_t> room) {
  const ReceivedFrame received = Receive();
  if (received.packet == nullptr) return received;
  return {.bytes = EthernetFrameOf(received, room), .from = received.from};
}

std::span<const uint8_t> PacketPort::EthernetFrameOf(const ReceivedFrame& received,
                                                     std::span<uint8_t> room) const {
  const transport::Flow& flow = *received.packet->flow;
  uint8_t* const end = transport::EmitNetworkHeaders(
      flow, MulticastMac(flow.destination).value_or(mac()), received.packet->identification,
      received.bytes.size(), room.data());
  return {room.data(), std::copy(received.bytes.begin(), received.bytes.end(), end)};
}

}  // namespace uroce::nic
