#pragma once

#include <cstddef>
#include <cstdint>
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
// The kernel does not show its order: a process that gets a datagram for another block has to pass
// it on.
class SocketGroup {
 public:
  static constexpr transport::Duration kClosingTime = transport::Milliseconds(200);

  // `own` was opened for Use::kFirstOfGroup.
  explicit SocketGroup(const UdpSocket& own);

  // Opens a socket that gets the datagrams for this block, in place of one that it may have.
  // Returns its descriptor, which stays the group's, or -1.
  int Add(transport::Time now, uint32_t block);
  void Remove(transport::Time now, uint32_t block);
  // Closes the sockets whose time has come.
  void Serve(transport::Time now);

  size_t size() const { return 1 + members_.size(); }

 private:
  struct Member {
    UdpSocket socket;
    uint32_t block;  // kNone: to be closed
    transport::Time closes_at;
  };
  static constexpr uint32_t kNone = 0;

  void Steer() const;

  const int own_fd_;
  const HostAddress address_;
  std::vector<Member> members_;  // by index, from 1 on
  bool any_closes_ = false;
};

}  // namespace uroce::nic
