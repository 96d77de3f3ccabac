#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/base/thread_annotations.h"

namespace uroce::verbs::virtual_kernel {

// The kinds of descriptors that the virtual kernel tells apart.
enum class FileKind : uint8_t {
  kNone,       // not ours
  kUverbs,     // /dev/infiniband/uverbsN
  kNetlink,    // a NETLINK_RDMA socket
  kEventFile,  // completion channel or asynchronous events
  kRdmaCm,     // /dev/infiniband/rdma_cm
  kDirectory,  // of the virtual sysfs or /dev/infiniband
  kPrivate,    // the virtual kernel's own; the application must not close it
};

// The kernel's "open file description": descriptors made by dup() share one, and it goes away with
// the last of them. Subclasses hold what their kind needs.
class OpenFile {
 public:
  explicit OpenFile(FileKind kind) : kind_(kind) {}
  virtual ~OpenFile() = default;
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  FileKind kind() const { return kind_; }

 private:
  const FileKind kind_;
};

// The descriptors that are ours. Every interposed call asks KindOf() first: it is lock-free and
// async-signal-safe, and costs one load in a process that never opens a device.
//
// Threads: all functions may be called from any. Processes: fork() copies the table with the
// descriptors, as the kernel does. The child of a vfork() runs in our memory but with descriptors
// of its own, so what it does to those must not reach the table: see InForeignProcess().
class FdTable {
 public:
  // Descriptors from here on are never ours. The default kernel limit (fs.nr_open) is the same.
  static constexpr int kMaxFds = 1 << 20;

  // The table of this process. Never destroyed: exit handlers still close descriptors.
  static FdTable& Instance();

  static FileKind KindOf(int fd) {
    if (!AnyTracked() || fd < 0 || fd >= kMaxFds) return FileKind::kNone;
    return static_cast<FileKind>(kinds_[fd].load(std::memory_order_acquire));
  }

  static bool AnyTracked() { return tracked_.load(std::memory_order_acquire) != 0; }

  // True if `fd` can be tracked; false with errno = EMFILE.
  static bool InRange(int fd);

  // Records that `fd`, just opened, refers to `file`. Requires InRange(fd).
  void Insert(int fd, std::shared_ptr<OpenFile> file);

  // Null when `fd` is not of this class.
  template <typename File>
  std::shared_ptr<File> Find(int fd) const {
    return std::dynamic_pointer_cast<File>(FindAny(fd));
  }
  std::shared_ptr<OpenFile> FindAny(int fd) const;

  // Forgets `fd`, which is about to be closed or replaced. If it was the last descriptor of its
  // file, the file is destroyed. To be called before the close: afterwards another thread may
  // already have been given the same number.
  void Remove(int fd);

  // The tracked descriptors in [first, last], in ascending order.
  std::vector<int> TrackedIn(unsigned int first, unsigned int last) const;

  // True in the child of a vfork(), or of a raw clone(), that shares or copied our memory without
  // fork handlers having run. Only asked about descriptors that are tracked.
  bool InForeignProcess() const;

 private:
  FdTable();

  // Static, so that the pages of a process without devices are never touched.
  static inline constinit std::atomic<int> tracked_ = 0;
  static inline constinit std::atomic<uint8_t> kinds_[kMaxFds] = {};

  std::atomic<pid_t> owner_pid_;
  mutable nic::Mutex mutex_;  // guards changes of kinds_, too; held across fork()
  std::unordered_map<int, std::shared_ptr<OpenFile>> files_ UROCE_GUARDED_BY(mutex_);
};

// A descriptor that the virtual kernel keeps for itself. Moved out of the low numbers that
// applications expect to be given, and closed with this object only.
class PrivateFd {
 public:
  PrivateFd() = default;
  // Takes over `fd`; -1 makes an empty one.
  explicit PrivateFd(int fd);
  PrivateFd(PrivateFd&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  PrivateFd& operator=(PrivateFd&& other) noexcept;
  ~PrivateFd();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  void Reset();
  int fd_ = -1;
};

}  // namespace uroce::verbs::virtual_kernel
