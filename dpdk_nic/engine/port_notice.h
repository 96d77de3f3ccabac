#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "transport/ids.h"

namespace uroce::nic {

// The options that a port of direct mode was opened with name it.
struct PortKey {
  std::string devargs;
  transport::Gid ip;
};

// A process in direct mode shows its open port by a notice. Other programs of its user, which could
// not open the port a second time, describe the device by it (`ls`, `rdma link`).
//
// The notice is a file in memory. Its name in the abstract socket namespace says which process has
// it and by which descriptor, so that the notice ends with the process and stays in its network
// namespace. Only those who may look into the process can open it.
class PortNotice {
 public:
  struct Port {
    transport::MacAddress mac{};
    uint32_t mtu_bytes = 0;  // of IP packets
    std::vector<transport::Gid> gids;
    bool is_active = false;
  };

  // nullptr if there is no memory or no room for the key: programs that look see no device then.
  static std::unique_ptr<PortNotice> Create(const PortKey& key, const Port& port);
  // The port of a process of this user that has opened it by `key`, in this network namespace.
  static std::optional<Port> Find(const PortKey& key);

  ~PortNotice();
  PortNotice(const PortNotice&) = delete;
  PortNotice& operator=(const PortNotice&) = delete;

  // Makes no system call. Calls must not overlap.
  void SetPort(const std::vector<transport::Gid>& gids, bool is_active);

 private:
  struct Memory;

  PortNotice(UniqueFd fd, UniqueFd name, Memory* memory)
      : fd_(std::move(fd)), name_(std::move(name)), memory_(memory) {}
  static std::optional<Port> Read(int pid, int fd, const PortKey& key);

  const UniqueFd fd_;
  const UniqueFd name_;  // the socket that is bound to the name
  Memory* const memory_;
};

}  // namespace uroce::nic
