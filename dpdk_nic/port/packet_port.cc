#include "dpdk_nic/port/packet_port.h"

#include "dpdk_nic/link_layer/link_layer.h"
#include "transport/wire/encapsulation.h"

namespace uroce::nic {

PacketPort::ReceivedFrame PacketPort::ReceiveEthernet(std::span<uint8_t> room) {
  const ReceivedFrame received = Receive();
  if (received.packet == nullptr) return received;
  return {.bytes = EthernetFrameOf(received, room), .from = received.from};
}

bool PacketPort::SendEthernet(transport::Route route, std::span<const uint8_t> frame) {
  const transport::FrameRoom room = AcquireTransmit(route);
  if (room.empty()) return false;
  transport::CopyFrame(frame, room);
  CommitTransmit(frame.size());
  return true;
}

std::span<const uint8_t> PacketPort::EthernetFrameOf(const ReceivedFrame& received,
                                                     std::span<uint8_t> room) const {
  transport::Flow flow = *received.packet->flow;
  flow.destination_mac = MulticastMac(flow.destination).value_or(mac());
  return transport::Encapsulate(flow, received.packet->identification, received.bytes, room);
}

}  // namespace uroce::nic
