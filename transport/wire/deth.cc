#include "transport/wire/deth.h"

#include "transport/wire/byte_order.h"

namespace uroce::transport {

Deth ParseDeth(const uint8_t* bytes) {
  return {.qkey = Load32(bytes), .source_qpn = Qpn{Low24(Load32(bytes + 4))}};
}

void EmitDeth(const Deth& deth, uint8_t* bytes) {
  Store32(deth.qkey, bytes);
  Store32(Low24(deth.source_qpn.value), bytes + 4);
}

}  // namespace uroce::transport
