#include "verbs_provider/virtual_kernel/files/files.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "verbs_provider/virtual_kernel/base/errno_guard.h"
#include "verbs_provider/virtual_kernel/base/real_libc.h"
#include "verbs_provider/virtual_kernel/device/device.h"
#include "verbs_provider/virtual_kernel/rdma_cm/rdma_cm_file.h"
#include "verbs_provider/virtual_kernel/uverbs/uverbs.h"

namespace uroce::verbs::virtual_kernel {
namespace {

constexpr std::string_view kSysClass = "/sys/class/infiniband";  // and ..._verbs
constexpr std::string_view kDev = "/dev/infiniband";
constexpr std::string_view kRdmaCmClass = "/sys/class/misc/rdma_cm";

bool IsInteresting(std::string_view path) {
  return path.starts_with(kSysClass) || path.starts_with(kDev) || path.starts_with(kRdmaCmClass);
}

// `path` is a node of the tree. Directories above our part are the real kernel's, and shared.
bool IsShared(std::string_view path) {
  return path == kSysClass || path == "/sys/class/infiniband_verbs" || path == kDev ||
         !IsInteresting(path);
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
  if (real::write(fd, content.data(), content.size()) != static_cast<ssize_t>(content.size()) ||
      lseek(fd, 0, SEEK_SET) != 0 ||
      real::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) != 0) {
    real::close(fd);
    return Fail(EIO);
  }
  return fd;
}

int OpenDirectory(const VirtualPath& path, int flags) {
  if ((flags & O_ACCMODE) != O_RDONLY) return Fail(EISDIR);
  if (path.shared) {
    const int fd = real::open(path.path.c_str(), flags);
    if (fd >= 0) {
      if (FdTable::InRange(fd) && IsInteresting(path.path)) {
        FdTable::Instance().Insert(fd, std::make_shared<DirectoryFile>(path.path, true));
      }
      return fd;
    }
  }
  return OpenPlaceholder(flags, std::make_shared<DirectoryFile>(path.path, false));
}

}  // namespace

std::optional<VirtualPath> Resolve(int directory_fd, const char* path) {
  if (path == nullptr) return std::nullopt;
  std::string absolute;
  if (path[0] == '/') {
    if (!IsInteresting(path)) return std::nullopt;
    absolute = NormalizePath(path);
  } else {
    if (FdTable::KindOf(directory_fd) != FileKind::kDirectory || path[0] == '\0') {
      return std::nullopt;
    }
    const auto directory = FdTable::Instance().Find<DirectoryFile>(directory_fd);
    if (directory == nullptr) return std::nullopt;
    absolute = NormalizePath(directory->path() + '/' + path);
  }
  const Device* device = CurrentDeviceAsItIs();
  if (device == nullptr) return std::nullopt;
  const TreeNode* node = device->tree.Find(absolute);
  if (node == nullptr) return std::nullopt;
  const bool shared = IsShared(absolute);
  return VirtualPath{.path = std::move(absolute), .node = node, .shared = shared};
}

int OpenVirtual(const VirtualPath& path, int flags) {
  if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) return Fail(EEXIST);
  if (path.node->type == TreeNode::Type::kDirectory) return OpenDirectory(path, flags);
  if ((flags & O_DIRECTORY) != 0) return Fail(ENOTDIR);
  if (path.node->type == TreeNode::Type::kCharDevice) {
    const bool is_uverbs = minor(path.node->device) == kUverbsMinor;
    return is_uverbs ? OpenPlaceholder(flags, std::make_shared<UverbsFile>())
                     : RdmaCmFile::Open(flags, CurrentDevice()->rdma_cm);
  }
  if ((flags & O_ACCMODE) != O_RDONLY) return Fail(EACCES);
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

int AccessVirtual(const VirtualPath& path, int mode) {
  const TreeNode::Type type = path.node->type;
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
