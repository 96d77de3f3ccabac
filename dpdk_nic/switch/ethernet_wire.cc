#include "dpdk_nic/switch/ethernet_wire.h"

#include "transport/route.h"
#include "transport/wire/encapsulation.h"
#include "transport/wire/frame_room.h"

namespace uroce::nic {

using transport::Route;

std::span<uint8_t> EthernetWire::Acquire() {
  const transport::FrameRoom room = port_->AcquireTransmit(Route::kWire);
  if (room.empty() || room.flow == nullptr) return room;
  return departure_;
}

void EthernetWire::Commit(size_t frame_bytes) {
  const transport::FrameRoom room = port_->AcquireTransmit(Route::kWire);  // the one acquired last
  if (room.flow != nullptr) transport::CopyFrame(std::span(departure_).first(frame_bytes), room);
  port_->CommitTransmit(frame_bytes);
}

}  // namespace uroce::nic
