#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace uroce::nic {

// Two network namespaces of the test's own, joined by a veth pair: this thread enters one and has
// the interface "near" (10.77.0.1/24, fd77::1/64) in it; "far" (10.77.0.2/24, fd77::2/64,
// 02:77:00:00:00:02) is in the other. Needs the rights of root, or of a user namespace's root,
// which it tries to become. The kernel removes all of it with the process. Make it before anything
// starts threads.
class VethPair {
 public:
  explicit VethPair(uint32_t mtu_bytes);
  ~VethPair();
  VethPair(const VethPair&) = delete;
  VethPair& operator=(const VethPair&) = delete;

  // Whether the rights are those of a user namespace's root.
  bool in_user_namespace() const { return in_user_namespace_; }
  // Why there is no pair; empty if there is one.
  const std::string& problem() const { return problem_; }
  // The file of the far end's namespace.
  std::string far_namespace() const {
    return "/proc/" + std::to_string(namespace_process_) + "/ns/net";
  }

  // A process in that namespace.
  pid_t far_process() const { return namespace_process_; }

  // Runs a command, such as "ip link set near down", near; RunFar: far. A failure fails the test.
  static void Run(const std::string& command);
  // An IPv6 address of /64, on an interface that is up; packets for it arrive from now on.
  static void AddAddress(const std::string& address, const std::string& interface);
  void RunFar(const std::string& command) const;

 private:
  void Make(uint32_t mtu_bytes);

  std::string problem_;
  bool in_user_namespace_ = false;
  pid_t namespace_process_ = -1;  // a process that does nothing but be in the far namespace
};

}  // namespace uroce::nic
