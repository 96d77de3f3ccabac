#include "dpdk_nic/engine/port_notice.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "dpdk_nic/base/memory_file.h"

namespace uroce::nic {
namespace {

constexpr uint32_t kLayout = 0x75726f31;  // changes with struct Memory
constexpr size_t kMaxGids = 256;
constexpr size_t kMaxDevargsBytes = 512;
constexpr int kReadAttempts = 100;

// A socket of which only the name matters.
UniqueFd BindName(int fd) {
  UniqueFd name(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  const int bytes = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1,
                                  "uroce-port/%d/%d", getpid(), fd);
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(bytes));
  if (name && bind(name.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    name.reset();
  }
  return name;
}

}  // namespace

// `version` is odd while the writer changes what follows it.
struct PortNotice::Memory {
  uint32_t layout;
  std::atomic<uint32_t> version;
  std::array<char, kMaxDevargsBytes> devargs;
  transport::Gid ip;
  transport::MacAddress mac;
  uint32_t mtu_bytes;
  uint32_t is_active;
  uint32_t gid_count;
  std::array<transport::Gid, kMaxGids> gids;
};

std::unique_ptr<PortNotice> PortNotice::Create(const PortKey& key, const Port& port) {
  if (key.devargs.size() >= kMaxDevargsBytes) return nullptr;
  UniqueFd fd = MakeMemoryFile("uroce-port", sizeof(Memory));
  if (!fd) return nullptr;
  void* const mapping =
      mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapping == MAP_FAILED) return nullptr;
  auto* const memory = static_cast<Memory*>(mapping);
  memory->layout = kLayout;
  std::copy(key.devargs.begin(), key.devargs.end(), memory->devargs.begin());
  memory->ip = key.ip;
  memory->mac = port.mac;
  memory->mtu_bytes = port.mtu_bytes;
  UniqueFd name = BindName(fd.get());
  std::unique_ptr<PortNotice> notice(new PortNotice(std::move(fd), std::move(name), memory));
  notice->SetPort(port.gids, port.is_active);
  return notice;
}

PortNotice::~PortNotice() { munmap(memory_, sizeof(Memory)); }

void PortNotice::SetPort(const std::vector<transport::Gid>& gids, bool is_active) {
  const size_t count = std::min(gids.size(), kMaxGids);
  memory_->version.fetch_add(1, std::memory_order_acq_rel);
  std::copy_n(gids.begin(), count, memory_->gids.begin());
  memory_->gid_count = static_cast<uint32_t>(count);
  memory_->is_active = is_active ? 1 : 0;
  memory_->version.fetch_add(1, std::memory_order_release);
}

// pread() instead of a mapping: the file may be another one, and shrink.
std::optional<PortNotice::Port> PortNotice::Read(int pid, int fd, const PortKey& key) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  const UniqueFd file(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (!file || fstat(file.get(), &status) != 0) return std::nullopt;
  // A user cannot describe devices to root.
  if (status.st_uid != geteuid() || !S_ISREG(status.st_mode)) return std::nullopt;
  const auto memory = std::make_unique<Memory>();
  for (int attempt = 0; attempt < kReadAttempts; ++attempt) {
    uint32_t version;
    if (pread(file.get(), memory.get(), sizeof(Memory), 0) != sizeof(Memory) ||
        pread(file.get(), &version, sizeof version, offsetof(Memory, version)) != sizeof version) {
      return std::nullopt;
    }
    if (memory->layout != kLayout || memory->ip != key.ip ||
        strncmp(memory->devargs.data(), key.devargs.c_str(), kMaxDevargsBytes) != 0) {
      return std::nullopt;
    }
    if (version % 2 != 0 || version != memory->version) continue;
    const size_t count = std::min<size_t>(memory->gid_count, kMaxGids);
    return Port{.mac = memory->mac,
                .mtu_bytes = memory->mtu_bytes,
                .gids = {memory->gids.begin(), memory->gids.begin() + count},
                .is_active = memory->is_active != 0};
  }
  return std::nullopt;
}

std::optional<PortNotice::Port> PortNotice::Find(const PortKey& key) {
  std::ifstream sockets("/proc/self/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const size_t name = line.rfind(" @uroce-port/");
    int pid, fd;
    if (name == std::string::npos ||
        std::sscanf(line.c_str() + name, " @uroce-port/%d/%d", &pid, &fd) != 2) {
      continue;
    }
    if (auto port = Read(pid, fd, key)) return port;
  }
  return std::nullopt;
}

}  // namespace uroce::nic
