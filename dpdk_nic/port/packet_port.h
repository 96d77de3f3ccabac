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
#include "transport/route.h"
#include "transport/wire/frame_room.h"
#include "transport/wire/icrc.h"

namespace uroce::nic {

// Moves Ethernet frames (no FCS) between an engine and a wire. Frames are built and read in place.
//
// All calls are made under the engine's lock, possibly from different threads. No call blocks.
class PacketPort {
 public:
  virtual ~PacketPort() = default;

  struct ReceivedFrame {
    std::span<const uint8_t> bytes;
    transport::Route from = transport::Route::kWire;
    // kDone: the port had to check the ICRC, and no other process can change the bytes. kWaived: it
    // came from a process that agreed to do without.
    transport::IcrcCheck icrc_check = transport::IcrcCheck::kNeeded;
  };

  // A receive burst begins: Receive is called next, until it has nothing or the burst is long
  // enough. What is to be looked at in every pass of a thread that polls, and not in every verb.
  virtual void BeginReceiveBurst() {}
  // The next received frame; its bytes are empty when there is none now. It stays valid until
  // ReleaseReceived, which must be called before the next Receive. The bytes may be changed by
  // another process at any time.
  virtual ReceivedFrame Receive() = 0;
  virtual void ReleaseReceived() = 0;

  // A buffer of at least transport::kMaxFrameBytes for the next frame that is to go by `route`, or
  // an empty one when that takes none now (back-pressure: try again later). A port without a peer
  // takes frames and drops them; one whose peer is still to be found keeps some. Asking again for
  // the same route without committing gives the same buffer. Ports that have no links are asked for
  // no other route than the wire, or kLoopback if they carry it.
  virtual transport::FrameRoom AcquireTransmit(transport::Route route) = 0;
  // Queues the frame that was built in the buffer that was acquired last.
  virtual void CommitTransmit(size_t frame_bytes) = 0;
  // Makes everything committed and released visible to the other side; ends a burst. Not called by
  // a verb that committed nothing.
  virtual void Flush() = 0;
  // The same, but what costs a system call may wait for company: whoever drives the engine calls
  // Flush before long.
  virtual void FlushSoon() { Flush(); }

  // Whether the port takes frames by Route::kLoopback, too, and gives them back by Receive, and
  // with them a copy of each multicast RoCEv2 frame that it sends. If not, the engine hands them to
  // the endpoint by itself, which costs less.
  virtual bool carries_loopback() const { return false; }
  // Whether Ethernet frames of any kind go by Route::kWire and come by it, whole and as they were
  // sent.
  virtual bool carries_ethernet() const { return false; }
  // Whether the port keeps frames, and needs a pass before they are sent or received though nothing
  // arrives.
  virtual bool keeps_frames() const { return false; }

  // What has to be there before frames can flow is made by these. Asked again until the state is
  // another than kPending.
  enum class PathState : uint8_t {
    kReady,
    kPending,
    kUnreachable,  // no peer; frames are dropped until the path is asked for again
    kRefused,      // another process has that path, or too many are in use
  };
  // The way from a queue pair to the one it is to be connected with; without `remote` the way of
  // datagrams to and from all hosts beyond the wire.
  struct Path {
    transport::Route route = transport::Route::kWire;
    transport::Qpn local;
    transport::Qpn remote;
    transport::Gid remote_gid;
    transport::Gid alternate_gid{};  // of the path that it may migrate to; zero: none
  };
  virtual PathState PreparePath(const Path& /*path*/) { return PathState::kReady; }
  // The longest IP packet that a path takes which was prepared, as far as it is known.
  virtual uint32_t PathMtu(const Path& /*path*/) const { return mtu(); }
  // The queue pair is connected no more.
  virtual void ForgetPath(transport::Qpn /*local*/) {}
  // Datagrams to a multicast group are wanted, until it is left. Joining again changes nothing.
  virtual PathState JoinGroup(const transport::Gid& /*group*/) { return PathState::kReady; }
  virtual void LeaveGroup(const transport::Gid& /*group*/) {}
  // For so many groups the port has room now; SIZE_MAX: no limit.
  virtual size_t max_groups() const { return SIZE_MAX; }

  // A service of the connection manager at an address that this process binds to.
  struct Service {
    transport::cm::ServiceId id;
    transport::Gid address;  // zero: all addresses; ::ffff:0.0.0.0: all IPv4 addresses
    // All addresses of IPv6 only; what is bound to an IPv4 address then does not conflict.
    bool only_ipv6 = false;
    // Others may have it as well, if all of them say so.
    bool shares = false;
    // Requests for it are to reach this process: its connection manager listens already.
    bool listens = false;

    bool operator==(const Service&) const = default;
  };
  enum class ServiceState : uint8_t {
    kReserved,
    kPending,  // no answer yet
    kInUse,    // by another process
    kNoRoom,   // for more services, of this process or of all
  };
  // Asked again until the state is another than kPending. Reserving again changes `shares`
  // and `listens`, or nothing if it is refused. The services of this process do not conflict with
  // each other here. Without other processes every service is free.
  virtual ServiceState ReserveService(const Service& /*service*/) {
    return ServiceState::kReserved;
  }
  // `shares` and `listens` do not matter. Other processes can have it when IsReleased.
  virtual void ReleaseService(const Service& /*service*/) {}
  virtual bool IsReleased(const Service& /*service*/) const { return true; }

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
  // One thread may call it while another sleeps, or is only about to begin: wait_fd must
  // stay readable until EndSleep. A call that drains the socket which made it readable has to make
  // it readable in another way: a peer sends one wake-up for each sleep.
  virtual void ServeLink() {}

  // Around fork(): no thread of the port is in the middle of anything between the two.
  virtual void BeforeFork() {}
  virtual void AfterForkInParent() {}
  // In a forked child, before anything else: lets go of what only the parent may use (sockets whose
  // closing tells the peer of the parent's end). Only async-signal-safe calls. No other call
  // follows, not even the destructor: the memory stays as it is.
  virtual void AbandonAfterFork() {}

  // What the user is to be told.
  struct Notice {
    std::string sentence;  // says what to do; without full stop. Mostly empty
    transport::Gid about;  // the host that it is about; zero: all of them
  };
  // Asked for after PreparePath and ServeLink, and printed without the lock.
  virtual Notice TakeNotice() { return {}; }

  // The GID table, if addresses came or went since it was last asked for. Asked for after
  // ServeLink.
  virtual std::optional<std::vector<transport::Gid>> TakeGids() { return std::nullopt; }

  struct Counters {
    uint64_t transmit_dropped_no_link = 0;
    uint64_t transmit_dropped_link_pending = 0;  // too many waited for their link already
    uint64_t receive_malformed = 0;              // a slot or descriptor that made no sense
    PortDrops drops;                             // of a port that leads to a network
  };
  virtual Counters counters() const { return {}; }

  virtual transport::MacAddress mac() const = 0;
  // Largest IP packet in bytes (the netdev's MTU).
  virtual uint32_t mtu() const = 0;
  virtual bool link_up() const = 0;
  // Whether verbs are to call the port active. Links between two processes always are: without a
  // peer frames are lost like on any cable, and programs expect an active port before their peer is
  // started. Of an Ethernet port it is the carrier that counts.
  virtual bool active() const { return true; }
  // Whether the port is gone for good, as a NIC that was taken out. Nothing brings it back.
  virtual bool failed() const { return false; }
};

}  // namespace uroce::nic
