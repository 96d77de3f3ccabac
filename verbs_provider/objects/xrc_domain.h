#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/engine/engine.h"
#include "transport/ids.h"
#include "verbs_provider/base/use_count.h"

namespace uroce::verbs {

class Device;
struct QueuePair;

// An XRC domain: its targets reach its shared receive queues. All handles that this process opened
// by one file share the domain, which lasts as long as one of them is open. In a fabric, processes
// share it, too.
struct XrcDomain {
  transport::XrcDomainId id{};
  transport::XrcKey key{};  // zero: no other process shares it
  uint64_t opening = 0;     // at uroced (PacketPort::XrcDomain)
  // Device and inode of the file of a domain that several handles can share. The open descriptor
  // keeps the inode number from being given to another file.
  std::pair<dev_t, ino_t> file{};
  nic::UniqueFd file_descriptor;

  // By number, the first handle (QueuePair) of each target of the domain. Lock order:
  // `targets_lock`, then the engine's lock.
  std::mutex targets_lock;
  std::map<uint32_t, QueuePair*> targets;
};

// Opens XRC domains, and finds the domain of a file. Lock order: `lock_`, then the engine's lock.
class XrcDomains {
 public:
  // fd -1: a private domain. Else the domain of the file, as the kernel has it
  // (ib_uverbs_open_xrcd): EBADF, EAGAIN if there is none and `flags` lacks O_CREAT, EINVAL if
  // there is one and `flags` has O_EXCL; ETIMEDOUT if uroced does not answer. Two domains get the
  // same id after 2^32 others. `engine`: the one of the shared receive queues.
  int Open(nic::Engine& engine, int fd, int flags, std::shared_ptr<XrcDomain>& out);
  void Close(nic::Engine& engine, std::shared_ptr<XrcDomain>& domain);

 private:
  std::shared_ptr<XrcDomain> Create();
  int Share(nic::Engine& engine, int flags, XrcDomain& domain);

  std::mutex lock_;
  uint32_t next_id_ = 1;
  uint64_t next_opening_ = 1;
  // Peers whose targets have sent to a domain find it again when this process opens it again.
  std::map<transport::XrcKey, transport::XrcDomainId> ids_;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<XrcDomain>> by_file_;
};

// The object behind ibv_open_xrcd.
struct XrcDomainHandle {
  ibv_xrcd verbs = {};  // first: libibverbs knows the object by it
  Device* device = nullptr;
  std::shared_ptr<XrcDomain> domain;
  UseCount users;  // shared receive queues and handles of targets that were made with this one
  uint32_t handle = 0;

  static XrcDomainHandle& From(ibv_xrcd* xrcd) { return *reinterpret_cast<XrcDomainHandle*>(xrcd); }
};

// As XrcDomains::Open; EOPNOTSUPP and EINVAL for a comp_mask with more or less than both.
ibv_xrcd* OpenXrcd(ibv_context* context, ibv_xrcd_init_attr* attr);
// EBUSY while objects that were made with this handle exist.
int CloseXrcd(ibv_xrcd* xrcd);

}  // namespace uroce::verbs
