#include "transport/wire/aeth.h"

#include "transport/wire/byte_order.h"

namespace uroce::transport {

Aeth ParseAeth(const uint8_t* bytes) {
  const uint32_t word = Load32(bytes);
  return {.syndrome = Syndrome(HighByte(word)), .msn = Low24(word)};
}

void EmitAeth(const Aeth& aeth, uint8_t* bytes) {
  Store32(Word(aeth.syndrome.wire_byte(), aeth.msn), bytes);
}

}  // namespace uroce::transport
