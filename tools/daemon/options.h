// uroced's command line.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/device/uplink_choice.h"
#include "dpdk_nic/link_layer/local_address.h"

namespace uroce::daemon {

// The users whose processes may attach.
struct AllowedUsers {
  bool everybody = false;
  std::set<uid_t> users;

  // Whether only the user that this process runs as is allowed.
  bool OnlySelf() const { return !everybody && users == std::set<uid_t>{geteuid()}; }
  bool Allow(uid_t user) const { return everybody || users.count(user) != 0; }
};

struct Options {
  bool help = false;
  std::string fabric = "default";
  std::string port_devargs;  // empty: an uplink, unless that is not wanted
  nic::UplinkChoice uplink;
  std::vector<nic::LocalAddress> addresses;  // of the NIC
  uint32_t mtu_bytes = 0;                    // 0: the NIC's, or a link's default
  std::optional<int> cpu;
  AllowedUsers users;
  bool is_private = false;
};

// Reads the command line, and the file that it names with --config: the command line takes
// precedence. `arguments` come without the name of the program.
nic::ErrorOr<Options> ParseOptions(const std::vector<std::string>& arguments);

// The text of --help, with all options.
std::string HelpText();

}  // namespace uroce::daemon
