#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/cm/steering.h"
#include "transport/ids.h"
#include "transport/peers/peer_query.h"
#include "transport/wire/flow.h"
#include "transport/wire/mad.h"
#include "transport/wire/opcode.h"

namespace uroce::nic {

// The first bytes of a frame, copied once out of memory that another process may change: the switch
// sends on the bytes that it checked. No header that the switch reads lies behind them.
class FrameHead {
 public:
  // Ethernet 14, IPv6 40, UDP 8, BTH 12, DETH 8, MAD 44, rounded up.
  static constexpr size_t kBytes = 128;

  explicit FrameHead(std::span<const uint8_t> frame);

  const uint8_t* at(size_t offset) const { return bytes_.data() + offset; }
  // Writes the whole of `frame`, from which the head was copied, to `out`: the copied head, then
  // the rest of `frame`.
  void WriteFrame(std::span<const uint8_t> frame, uint8_t* out) const;

 private:
  std::array<uint8_t, kBytes> bytes_;
};

// The headers of a RoCEv2 frame, as far as the switch needs them.
struct RoceHeaders : transport::Flow {
  // nullopt if it is unknown.
  std::optional<transport::Opcode> opcode;
  transport::Qpn destination_qpn;
  transport::Qpn source_qpn;                  // of datagrams
  std::optional<transport::cm::Steering> cm;  // of datagrams to kManagementQpn with a CM message
  std::optional<transport::PeerQuery> peer_query;  // of those with a query, or its answer
  size_t packet_end = 0;  // in bytes from the beginning of the frame; padding may follow

  bool IsDatagram() const {
    return opcode && opcode->service == transport::Service::kUnreliableDatagram;
  }
};

// The destination of management datagrams (GSI).
inline constexpr transport::Qpn kManagementQpn = transport::kGeneralServicesQpn;

enum class FrameKind : uint8_t {
  kRoce,
  kMalformed,  // to the UDP port of RoCEv2, but no RoCEv2 packet
  kOther,      // not to that port
};

// Fills `headers` of a frame of `frame_bytes` that begins with `head`. Does not check the ICRC: the
// receiver does.
FrameKind Classify(const FrameHead& head, size_t frame_bytes, RoceHeaders* headers);

}  // namespace uroce::nic
