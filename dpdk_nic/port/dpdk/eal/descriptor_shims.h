#pragma once

namespace uroce::nic {

// Every file descriptor that EAL and its drivers open is close-on-exec and remembered here. In a
// forked child they are closed at once: otherwise a peer would not see the end of the owner before
// the last child that inherited its sockets ends.

// Whether this process is a fork()ed child of the one that loaded the library. EAL's memory is
// shared between the two, so the child must not touch it.
bool InForkedChild();

// Remembers a descriptor that no shim has seen being opened.
void TrackDescriptor(int fd);

// The AF_PACKET or AF_XDP socket that this thread created last, or -1 if none since it was last
// taken. This is how a port learns of the socket inside the driver, to sleep on it.
int LastPacketSocket();
int TakeLastPacketSocket();

}  // namespace uroce::nic
