#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dpdk_nic/port/packet_port.h"
#include "transport/wire/frame_builder.h"

namespace uroce::nic {

// The port of a switch as one that carries Ethernet, whether it does or carries packets without the
// headers of the network.
class EthernetWire {
 public:
  // `port` outlives this; nullptr if there is none, and nothing may be called then.
  explicit EthernetWire(PacketPort* port) : port_(port) {}

  // The next frame, valid until PacketPort::ReleaseReceived; empty if there is none now.
  std::span<const uint8_t> Receive() { return port_->ReceiveEthernet(arrival_).bytes; }
  // A buffer for the next frame, of transport::kMaxFrameBytes; empty if the port takes none now.
  std::span<uint8_t> Acquire();
  // Sends the frame that was built in the buffer acquired last.
  void Commit(size_t frame_bytes);

 private:
  PacketPort* const port_;
  std::array<uint8_t, transport::kMaxFrameBytes> arrival_;
  std::array<uint8_t, transport::kMaxFrameBytes> departure_;
};

}  // namespace uroce::nic
