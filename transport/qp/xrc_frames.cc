#include "transport/qp/xrc_frames.h"

#include <cstring>

#include "transport/limits.h"

namespace uroce::transport {
namespace {

constexpr uint16_t kFirstPort = 0xc000;  // as of all RoCEv2 senders
static_assert(kMaxQps == 1 << 14, "a UDP source port of RoCEv2 has 14 free bits");

}  // namespace

FrameBuilder XrcRelayBuilder(const EndpointConfig& config, Qpn target) {
  const auto port = static_cast<uint16_t>(kFirstPort | target.value % kMaxQps);
  return {config.mac, config.gids[0], {.destination_gid = kXrcRelayGid}, port};
}

size_t EmitXrcStreamChange(const FrameBuilder& builder, const XrcStreamChange& change, Psn psn,
                           Route to, const FrameRoom& out) {
  TransportHeaders headers;
  headers.opcode.service = Service::kExtendedReliableConnection;
  headers.destination_qpn = {BlockOf(to) * kMaxQps};
  headers.psn = psn;
  headers.xrceth.srqn = XrcStreamChange::kSrqn;
  const PayloadPiece payload = {reinterpret_cast<const uint8_t*>(&change), sizeof change};
  return builder.Emit(headers, {&payload, 1}, out);
}

Qpn XrcTargetOf(const Packet& packet) {
  return {BlockOf(packet.from) * kMaxQps + packet.flow.source_port % kMaxQps};
}

std::optional<XrcStreamChange> ReadXrcStreamChange(const Packet& packet) {
  const bool is_change = packet.opcode.operation == Operation::kSend &&
                         packet.xrceth.srqn == XrcStreamChange::kSrqn &&
                         packet.payload.size() == sizeof(XrcStreamChange);
  if (!is_change) return std::nullopt;
  XrcStreamChange change;
  std::memcpy(&change, packet.payload.data(), sizeof change);
  return change;
}

}  // namespace uroce::transport
