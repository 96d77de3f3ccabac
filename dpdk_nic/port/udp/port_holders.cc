#include "dpdk_nic/port/udp/port_holders.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <system_error>

#include "transport/wire/udp.h"

namespace uroce::nic {
namespace {

using transport::Gid;

using Inodes = std::set<uint64_t>;

// The address and port as in the second column of /proc/net/udp and udp6: words of the network's
// byte order, printed as numbers of the host.
std::string LocalAddressText(const Gid& gid) {
  constexpr size_t kWord = sizeof(uint32_t);
  std::string text;
  std::array<char, 16> piece;
  for (size_t at = gid.IsIpv4Mapped() ? gid.bytes.size() - kWord : 0; at < gid.bytes.size();
       at += kWord) {
    uint32_t word;
    std::memcpy(&word, &gid.bytes[at], sizeof word);
    std::snprintf(piece.data(), piece.size(), "%08X", word);
    text += piece.data();
  }
  std::snprintf(piece.data(), piece.size(), ":%04X", transport::UdpHeader::kRocePort);
  return text + piece.data();
}

Inodes SocketsAtPort(const HostAddress& address) {
  constexpr int kInodeColumn = 9;
  const std::string wanted = LocalAddressText(address.gid);
  std::ifstream table(address.gid.IsIpv4Mapped() ? "/proc/self/net/udp" : "/proc/self/net/udp6");
  Inodes inodes;
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    const std::vector<std::string> columns{std::istream_iterator<std::string>(words), {}};
    if (columns.size() <= kInodeColumn || columns[1] != wanted) continue;
    uint64_t inode = 0;
    const std::string& digits = columns[kInodeColumn];
    std::from_chars(digits.data(), digits.data() + digits.size(), inode);
    inodes.insert(inode);
  }
  return inodes;
}

// Those of `wanted` that the process has open.
Inodes OpenIn(const std::filesystem::path& process, const Inodes& wanted) {
  constexpr std::string_view kPrefix = "socket:[";
  Inodes found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(process / "fd", error), end; entry != end;
       entry.increment(error)) {
    const std::string target = std::filesystem::read_symlink(entry->path(), error).string();
    if (error || target.rfind(kPrefix, 0) != 0) continue;
    uint64_t inode = 0;
    std::from_chars(target.data() + kPrefix.size(), target.data() + target.size(), inode);
    if (wanted.contains(inode)) found.insert(inode);
  }
  return found;
}

std::string NameOf(const std::filesystem::path& process) {
  std::string name;
  std::ifstream file(process / "comm");
  std::getline(file, name);
  return name;
}

// The state is the first word behind the name, which stands in brackets and may have any.
bool IsStopped(const std::filesystem::path& process) {
  std::string line;
  std::ifstream file(process / "stat");
  std::getline(file, line);
  const size_t end = line.rfind(") ");
  return end != std::string::npos && (line[end + 2] == 'T' || line[end + 2] == 't');
}

}  // namespace

bool PortHolders::IsOrphaned() const {
  return all_found && own <= 1 &&
         std::none_of(processes.begin(), processes.end(),
                      [](const Process& process) { return process.is_uroced; });
}

std::string PortHolders::Names() const {
  std::string names;
  for (const Process& process : processes) {
    if (!names.empty()) names += " and ";
    names += "process " + std::to_string(process.pid) + " (" + process.name + ")";
    if (process.is_stopped) names += ", which is stopped";
  }
  return names;
}

PortHolders FindPortHolders(const HostAddress& address) {
  const Inodes sockets = SocketsAtPort(address);
  const std::string own_name = NameOf("/proc/self");
  Inodes found = OpenIn("/proc/self", sockets);
  PortHolders holders;
  holders.sockets = sockets.size();
  holders.own = found.size();
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; entry != end;
       entry.increment(error)) {
    const std::string number = entry->path().filename().string();
    pid_t pid = 0;
    std::from_chars(number.data(), number.data() + number.size(), pid);
    if (pid == 0 || pid == getpid()) continue;
    const Inodes open = OpenIn(entry->path(), sockets);
    if (open.empty()) continue;
    found.insert(open.begin(), open.end());
    const std::string name = NameOf(entry->path());
    holders.processes.push_back({.pid = pid,
                                 .name = name,
                                 .is_stopped = IsStopped(entry->path()),
                                 .is_uroced = name == own_name});
  }
  holders.all_found = found.size() == sockets.size();
  return holders;
}

size_t CountSocketsAtPort(const HostAddress& address) { return SocketsAtPort(address).size(); }

}  // namespace uroce::nic
