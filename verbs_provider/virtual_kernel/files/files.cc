#include "verbs_provider/virtual_kernel/files/files.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "dpdk_nic/base/cancellation_guard.h"
#include "dpdk_nic/base/memory_file.h"
#include "verbs_provider/virtual_kernel/base/errno_guard.h"
#include "verbs_provider/virtual_kernel/base/real_libc.h"
#include "verbs_provider/virtual_kernel/device/device.h"
#include "verbs_provider/virtual_kernel/device/device_tree.h"
#include "verbs_provider/virtual_kernel/rdma_cm/rdma_cm_file.h"
#include "verbs_provider/virtual_kernel/uverbs/uverbs.h"

namespace uroce::verbs::virtual_kernel {
namespace {

constexpr std::string_view kDev = "/dev/infiniband";
constexpr std::string_view kRdmaCmClass = "/sys/class/misc/rdma_cm";

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Each path of the device has one of these in it, however it is spelled; unless it is relative to
// one of its directories.
bool IsInteresting(std::string_view path) {
  return Contains(path, "infiniband") || Contains(path, kRdmaCmName) || Contains(path, kDeviceName);
}

// `path` is a directory of the tree. Where the kernel may have one too, it is shared.
bool IsShared(std::string_view path) {
  return !path.starts_with(kBusPath) && !path.starts_with(kRdmaCmClass);
}

// The path of a directory of the kernel; "" if it has none.
std::string KernelPathOf(int directory_fd) {
  char path[PATH_MAX];
  if (directory_fd == AT_FDCWD) return getcwd(path, sizeof path) == nullptr ? "" : path;
  char link[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", directory_fd);
  const ssize_t bytes = real::readlink(link, path, sizeof path);
  return bytes <= 0 ? "" : std::string(path, static_cast<size_t>(bytes));
}

int Fail(int error) {
  errno = error;
  return -1;
}

// Opens a descriptor that only stands for `file`.
int OpenPlaceholder(int flags, std::shared_ptr<OpenFile> file) {
  const int fd = eventfd(0, (flags & O_CLOEXEC) != 0 ? EFD_CLOEXEC : 0);
  if (fd < 0) return -1;
  if (!FdTable::InRange(fd)) {
    real::close(fd);
    return Fail(EMFILE);
  }
  FdTable::Instance().Insert(fd, std::move(file));
  return fd;
}

// Opens a file in memory with the content, which needs no further help from us.
int OpenContent(const std::string& content, int flags) {
  const unsigned int close_on_exec = (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0;
  const int fd = memfd_create("uroce-sysfs", close_on_exec | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  const int error = nic::GrowMemoryFile(content.size(), [&] {
    const ssize_t written = pwrite(fd, content.data(), content.size(), 0);
    return written == static_cast<ssize_t>(content.size()) ? 0 : EFBIG;
  });
  if (error != 0 || real::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) != 0) {
    real::close(fd);
    return Fail(EIO);
  }
  return fd;
}

int OpenCounter(uint32_t counter, int flags) {
  uint64_t value = 0;
  if (const int error = CurrentDevice()->provider().read_counter(counter, &value)) {
    return Fail(error);
  }
  return OpenContent(std::to_string(value) + "\n", flags);
}

int OpenDirectory(const VirtualPath& path, int flags) {
  if ((flags & O_ACCMODE) != O_RDONLY) return Fail(EISDIR);
  if (path.shared) {
    const int fd = real::open(path.path.c_str(), flags);
    if (fd >= 0) {
      // The others list the kernel's entries only.
      if (FdTable::InRange(fd) && IsInteresting(path.path)) {
        FdTable::Instance().Insert(fd, std::make_shared<DirectoryFile>(path.path, true));
      }
      return fd;
    }
  }
  return OpenPlaceholder(flags, std::make_shared<DirectoryFile>(path.path, false));
}

}  // namespace

Lookup::Lookup(int directory_fd, const char* path, LastLink last) : fd_(directory_fd), path_(path) {
  if (path == nullptr || path[0] == '\0') return;
  const bool is_absolute = path[0] == '/';
  std::shared_ptr<DirectoryFile> directory;
  if (!is_absolute && FdTable::KindOf(directory_fd) == FileKind::kDirectory) {
    directory = FdTable::Instance().Find<DirectoryFile>(directory_fd);
  }
  if (directory == nullptr && !IsInteresting(path)) return;
  const ErrnoGuard guard;
  if (is_absolute) {
    Find(path, last, false);
    return;
  }
  const std::string from = directory != nullptr ? directory->path() : KernelPathOf(directory_fd);
  if (from.empty()) return;
  Find(from + '/' + path, last, directory != nullptr && !directory->real());
}

void Lookup::Find(const std::string& absolute, LastLink last, bool is_from_tree) {
  const Device* device = CurrentDeviceAsItIs();
  if (device == nullptr) return;
  VirtualTree::Place place = device->tree.Walk(absolute, last == LastLink::kFollow);
  const TreeNode* node = place.is_loop ? nullptr : device->tree.Find(place.path);
  if (node != nullptr) {
    const bool shared = node->type == TreeNode::Type::kDirectory && IsShared(place.path);
    ours_ = VirtualPath{.path = std::move(place.path), .node = node, .shared = shared};
    return;
  }
  // Other paths stay as they are: the tree does not know the kernel's symbolic links.
  if (!is_from_tree && !place.left_tree) return;
  elsewhere_ = std::move(place.path);
  fd_ = AT_FDCWD;
  path_ = elsewhere_.c_str();
}

int OpenVirtual(const VirtualPath& path, int flags) {
  if (path.node->type == TreeNode::Type::kSymlink) return Fail(ELOOP);  // with O_NOFOLLOW
  const nic::CancellationGuard cancellation;
  if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) return Fail(EEXIST);
  if (path.node->type == TreeNode::Type::kDirectory) return OpenDirectory(path, flags);
  if ((flags & O_DIRECTORY) != 0) return Fail(ENOTDIR);
  if (path.node->type == TreeNode::Type::kCharDevice) {
    const bool is_uverbs = minor(path.node->device) == kUverbsMinor;
    return is_uverbs ? OpenPlaceholder(flags, std::make_shared<UverbsFile>())
                     : RdmaCmFile::Open(flags, CurrentDevice()->rdma_cm);
  }
  if ((flags & O_ACCMODE) != O_RDONLY) return Fail(EACCES);
  if (path.node->counter) return OpenCounter(*path.node->counter, flags);
  return OpenContent(path.node->content, flags);
}

int StatVirtual(const VirtualPath& path, struct stat* result) {
  if (path.shared) {
    const ErrnoGuard guard;
    if (real::stat(path.path.c_str(), result) == 0) return 0;
  }
  CurrentDevice()->tree.Stat(path.path, *path.node, result);
  return 0;
}

ssize_t ReadlinkVirtual(const VirtualPath& path, char* buffer, size_t bytes) {
  if (path.node->type != TreeNode::Type::kSymlink) return Fail(EINVAL);
  return static_cast<ssize_t>(path.node->content.copy(buffer, bytes));
}

int AccessVirtual(const VirtualPath& path, int mode) {
  const TreeNode::Type type = path.node->type;
  if (type == TreeNode::Type::kSymlink) return 0;
  if ((mode & W_OK) != 0 && type != TreeNode::Type::kCharDevice) return Fail(EACCES);
  if ((mode & X_OK) != 0 && type != TreeNode::Type::kDirectory) return Fail(EACCES);
  return 0;
}

bool StatTracked(int fd, struct stat* result) {
  std::string path;
  switch (FdTable::KindOf(fd)) {
    case FileKind::kUverbs:
      // open_cdev() of libibverbs wants to see a character device of the right number.
      path = std::string(kDev) + "/" + kUverbsName;
      break;
    case FileKind::kRdmaCm:
      path = std::string(kDev) + "/" + kRdmaCmName;
      break;
    case FileKind::kDirectory: {
      const auto directory = FdTable::Instance().Find<DirectoryFile>(fd);
      if (directory == nullptr || directory->real()) return false;
      path = directory->path();
      break;
    }
    default:
      return false;
  }
  const VirtualTree& tree = CurrentDevice()->tree;
  tree.Stat(path, *tree.Find(path), result);
  return true;
}

}  // namespace uroce::verbs::virtual_kernel
