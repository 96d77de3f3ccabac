#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "dpdk_nic/port/udp/transmit_queue.h"
#include "dpdk_nic/port/udp/udp_address.h"
#include "dpdk_nic/port/udp/udp_socket.h"

namespace uroce::nic {

// The messages that one system call hands to a socket. Each is a run of frames that leaves as one
// datagram, or that the kernel cuts into several.
class SendBatch {
 public:
  void Clear() { count_ = frames_ = 0; }
  // Adds the next `frames` of the queue behind those of the other messages. They stay where they
  // are, and leave by `socket` as all the others do. `interface_index` is where a link-local
  // destination is.
  void Add(const TransmitQueue& queue, size_t frames, const UdpSocket& socket, int interface_index);

  // How many frames there are in all messages, and in one.
  size_t frames() const { return frames_; }
  size_t frames(size_t message) const { return frames_of_[message]; }

  // Returns how many messages the socket took, or -1 with errno.
  int Send(const UdpSocket& socket);

 private:
  static constexpr size_t kMost = TransmitQueue::kPackets;
  // The class of traffic, the hop limit, the length of a segment, and the source.
  static constexpr size_t kControlBytes =
      2 * CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint16_t)) + CMSG_SPACE(sizeof(in6_pktinfo));

  struct Control {
    alignas(cmsghdr) std::array<char, kControlBytes> bytes;
  };

  struct Marks {
    bool is_segmented;
    bool names_source;  // the socket has all addresses
    int interface_index;
  };
  static size_t WriteControl(const OutgoingPacket& packet, const Marks& marks, Control* control);

  std::array<mmsghdr, kMost> headers_{};
  std::array<SocketAddress, kMost> destinations_;
  std::array<iovec, kMost> vectors_;
  std::array<Control, kMost> controls_;
  std::array<size_t, kMost> frames_of_;
  size_t count_ = 0;
  size_t frames_ = 0;
};

}  // namespace uroce::nic
