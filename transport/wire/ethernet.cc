#include "transport/wire/ethernet.h"

#include <cstring>

#include "transport/wire/byte_order.h"

namespace uroce::transport {

EthernetHeader ParseEthernet(const uint8_t* bytes) {
  EthernetHeader ethernet;
  std::memcpy(ethernet.destination.data(), bytes, 6);
  std::memcpy(ethernet.source.data(), bytes + 6, 6);
  ethernet.ether_type = Load16(bytes + 12);
  return ethernet;
}

void EmitEthernet(const EthernetHeader& ethernet, uint8_t* bytes) {
  std::memcpy(bytes, ethernet.destination.data(), 6);
  std::memcpy(bytes + 6, ethernet.source.data(), 6);
  Store16(ethernet.ether_type, bytes + 12);
}

}  // namespace uroce::transport
