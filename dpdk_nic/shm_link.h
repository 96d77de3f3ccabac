#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "dpdk_nic/error_or.h"
#include "dpdk_nic/shm_ring.h"
#include "dpdk_nic/unique_fd.h"

// How two processes of one user find each other on a named link, without a daemon.
//
// A link has two sides, 0 and 1, and each is an abstract Unix socket name: who binds it has the
// side, and the kernel gives it back whenever and however its process ends. A third process finds
// both taken. Sides are never handed over, so what was numbered by side stays unique.
//
//   side 0                               side 1
//   bind, listen                         bind, listen
//   connect to side 1 and close          connect to side 0   (refused: nobody there yet)
//     ("I am here now")          ----->  accept, close: connect to side 0
//   accept                       <-----  Hello
//   new memory, two eventfds     ----->  Welcome + 3 descriptors (SCM_RIGHTS)
//   connected                            connected
//        ...                                  ...
//   end of file: the other process is gone; wait for the next one
//
// Each side listens before it connects, so whichever comes later reaches the other, also when both
// start at the same moment. Names live in the network namespace: both processes must be in one.

namespace uroce::nic {

class ShmLink {
 public:
  explicit ShmLink(std::string_view name);
  ShmLink(const ShmLink&) = delete;
  ShmLink& operator=(const ShmLink&) = delete;

  // Takes a side of the link and returns its number, or a sentence if both are taken. Does not wait
  // for the other side.
  ErrorOr<int> Join();
  std::optional<int> side() const { return side_; }

  // Does what the sockets want done. Never blocks.
  void Serve();

  // What two connected processes share.
  struct Pairing {
    std::unique_ptr<RingMemory> memory;
    UniqueFd wake_self;  // eventfds
    UniqueFd wake_peer;
  };
  // The newest pairing, once. It lives as long as connected() is true and no newer one is there.
  std::optional<Pairing> TakePairing();
  bool has_pairing() const { return pairing_.has_value(); }

  // Whether the process that was paired with last is still there, as far as Serve has seen.
  bool connected() const { return connection_.get() >= 0 && !handshaking_; }
  // Whether the other side is there and the pairing with it is under way.
  bool awaits_pairing() const { return handshaking_ || told_side1_; }
  // Turns this peer away; a new pairing may follow.
  void Disconnect();

  // Becomes readable when Serve has something to do, or when a watched descriptor becomes readable.
  int wait_fd() const { return epoll_.get(); }
  void Watch(const UniqueFd& fd);
  void Unwatch(const UniqueFd& fd);

  // After fork, in the child: closes everything, so that the parent's end can be noticed.
  void Abandon();

 private:
  bool Claim(int side);
  void AcceptAll();
  void GreetAccepted();
  void ReadConnection();
  void ConnectToSide0();
  void TellSide1();
  void SetConnection(UniqueFd fd);

  const std::string name_;
  std::optional<int> side_;
  UniqueFd epoll_;
  UniqueFd listener_;
  UniqueFd accepted_;         // side 0: has not said Hello yet
  UniqueFd connection_;       // to the other side
  bool handshaking_ = false;  // side 1: no Welcome yet
  bool told_side1_ = false;   // side 0: side 1 was there before us, and is about to say Hello
  std::optional<Pairing> pairing_;
};

// Whether a process could join the link now; a sentence that says what to do if not.
std::optional<Error> ProbeLink(std::string_view name);

}  // namespace uroce::nic
