#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/xrc_messages.h"
#include "transport/ids.h"

namespace uroce::nic::control {

// The XRC domains that processes share, by their files, as ib_uverbs_open_xrcd has them. Keeps a
// descriptor of each file, so that its inode number does not become another file's. Knows nothing
// of what the processes do with their domains: the key of a domain is what they need for it.
class XrcDomains {
 public:
  // Openings of one process. Programs have one domain.
  static constexpr size_t kMaxOfProcess = 16;
  // Takes a descriptor whose close() may block.
  using Closer = std::function<void(UniqueFd)>;

  explicit XrcDomains(Closer closer) : closer_(std::move(closer)) {}
  ~XrcDomains();
  XrcDomains(const XrcDomains&) = delete;
  XrcDomains& operator=(const XrcDomains&) = delete;

  XrcDomainAnswer Open(Block block, const OpenXrcDomain& request, UniqueFd file);
  void Close(Block block, uint64_t handle);
  // Forgets the openings of a process that is gone.
  void Remove(Block block);

 private:
  using File = std::pair<uint64_t, uint64_t>;  // device and inode
  struct Domain {
    UniqueFd file;
    transport::XrcKey key;
    uint32_t openings = 0;
  };

  ErrnoValue Open(Block block, const OpenXrcDomain& request, UniqueFd& file,
                  transport::XrcKey& key);
  void Leave(const File& file);

  const Closer closer_;
  std::map<File, Domain> domains_;
  std::map<std::pair<Block, uint64_t>, File> openings_;  // by block and handle
};

}  // namespace uroce::nic::control
