#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dpdk_nic/port/udp/udp_socket.h"
#include "transport/time.h"

namespace uroce::nic {

// The sockets on UDP port 4791 of one address, or of all of an IP version, that the processes of a
// host share (SO_REUSEPORT): uroced's own and one for each process. All of them are opened here and
// kept open, so that their order in the kernel's group is known: that of opening, except that the
// last socket takes the index of one that is closed.
//
//   index   0        1          2          3
//           own   | block 7 | block 3 | block 9 |      a program steers each datagram by the block
//                                                      of its QPN; all others are for index 0
//
// A process may keep its socket open for a moment after its end is known, and so may a child that
// it has just forked. So the group steers nothing more to such a socket, and closes it later.
//
// Sockets that an earlier uroced has left behind in stopped processes come first, and get nothing.
//
// The kernel does not show its order: a process that gets a datagram for another block has to pass
// it on.
class SocketGroup {
 public:
  static constexpr transport::Duration kClosingTime = transport::Milliseconds(200);

  // How often it is looked whether sockets that were left behind are closed.
  static constexpr transport::Duration kLookAgain = transport::Milliseconds(1'000);

  // `own` was opened for Use::kFirstOfGroup or kOrphanedGroup.
  explicit SocketGroup(const UdpSocket& own);

  // Opens a socket that gets the datagrams for this block, in place of one that it may have.
  // Returns its descriptor, which stays the group's, or -1.
  int Add(transport::Time now, uint32_t block);
  void Remove(transport::Time now, uint32_t block);
  // Closes the sockets whose time has come, and follows those that were left behind.
  void Serve(transport::Time now);

  size_t size() const { return places_.size(); }

 private:
  enum class Kind : uint8_t { kOrphan, kOwn, kMember };
  // A socket that has an index in the kernel's group.
  struct Place {
    Kind kind = Kind::kMember;
    std::optional<UdpSocket> socket{};  // of a member
    uint32_t block = 0;                 // kNone: to be closed
    transport::Time closes_at{};
    // The kernel moved it to the place of one of several sockets that were left behind.
    bool is_guessed = false;
  };
  static constexpr uint32_t kNone = 0;

  void Steer() const;
  void CloseMembers(transport::Time now);
  void FollowOrphans();
  // The last place takes the index of this one, which is gone.
  void TakeAway(size_t index);
  size_t orphans() const;

  const int own_fd_;
  const HostAddress address_;
  std::vector<Place> places_;  // by index
  bool any_closes_ = false;
  transport::Time look_again_{};  // at sockets that were left behind
};

}  // namespace uroce::nic
