#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transport/address.h"
#include "transport/endpoint_config.h"
#include "transport/qp/queue_pair.h"
#include "transport/qp_attributes.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/packet.h"

namespace uroce::transport {

inline constexpr MacAddress kOurMac{2, 0, 0, 0, 0, 1};
inline constexpr MacAddress kPeerMac{2, 0, 0, 0, 0, 2};
inline constexpr Gid kOurGid = Gid::FromIpv4({10, 0, 0, 1});
inline constexpr Gid kPeerGid = Gid::FromIpv4({10, 0, 0, 2});
inline constexpr Gid kUnknownPeerGid = Gid::FromIpv4({10, 0, 0, 3});

// An endpoint that asks no peer what it speaks, so that all it sends belongs to a queue pair.
inline EndpointConfig FuzzEndpointConfig() {
  return {
      .mac = kOurMac, .gids = {Gid::LinkLocal(kOurMac), kOurGid}, .qpn_count = 64, .features = 0};
}

// The frame in which `source` sends a packet to the endpoint under test.
inline std::vector<uint8_t> FrameFrom(const Gid& source, const TransportHeaders& headers,
                                      std::span<const uint8_t> payload) {
  const AddressVector address = {.destination_gid = kOurGid, .destination_mac = kOurMac};
  const FrameBuilder builder(kPeerMac, source, address, 0xc000);
  const PayloadPiece piece{payload.data(), payload.size()};
  std::vector<uint8_t> frame(kMaxFrameBytes + payload.size());
  frame.resize(builder.Emit(headers, {&piece, 1}, frame));
  return frame;
}

// Parameters that the requester and responder of a connection share.
struct FuzzConnection {
  Mtu mtu = Mtu::k256;
  Qpn peer_qpn{0x77};
  Psn first_psn;
  uint32_t access = 0;
  uint8_t max_read_atomic = 2;
  uint8_t timeout = 14;
  uint8_t retry_count = 2;
  uint8_t rnr_retry = 2;
};

inline constexpr uint32_t kFuzzQkey = 0x1111;
inline constexpr uint8_t kFuzzRnrTimer = 5;

// Takes a queue pair in RESET, of any type, as far as `target`: INIT, RTR or RTS.
void Connect(QueuePair& qp, const FuzzConnection& connection, QpState target);

}  // namespace uroce::transport
