#include "tests/interop/replay/flow.h"

#include <algorithm>
#include <optional>

namespace uroce::transport::interop {
namespace {

MacAddress DestinationMac(const CapturedFrame& frame) {
  MacAddress mac;
  std::copy_n(frame.bytes.begin(), mac.size(), mac.begin());
  return mac;
}

bool IsUsable(const CapturedFrame& frame) {
  return frame.verdict == DropReason::kNone && !frame.IsManagement();
}

// Full packets are as long as the path MTU.
std::optional<Mtu> MtuOf(const Packet& packet) {
  const Position position = packet.opcode.position;
  if (position != Position::kFirst && position != Position::kMiddle) return std::nullopt;
  for (const Mtu mtu : {Mtu::k256, Mtu::k512, Mtu::k1024, Mtu::k2048, Mtu::k4096}) {
    if (Bytes(mtu) == packet.payload.size()) return mtu;
  }
  return std::nullopt;
}

bool IsAnswerTo(const Packet& answer, const Packet& request, Mtu mtu) {
  if (!answer.opcode.IsResponse() || answer.opcode.service != request.opcode.service) return false;
  if (answer.flow.source != request.flow.destination) return false;
  const int32_t distance = answer.psn.DistanceFrom(request.psn);
  return distance >= 0 && distance < static_cast<int32_t>(PsnsOf(request, mtu));
}

// No request contains the requester's QPN; the answers go to it.
void FindRequester(const Capture& capture, Flow& flow) {
  for (const CapturedFrame& request : capture) {
    if (!flow.HasRequest(request)) continue;
    for (const CapturedFrame& answer : capture) {
      if (!IsUsable(answer)) continue;
      const Packet& packet = answer.packet;
      const bool is_answer = flow.service == Service::kReliableConnection
                                 ? IsAnswerTo(packet, request.packet, flow.mtu)
                                 : packet.flow.source == flow.responder.gid &&
                                       packet.flow.destination == flow.requester.gid;
      if (!is_answer) continue;
      flow.requester.qpn = packet.destination_qpn;
      return;
    }
  }
}

void FindMtu(const Capture& capture, Flow& flow) {
  for (const CapturedFrame& frame : capture) {
    if (!IsUsable(frame)) continue;
    const Packet& packet = frame.packet;
    // READ responses go in the opposite direction of the requests.
    const bool belongs = packet.opcode.IsResponse() ? packet.flow.source == flow.responder.gid
                                                    : flow.HasRequest(frame);
    if (!belongs) continue;
    if (const auto mtu = MtuOf(packet)) {
      flow.mtu = *mtu;
      return;
    }
  }
}

}  // namespace

uint32_t PsnsOf(const TransportHeaders& request, Mtu mtu) {
  if (request.opcode.operation != Operation::kReadRequest || request.reth.dma_length == 0) return 1;
  return (request.reth.dma_length - 1) / Bytes(mtu) + 1;
}

bool Flow::HasRequest(const CapturedFrame& frame) const {
  return IsUsable(frame) && !frame.packet.opcode.IsResponse() &&
         frame.packet.flow.destination == responder.gid &&
         frame.packet.destination_qpn == responder.qpn;
}

bool Flow::HasAnswer(const CapturedFrame& frame) const {
  return IsUsable(frame) && frame.packet.opcode.IsResponse() &&
         frame.packet.flow.destination == requester.gid &&
         frame.packet.destination_qpn == requester.qpn;
}

std::vector<Flow> FindFlows(const Capture& capture) {
  std::vector<Flow> flows;
  for (const CapturedFrame& frame : capture) {
    const Packet& packet = frame.packet;
    if (!IsUsable(frame) || packet.opcode.IsResponse()) continue;
    const auto known =
        std::ranges::find_if(flows, [&](const Flow& flow) { return flow.HasRequest(frame); });
    if (known == flows.end()) {
      flows.push_back(
          {.service = packet.opcode.service,
           .requester = {packet.flow.source_mac, packet.flow.source, packet.deth.source_qpn},
           .responder = {DestinationMac(frame), packet.flow.destination, packet.destination_qpn},
           .first_psn = packet.psn});
    } else if (packet.psn.IsBefore(known->first_psn)) {
      known->first_psn = packet.psn;
    }
  }
  for (Flow& flow : flows) {
    FindMtu(capture, flow);
    if (flow.service != Service::kUnreliableDatagram) FindRequester(capture, flow);
  }
  return flows;
}

}  // namespace uroce::transport::interop
