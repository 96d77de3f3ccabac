#include "dpdk_nic/port/dpdk/memif_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace uroce::nic {
namespace {

bool HasListener(const sockaddr_un& address) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  if (fd < 0) return true;
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  const bool refused = !connected && errno == ECONNREFUSED;
  close(fd);
  return !refused;
}

bool DirectoryExists(const std::string& path, const std::string& device, std::string* error) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return true;
  const std::string directory = path.substr(0, slash);
  if (access(directory.c_str(), W_OK) == 0) return true;
  *error = "socket=" + path + " of " + device + " cannot be made in " + directory + ": " +
           strerror(errno);
  return false;
}

bool RemoveStaleSocket(const std::string& path, const std::string& device, std::string* error) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return true;
  if (!S_ISSOCK(status.st_mode)) {
    *error = path + " exists and is not a socket; choose another socket= for " + device;
    return false;
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), path.size());  // the length is checked by Devargs
  if (HasListener(address)) {
    *error = "another process serves " + path +
             " already; use role=client or another socket= for " + device;
    return false;
  }
  if (status.st_uid != geteuid() || unlink(path.c_str()) != 0) {
    *error = path + " was left behind by another user; remove it or choose another socket= for " +
             device;
    return false;
  }
  return true;
}

}  // namespace

bool PrepareMemifSocket(const Devargs& devargs, std::string* error) {
  if (*devargs.Find("socket-abstract") != "no") return true;
  const std::string& path = *devargs.Find("socket");
  if (!DirectoryExists(path, devargs.device(), error)) return false;
  return *devargs.Find("role") != "server" || RemoveStaleSocket(path, devargs.device(), error);
}

MemifListener::~MemifListener() {
  if (registration_.fd < 0) return;
  WithdrawInterrupt(registration_);
  close(registration_.fd);
}

}  // namespace uroce::nic
