#include "dpdk_nic/control/xrc_domains.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <iterator>

namespace uroce::nic::control {
namespace {

// Asks no file system that another process or host serves, which could let us wait.
ErrnoValue Identify(int fd, std::pair<uint64_t, uint64_t>& out) {
  struct statx file;
  const int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
  if (statx(fd, "", flags, STATX_INO, &file) != 0) return errno;
  out = {makedev(file.stx_dev_major, file.stx_dev_minor), file.stx_ino};
  return 0;
}

}  // namespace

XrcDomains::~XrcDomains() {
  for (auto& [file, domain] : domains_) closer_(std::move(domain.file));
}

XrcDomainAnswer XrcDomains::Open(Block block, const OpenXrcDomain& request, UniqueFd file) {
  XrcDomainAnswer answer = {.handle = request.handle, .key = {}, .error = 0, .reserved = 0};
  answer.error = Open(block, request, file, answer.key);
  if (file) closer_(std::move(file));
  return answer;
}

ErrnoValue XrcDomains::Open(Block block, const OpenXrcDomain& request, UniqueFd& file,
                            transport::XrcKey& key) {
  const auto first = openings_.lower_bound({block, 0});
  const auto end = openings_.lower_bound({block + 1, 0});
  if (static_cast<size_t>(std::distance(first, end)) == kMaxOfProcess) return ENOMEM;
  if (openings_.contains({block, request.handle})) return EINVAL;
  File id;
  if (const ErrnoValue error = Identify(file.get(), id)) return error;
  const auto found = domains_.find(id);
  const bool exists = found != domains_.end();
  const bool resumes = !request.key.IsZero();
  if (!resumes && !exists && request.creates == 0) return EAGAIN;
  if (!resumes && exists && request.exclusive != 0) return EINVAL;
  transport::XrcKey fresh = request.key;
  if (!exists && !resumes && getrandom(fresh.bytes.data(), fresh.bytes.size(), 0) < 0) {
    return errno;
  }
  openings_[{block, request.handle}] = id;
  Domain& domain = domains_[id];
  if (!exists) {
    domain.file = std::move(file);
    domain.key = fresh;
  }
  ++domain.openings;
  key = domain.key;
  return 0;
}

void XrcDomains::Close(Block block, uint64_t handle) {
  const auto opening = openings_.find({block, handle});
  if (opening == openings_.end()) return;
  Leave(opening->second);
  openings_.erase(opening);
}

void XrcDomains::Remove(Block block) {
  auto opening = openings_.lower_bound({block, 0});
  while (opening != openings_.end() && opening->first.first == block) {
    Leave(opening->second);
    opening = openings_.erase(opening);
  }
}

void XrcDomains::Leave(const File& file) {
  const auto found = domains_.find(file);
  if (--found->second.openings != 0) return;
  closer_(std::move(found->second.file));
  domains_.erase(found);
}

}  // namespace uroce::nic::control
