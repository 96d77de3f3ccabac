#include "transport/mad_frame.h"

#include "transport/wire/frame_builder.h"

namespace uroce::transport {

size_t EmitMadFrame(const MacAddress& source_mac, const Gid& source_gid, const cm::MadAddress& to,
                    const MadBytes& mad, Psn psn, FrameRoom out) {
  const FrameBuilder builder(source_mac, source_gid, to.path,
                             UdpSourcePort(to.path.flow_label, kGeneralServicesQpn, to.qpn));
  TransportHeaders headers;
  headers.opcode.service = Service::kUnreliableDatagram;
  headers.destination_qpn = to.qpn;
  headers.psn = psn;
  headers.deth = {.qkey = kGeneralServicesQkey, .source_qpn = kGeneralServicesQpn};
  const PayloadPiece payload{mad.data(), mad.size()};
  return builder.Emit(headers, {&payload, 1}, out);
}

}  // namespace uroce::transport
