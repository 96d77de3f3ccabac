#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dpdk_nic/port/port_drops.h"
#include "transport/cm/identifiers.h"
#include "transport/ids.h"
#include "transport/peer_progress.h"
#include "transport/route.h"
#include "transport/wire/frame_room.h"
#include "transport/wire/icrc.h"
#include "transport/wire/received_packet.h"

namespace uroce::nic {

// Moves RoCEv2 packets between an engine and a wire, mostly as Ethernet frames (no FCS). They are
// built and read in place.
//
// All calls are made under the engine's lock, possibly from different threads. No call blocks.
class PacketPort : public transport::PeerProgress {
 public:
  struct ReceivedFrame {
    // An Ethernet frame, or a bare one; with `packet` the packet from its BTH to its ICRC.
    std::span<const uint8_t> bytes;
    transport::Route from = transport::Route::kWire;
    // Of a frame: kWaived, if it came from a process that agreed to do without ICRCs.
    transport::IcrcUse icrc = transport::IcrcUse::kCarried;
    // Set by a port that carries packets without headers: the packet, whose ICRC was computed. No
    // other process can change it.
    const transport::ReceivedPacket* packet = nullptr;
  };

  // Begins a receive burst: Receive is called next, until it returns no frame or the burst is long
  // enough. Here a port makes checks that each polling pass needs, but not each verb.
  virtual void BeginReceiveBurst() {}
  // The next received frame; its bytes are empty when there is none now. It stays valid until
  // ReleaseReceived, which must be called before the next Receive. The bytes may be changed by
  // another process at any time.
  virtual ReceivedFrame Receive() = 0;
  virtual void ReleaseReceived() = 0;
  // Receive for a caller that looks at headers: a packet without them gets some, in `room`, which
  // holds transport::kMaxFrameBytes. Its ICRC is right or wrong as it was received.
  ReceivedFrame ReceiveEthernet(std::span<uint8_t> room);
  // Sends an Ethernet frame that lies elsewhere. False if the route takes none now.
  bool SendEthernet(transport::Route route, std::span<const uint8_t> frame);
  // The Ethernet frame of a received packet, in `room`.
  std::span<const uint8_t> EthernetFrameOf(const ReceivedFrame& received,
                                           std::span<uint8_t> room) const;

  // A buffer for the next frame to send by `route`, or an empty one if the route takes none now
  // (back-pressure: try again later). It holds transport::kMaxFrameBytes, or the longest frame of
  // an endpoint with the port's MTU if that is shorter. A packet whose flow has no destination is
  // dropped. A port without a peer takes frames and drops them; while it still looks for the peer
  // it keeps some. Asking again for the same route without committing gives the same buffer. A port
  // without links is asked for the wire only, and for kLoopback if it carries that.
  virtual transport::FrameRoom AcquireTransmit(transport::Route route) = 0;
  // Queues the frame that was built in the buffer acquired last.
  virtual void CommitTransmit(size_t frame_bytes) = 0;
  // Makes everything committed and released visible to the other side; ends a burst. Not called by
  // a verb that committed nothing.
  virtual void Flush() = 0;
  // Like Flush, but work that costs a system call may wait for more frames: the thread that drives
  // the engine calls Flush before long.
  virtual void FlushSoon() { Flush(); }

  // A port that can spoil or lose frames knows nothing of its peers.
  bool HasAnswered(transport::Route /*route*/, transport::Time /*sent*/,
                   transport::Time /*now*/) override {
    return true;
  }
  // All answers to the frames that were received by `route` are committed: the peer may be told.
  virtual void TellAnswered(transport::Route /*route*/) {}
  // The route of a process that has ended, a moment after all that it sent was received. Called
  // after ServeLink until it returns nullopt.
  virtual std::optional<transport::Route> TakeGonePeer() { return std::nullopt; }

  // Whether the port also takes frames by Route::kLoopback and returns them by Receive, together
  // with a copy of each multicast RoCEv2 frame that it sends. If not, the engine hands them to the
  // endpoint itself, which costs less.
  virtual bool carries_loopback() const { return false; }
  // Whether Route::kWire carries Ethernet frames of any kind in both directions, whole and
  // unchanged.
  virtual bool carries_ethernet() const { return false; }
  // Whether the port keeps frames that need another pass to be sent or received, even if nothing
  // arrives.
  virtual bool keeps_frames() const { return false; }

  // PreparePath and JoinGroup set up what frames need before they can flow. The caller repeats the
  // call while it returns kPending.
  enum class PathState : uint8_t {
    kReady,
    kPending,
    kUnreachable,  // no peer; frames are dropped until the path is asked for again
    kRefused,      // another process has that path, or too many are in use
  };
  // The way from a queue pair to the one it connects with; without `remote` the way of datagrams to
  // and from all hosts beyond the wire.
  struct Path {
    transport::Route route = transport::Route::kWire;
    transport::Qpn local;
    transport::Qpn remote;
    transport::Gid remote_gid;
    transport::Gid alternate_gid{};  // of the path for migration; zero: none
  };
  virtual PathState PreparePath(const Path& /*path*/) { return PathState::kReady; }
  // The longest IP packet, in bytes, that a prepared path takes, as far as the port knows.
  virtual uint32_t PathMtu(const Path& /*path*/) const { return mtu(); }
  // Withdraws the path of a queue pair that is no longer connected.
  virtual void ForgetPath(transport::Qpn /*local*/) {}
  // Receives datagrams to a multicast group until LeaveGroup. Joining again changes nothing.
  virtual PathState JoinGroup(const transport::Gid& /*group*/) { return PathState::kReady; }
  virtual void LeaveGroup(const transport::Gid& /*group*/) {}
  // How many groups the port has room for now; SIZE_MAX: no limit.
  virtual size_t max_groups() const { return SIZE_MAX; }

  // A service of the connection manager at an address that this process binds to.
  struct Service {
    transport::cm::ServiceId id;
    transport::Gid address;  // zero: all addresses; ::ffff:0.0.0.0: all IPv4 addresses
    // With a zero address: all IPv6 addresses only, which conflict with no service at an IPv4 one.
    bool only_ipv6 = false;
    // Other processes may have the service as well, if all of them set this.
    bool shares = false;
    // Requests for the service go to this process: its connection manager listens already.
    bool listens = false;

    bool operator==(const Service&) const = default;
  };
  enum class ServiceState : uint8_t {
    kReserved,
    kPending,  // no answer yet
    kInUse,    // by another process
    kNoRoom,   // for more services, of this process or of all
  };
  // The caller repeats the call while it returns kPending. Reserving again changes `shares` and
  // `listens`, or nothing if it is refused. The services of this process do not conflict with each
  // other here. Without other processes every service is free.
  virtual ServiceState ReserveService(const Service& /*service*/) {
    return ServiceState::kReserved;
  }
  // Ignores `shares` and `listens`. Other processes can reserve the service once IsReleased.
  virtual void ReleaseService(const Service& /*service*/) {}
  virtual bool IsReleased(const Service& /*service*/) const { return true; }

  // An XRC domain that processes of this host share by a file (ibv_open_xrcd). `fd` stays the
  // caller's, and open until CloseXrcDomain. `handle` is new in each opening.
  struct XrcDomain {
    uint64_t handle;
    int fd;
    bool creates;
    bool exclusive;
  };
  // `key` is zero where there are no other processes.
  struct XrcOpening {
    bool is_answered = false;
    int error = 0;  // an errno
    transport::XrcKey key{};
  };
  // The caller repeats the call until it is answered, or gives up with CloseXrcDomain.
  virtual XrcOpening OpenXrcDomain(const XrcDomain& /*domain*/) { return {.is_answered = true}; }
  virtual void CloseXrcDomain(uint64_t /*handle*/) {}
  virtual bool IsXrcDomainClosed(uint64_t /*handle*/) const { return true; }

  // Sleeping. BeginSleep announces that no thread polls from now on and returns false if there is
  // work already (then do not sleep). While asleep the wait_fd becomes readable when a frame
  // arrives. EndSleep withdraws the announcement and drains the fd; harmless when not asleep.
  // A port that cannot wake a sleeper has wait_fd() == -1 and must be polled.
  virtual int wait_fd() const { return -1; }
  virtual bool BeginSleep() { return true; }
  virtual void EndSleep() {}

  // Slow work that has no place in a pass: peers that come and go, links that must be restarted.
  // Called about once a millisecond while a thread drives the engine, and after every sleep.
  //
  // One thread may call this while another sleeps or is about to: once readable, wait_fd must stay
  // readable until EndSleep. A call that drains the socket behind it must make wait_fd readable by
  // other means, as a peer sends one wake-up for each sleep.
  virtual void ServeLink() {}

  // Around fork(): between the two calls every thread of the port is idle.
  virtual void BeforeFork() {}
  virtual void AfterForkInParent() {}
  // In a forked child, before any other call: closes the descriptors that only the parent may hold
  // (a copy of a socket would hide the parent's end from its peer). Only async-signal-safe calls.
  // No other call follows, not even the destructor: the memory stays as it is.
  virtual void AbandonAfterFork() {}

  // A message for the user.
  struct Notice {
    std::string sentence;  // says what to do; without full stop; mostly empty
    transport::Gid about;  // the host concerned; zero: all hosts
  };
  // The caller takes it after PreparePath and ServeLink, and prints it without the lock.
  virtual Notice TakeNotice() { return {}; }

  // The GID table, if addresses came or went since the last call. Called after ServeLink.
  virtual std::optional<std::vector<transport::Gid>> TakeGids() { return std::nullopt; }

  using Counters = PortCounters;
  virtual Counters counters() const { return {}; }

  virtual transport::MacAddress mac() const = 0;
  // Largest IP packet in bytes (the netdev's MTU).
  virtual uint32_t mtu() const = 0;
  virtual bool link_up() const = 0;
  // Whether verbs report the port as active. Links between two processes always are: without a peer
  // their frames are lost, as on any cable, and programs expect an active port before their peer is
  // started. An Ethernet port follows its carrier.
  virtual bool active() const { return true; }
  // Whether the port is gone for good, such as a NIC that was removed.
  virtual bool failed() const { return false; }
};

}  // namespace uroce::nic
