#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/counters.h"
#include "transport/ids.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/flow.h"
#include "transport/wire/frame_room.h"
#include "transport/wire/icrc.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/received_packet.h"
#include "transport/wire/udp.h"

// The Ethernet, IP and UDP headers around a RoCEv2 packet. All code that reads or writes them as a
// whole is here.
//
// Frames are Ethernet frames without FCS, possibly with trailing Ethernet padding. They may lie in
// memory that another process can change: each field is read once.
namespace uroce::transport {

inline constexpr size_t kMaxNetworkHeaderBytes =
    EthernetHeader::kBytes + Ipv6Header::kBytes + UdpHeader::kBytes;

// The headers of a UDP packet in a frame. Lengths are what the headers say: they are compared
// neither with each other nor with the frame.
struct NetworkHeaders {
  Flow flow;
  IpVersion version = IpVersion::kIpv4;
  // IPv4: no fragment, and the header's checksum is right (IBA CA17-3, CA17-8). IPv6: no address is
  // an IPv4-mapped one. These do not belong on a wire: such a packet would pass for one of an IPv4
  // peer (RFC 4291 2.5.5.2 defines them for use within a host).
  bool is_valid = false;
  uint16_t identification = 0;  // of IPv4
  size_t ip_bytes = 0;          // of the IP packet, its header included
  size_t udp_at = 0;            // where the UDP header begins in the frame
  uint16_t destination_port = 0;
  uint16_t udp_bytes = 0;

  bool is_roce() const { return destination_port == UdpHeader::kRocePort; }
  size_t ip_header_bytes() const { return udp_at - EthernetHeader::kBytes; }
  size_t bth_at() const { return udp_at + UdpHeader::kBytes; }
  // Whether the IP packet is valid, and ends where the UDP packet does.
  bool is_whole() const { return is_valid && ip_bytes == ip_header_bytes() + udp_bytes; }
  // Where the UDP packet ends in the frame.
  size_t end() const { return udp_at + udp_bytes; }
};

// nullopt unless the frame begins with Ethernet, IPv4 without options or IPv6, and UDP headers.
std::optional<NetworkHeaders> ReadNetworkHeaders(std::span<const uint8_t> frame);

// The same for a frame to the UDP port of RoCEv2 with room for a BTH and an ICRC. Damaged frames
// pass: nothing else is compared.
std::optional<NetworkHeaders> FindRocePacket(std::span<const uint8_t> frame);

// Removes the headers of the network. Checks what can be checked of them: lengths, the checksum of
// an IPv4 header, the UDP port, room for a BTH and an ICRC. The ICRC is only computed. The UDP
// checksum is not checked: the ICRC is stronger and covers all its bytes.
//
// Most frames have the headers of the last one. Then nothing is parsed.
class Decapsulator {
 public:
  // Unless it is IcrcUse::kCarried, there is no ICRC.
  //
  // Returns kNone, or why the frame is to be dropped, silently (IBA CA17-24); `packet` is then
  // undefined. It points into the frame and, until the next call, to this object.
  DropReason Strip(std::span<const uint8_t> frame, IcrcUse icrc, ReceivedPacket& packet);

 private:
  template <IpVersion kVersion>
  bool IsLikeLast(std::span<const uint8_t> frame, IcrcUse icrc, ReceivedPacket& packet);
  template <IpVersion kVersion>
  void Take(std::span<const uint8_t> frame, size_t udp_bytes, IcrcUse icrc, ReceivedPacket& packet);
  DropReason StripOther(std::span<const uint8_t> frame, IcrcUse icrc, ReceivedPacket& packet);
  DropReason Check(size_t frame_bytes, NetworkHeaders& headers) const;

  std::optional<IpVersion> version_;  // of the last frame; none: it was no RoCEv2 packet
  Flow flow_;
  // Its headers: a copy that no other process can change.
  std::array<uint8_t, kMaxNetworkHeaderBytes> last_{};
};

// How many bytes of an Ethernet frame lie before the BTH.
inline size_t NetworkHeaderBytes(const Flow& flow) {
  return EthernetHeader::kBytes + (flow.is_ipv6() ? Ipv6Header::kBytes : Ipv4Header::kBytes) +
         UdpHeader::kBytes;
}

// Writes the headers of a packet of `packet_bytes` from the BTH to the ICRC. Returns the place
// behind them: `out` has room for kMaxNetworkHeaderBytes.
uint8_t* EmitNetworkHeaders(const Flow& flow, uint16_t identification, size_t packet_bytes,
                            uint8_t* out);
// Writes the IP header alone, 20 or 40 bytes.
uint8_t* EmitIpHeader(const Flow& flow, uint16_t identification, size_t packet_bytes, uint8_t* out);

// Writes the Ethernet frame of a packet, which goes from the BTH to the ICRC. Returns its part of
// `out`.
std::span<const uint8_t> Encapsulate(const Flow& flow, uint16_t identification,
                                     std::span<const uint8_t> packet, std::span<uint8_t> out);

// The Ethernet frame of `frame_bytes` that was built in `built`: what lies there or, for a packet
// without headers, a copy in `room`.
std::span<const uint8_t> BuiltFrame(const FrameRoom& built, size_t frame_bytes,
                                    std::span<uint8_t> room);
// The other way: copies an Ethernet frame to `room`, without its headers if the room is for a
// packet. An identification of IPv4 is lost. The flow has no destination if the frame is no RoCEv2
// packet, its lengths contradict each other, or its IP header is not valid.
void CopyFrame(std::span<const uint8_t> frame, const FrameRoom& room);

// Whether a frame is UDP over IPv4 or IPv6 without extension headers.
bool IsUdp(std::span<const uint8_t> frame);

// Writes the ICRC of a RoCEv2 frame that was built without it. Other frames are left alone.
void FillInIcrc(std::span<uint8_t> frame);

}  // namespace uroce::transport
