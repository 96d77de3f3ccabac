#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/fabric_place.h"
#include "dpdk_nic/control/messages.h"
#include "transport/time.h"

// Finds the uroced of a fabric. A fabric is a network namespace, a user and a name; see
// fabric_place.h.

namespace uroce::nic::control {

// The credentials of the process that made the other end of a connection by listen() or connect().
// `pid` is 0 if it is in a pid namespace that we do not see.
struct PeerCredentials {
  pid_t pid;
  uid_t uid;
  gid_t gid;
};
std::optional<PeerCredentials> PeerCredentialsOf(int socket);

// Makes this process the only one that serves a fabric as long as the object lives. A process that
// is killed leaves files behind, which do not keep the next uroced out.
class FabricListener {
 public:
  // nullopt with errno: EADDRINUSE if the fabric is served, EPERM if another user owns the only
  // place for it, ENAMETOOLONG, or why a file or a socket cannot be made.
  static std::optional<FabricListener> Open(std::string_view fabric);
  FabricListener(FabricListener&&) = default;
  FabricListener& operator=(FabricListener&& other) noexcept;
  ~FabricListener() { Close(); }

  int fd() const { return socket_.get(); }
  // Gives away the listening socket, which does not block; the rest stays.
  UniqueFd TakeSocket() { return std::move(socket_); }
  // The folder of the fabric; only uroced's user can write to it.
  int folder() const { return folder_.get(); }
  // Stops serving the fabric: removes its files, except for claims that processes hold. To be
  // called when the socket is closed.
  void Close();

 private:
  FabricListener(UniqueFd place, std::string name) : place_(std::move(place)), name_(name) {}
  bool Lock();
  bool Listen(const std::string& path, mode_t mode);

  UniqueFd place_;
  std::string name_;  // of the folder
  UniqueFd folder_;
  UniqueFd lock_;
  UniqueFd socket_;
};

struct FabricConnection {
  UniqueFd socket;    // does not block
  FabricPlace place;  // where its uroced was found
};
// Connects to this user's uroced or, if there is none, to root's, which chooses its users. Checks
// that uroced is of the user whose place it is. Does not block. nullopt with errno: ECONNREFUSED if
// there is neither, EAGAIN if uroced's queue is full, EPERM if other users own all places.
std::optional<FabricConnection> ConnectToFabric(std::string_view fabric);
// Connects to a uroced at that place only; invalid with errno.
UniqueFd ConnectToFabricAt(const FabricPlace& place, std::string_view fabric);

// uroced accepts 64 connections in 10 ms; when many processes start at once, the last ones find its
// queue full. They try again at this interval, for kQueueTimeout.
inline constexpr transport::Duration kQueueRetryInterval = transport::Milliseconds(5);
inline constexpr transport::Duration kQueueTimeout = transport::Milliseconds(30'000);
// ConnectToFabric that waits for a place in the queue. EAGAIN: there was none for kQueueTimeout.
std::optional<FabricConnection> ConnectToFabricWithRetry(std::string_view fabric);

// The sentence for a user whose connection failed with this errno, without full stop.
std::string WhyNotConnected(std::string_view fabric, int error);

// The folder of a fabric, at the first place that has one; invalid if there is none.
UniqueFd OpenFolderOf(std::string_view fabric);

}  // namespace uroce::nic::control
