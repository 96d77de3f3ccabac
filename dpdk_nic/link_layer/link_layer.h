#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/ids.h"
#include "transport/time.h"

namespace uroce::nic {

// Finds the Ethernet address behind a GID, and speaks whatever protocol the wire has for that: ARP
// and neighbour discovery on Ethernet, nothing on a point-to-point link (StaticNeighbors).
//
// All calls are made under the engine's lock, possibly from different threads. No call blocks.
class LinkLayer {
 public:
  virtual ~LinkLayer() = default;

  // A received frame that is not UDP: anything but RoCEv2 traffic comes here first. Returns whether
  // it was for the link layer; otherwise the endpoint gets it (and counts it as dropped). The frame
  // may lie in memory that another process can change: read every byte once.
  virtual bool OnFrame(transport::Time now, std::span<const uint8_t> frame) = 0;

  // Builds the next frame that the link layer wants to send in `out` (PacketPort::AcquireTransmit).
  // Returns its length in bytes, or 0 when there is none.
  virtual size_t PollTransmit(transport::Time now, std::span<uint8_t> out) = 0;

  // Whether PollTransmit has something now.
  virtual bool HasTransmit() const = 0;

  // The address if it is known. If not, starts to ask for it: the caller calls again until its own
  // timeout.
  virtual std::optional<transport::MacAddress> Resolve(transport::Time now,
                                                       const transport::Gid& gid) = 0;

  // When OnDeadline wants to be called at the latest; kNever if no timer runs.
  virtual transport::Time NextDeadline() const { return transport::kNever; }
  virtual void OnDeadline(transport::Time /*now*/) {}

  // A neighbour whose address became known or changed since the last call; the engine tells the
  // endpoint, so that queue pairs follow. Called after every OnFrame that returned true, and about
  // once a millisecond.
  struct Neighbor {
    transport::Gid gid;
    transport::MacAddress mac{};
  };
  virtual std::optional<Neighbor> TakeChange() { return std::nullopt; }
};

// The Ethernet address of a multicast group: 01:00:5e and 23 bits of an IPv4 group (RFC 1112, 6.4),
// 33:33 and 32 bits of an IPv6 group (RFC 2464, 7). nullopt if `gid` is no multicast group.
std::optional<transport::MacAddress> MulticastMac(const transport::Gid& gid);

// The Ethernet address of a GID where there is no neighbour discovery:
//   a multicast group has its own (MulticastMac),
//   link-local GIDs that were made of a MAC address (modified EUI-64, RFC 4291) carry it,
//   ::ffff:a.b.c.d is 02:75:a:b:c:d (locally administered; 0x75 is 'u'),
//   any other IPv6 GID is 02:75 and its last four bytes.
transport::MacAddress MacAddressFor(const transport::Gid& gid);

// For point-to-point links (shared memory, memif): every address follows from the GID.
class StaticNeighbors : public LinkLayer {
 public:
  bool OnFrame(transport::Time, std::span<const uint8_t>) override { return false; }
  size_t PollTransmit(transport::Time, std::span<uint8_t>) override { return 0; }
  bool HasTransmit() const override { return false; }
  std::optional<transport::MacAddress> Resolve(transport::Time,
                                               const transport::Gid& gid) override {
    return MacAddressFor(gid);
  }
};

}  // namespace uroce::nic
