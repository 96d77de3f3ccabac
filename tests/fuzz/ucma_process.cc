#include "tests/fuzz/ucma_process.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "tests/fuzz/require.h"
#include "verbs_provider/rdma_cm/commands.h"

struct uroce_rdma_cm {
  uroce::verbs::rdma_cm::UcmaProcess* process;
  uroce::verbs::rdma_cm::Channel* channel;
};

// Interfaces of the host that are the same on all machines, instead of those libc would list.
int getifaddrs(ifaddrs** list) {
  static char names[2][3] = {"lo", "e0"};
  static sockaddr_in ipv4[2];
  static sockaddr_in6 ipv6;
  static ifaddrs entries[3];
  for (size_t i = 0; i < std::size(ipv4); ++i) {
    ipv4[i].sin_family = AF_INET;
    ipv4[i].sin_addr.s_addr = htonl(i == 0 ? INADDR_LOOPBACK : 0x0a09'0901);
    entries[i].ifa_name = names[i];
    entries[i].ifa_addr = reinterpret_cast<sockaddr*>(&ipv4[i]);
    entries[i].ifa_next = &entries[i + 1];
  }
  ipv6.sin6_family = AF_INET6;
  ipv6.sin6_addr = IN6ADDR_LOOPBACK_INIT;
  entries[2].ifa_name = names[0];
  entries[2].ifa_addr = reinterpret_cast<sockaddr*>(&ipv6);
  *list = entries;
  return 0;
}
void freeifaddrs(ifaddrs* /*list*/) {}

namespace uroce::verbs::rdma_cm {

using transport::Gid;
using transport::cm::EventKind;
using virtual_kernel::FdTable;
using virtual_kernel::RdmaCmFile;

// Stands in for verbs_provider/device/rdma_cm_process.cc: gives the virtual kernel the agent of
// the process that is opening a file.
struct UcmaProvider {
  static int Open(void* file, uroce_rdma_cm_events events, uroce_rdma_cm** opened) {
    Channel* channel =
        process->agent_.OpenChannel([file, events](int delta) { events(file, delta); });
    *opened = last_opened = new uroce_rdma_cm{process, channel};
    return 0;
  }
  static int Write(uroce_rdma_cm* file, uroce_rdma_cm* other, const void* data, size_t bytes) {
    const bool is_same_process = other != nullptr && other->process == file->process;
    return RunCommand(file->process->agent_, *file->channel,
                      is_same_process ? other->channel : nullptr, reinterpret_cast<uintptr_t>(data),
                      bytes);
  }
  static void Close(uroce_rdma_cm* file) {
    file->process->agent_.CloseChannel(file->channel);
    delete file;
  }

  static constexpr virtual_kernel::RdmaCmFunctions kFunctions{Open, Write, Close};
  static inline UcmaProcess* process = nullptr;
  static inline uroce_rdma_cm* last_opened = nullptr;
};

class UcmaProcess::Device : public DeviceAccess {
 public:
  explicit Device(UcmaProcess& process) : process_(process) {
    UROCE_REQUIRE(!process.has_open_device_);
    process.has_open_device_ = true;
    facts_ = {.gids = {},
              .has_wire = process.has_wire_,
              .node_guid = 0x1234,
              .mtu = transport::Mtu::k4096};
  }
  ~Device() override {
    UROCE_REQUIRE(process_.services_.empty());
    process_.has_open_device_ = false;
    // The only events left may be requests that the agent has not taken.
    while (const auto event = process_.manager_.TakeEvent()) {
      UROCE_REQUIRE(event->kind == EventKind::kReqReceived ||
                    event->kind == EventKind::kSidrReqReceived);
      process_.manager_.Destroy(process_.now_, event->id);
    }
  }

  bool has_failed() override { return false; }
  const DeviceFacts& facts() override {
    facts_.gids = process_.gids_;
    return facts_;
  }
  // Every host is reached from the address that the id has or, without one, from the first.
  nic::KernelRoute FindRoute(const nic::RouteQuestion& question) override {
    return {.source = question.source};
  }
  uint8_t HopLimit(const nic::RouteQuestion& /*question*/) override {
    return nic::kDefaultHopLimit;
  }
  bool KnowsNextHop(const nic::RouteQuestion& /*question*/) override { return true; }
  bool KnowsNeighbor(const Gid& /*destination*/) override { return true; }
  void ExplainMissingGid(const Gid& /*address*/) override {}
  void WithConnectionManager(const Use& use) override { use(process_.manager_, process_.now_); }
  int ReserveService(const Service& service) override {
    if (process_.reservation_error_ != 0) return std::exchange(process_.reservation_error_, 0);
    std::erase_if(process_.services_, [&](const Service& other) { return IsSame(other, service); });
    process_.services_.push_back(service);
    return 0;
  }
  void ReleaseService(const Service& service) override {
    UROCE_REQUIRE(std::erase_if(process_.services_,
                                [&](const Service& other) { return IsSame(other, service); }) == 1);
  }

 private:
  static bool IsSame(const Service& one, const Service& other) {
    return one.id == other.id && one.address == other.address && one.only_ipv6 == other.only_ipv6;
  }

  UcmaProcess& process_;
  DeviceFacts facts_;
};

namespace {

// A few, so that inputs often exceed the limit.
constexpr uint32_t kMaxCommunicationIds = 10;

std::vector<Gid> AddressesOf(uint8_t number) {
  return {Gid::LinkLocal({2, 0, 0, 0, 0, number}), Gid::FromIpv4({10, 0, 0, number}),
          Gid{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number}},
          Gid::FromIpv4({127, 0, 0, number})};
}

}  // namespace

UcmaProcess::UcmaProcess(uint8_t number, const transport::Time& now, bool has_wire)
    : now_(now),
      has_wire_(has_wire),
      all_gids_(AddressesOf(number)),
      gids_(all_gids_),
      manager_({.ca_guid = number,
                .ack_delay = 15,
                .seed = {number, 7},
                .max_ids = kMaxCommunicationIds}),
      agent_({number, 1}, [this](int* error) -> std::unique_ptr<DeviceAccess> {
        *error = std::exchange(open_error_, 0);
        return *error == 0 ? std::make_unique<Device>(*this) : nullptr;
      }) {
  gids_.back() = {};  // may be added later
}

UcmaProcess::~UcmaProcess() {
  while (!files_.empty()) CloseFile(files_.begin()->first);
}

int UcmaProcess::OpenFile() {
  UcmaProvider::process = this;
  const int fd = RdmaCmFile::Open(O_RDWR | O_CLOEXEC | O_NONBLOCK, UcmaProvider::kFunctions);
  UROCE_REQUIRE(fd >= 0);
  files_[fd] = UcmaProvider::last_opened;
  return fd;
}

void UcmaProcess::CloseFile(int fd) {
  files_.erase(fd);
  FdTable::Instance().Remove(fd);
  close(fd);
}

int UcmaProcess::Write(int fd, const void* data, size_t bytes) {
  const ssize_t written = FdTable::Instance().Find<RdmaCmFile>(fd)->Write(data, bytes);
  if (written == static_cast<ssize_t>(bytes)) return 0;
  UROCE_REQUIRE(written == -1);
  UROCE_REQUIRE(errno > 0);
  return errno;
}

int UcmaProcess::CountTokens(int fd) {
  int count = 0;
  UROCE_REQUIRE(ioctl(fd, FIONREAD, &count) == 0);
  return count;
}

bool UcmaProcess::HasEvent(int fd) const { return !files_.at(fd)->channel->empty(); }

std::optional<uint8_t> UcmaProcess::IndexOf(const Gid& gid) const {
  const auto found = std::find(gids_.begin(), gids_.end(), gid);
  if (gid.IsZero() || found == gids_.end()) return std::nullopt;
  return static_cast<uint8_t>(found - gids_.begin());
}

void UcmaProcess::AddOrRemoveAddress(size_t number) {
  const size_t index = 1 + number % (gids_.size() - 1);
  gids_[index] = gids_[index].IsZero() ? all_gids_[index] : Gid{};
}

}  // namespace uroce::verbs::rdma_cm
