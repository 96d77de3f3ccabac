#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <optional>
#include <string>

#include "verbs_provider/virtual_kernel/base/fd_table.h"
#include "verbs_provider/virtual_kernel/device/virtual_tree.h"

namespace uroce::verbs::virtual_kernel {

// A path that leads to a node of the device's tree.
struct VirtualPath {
  std::string path;  // absolute, without redundant components and symbolic links
  const TreeNode* node;
  // A directory in which the real kernel may have entries too (/sys/class/infiniband, or its parent
  // by ".."): where it exists, the real one is used and ours is merged in.
  bool shared;
};

// An open directory of the tree, or a shared real one.
class DirectoryFile : public OpenFile {
 public:
  DirectoryFile(std::string path, bool real)
      : OpenFile(FileKind::kDirectory), path_(std::move(path)), real_(real) {}
  const std::string& path() const { return path_; }
  bool real() const { return real_; }

 private:
  const std::string path_;
  const bool real_;
};

// Where a path of the application leads to, relative to `directory_fd` as in openat(): to a node of
// the tree, or to something of the real kernel, by whatever spelling. Most calls learn from a look
// at the text that it is the kernel's. Keeps errno.
class Lookup {
 public:
  enum class LastLink { kFollow, kKeep };

  Lookup(int directory_fd, const char* path, LastLink last = LastLink::kFollow);
  explicit Lookup(const char* path, LastLink last = LastLink::kFollow)
      : Lookup(AT_FDCWD, path, last) {}

  // Null if the path is the kernel's.
  const VirtualPath* ours() const { return ours_ ? &*ours_ : nullptr; }
  // The kernel is to be asked for this in place of the path, which may lead through directories
  // that the kernel does not have.
  int kernel_fd() const { return fd_; }
  const char* kernel_path() const { return path_; }

 private:
  // `is_from_tree`: the path begins in a directory that the kernel does not have.
  void Find(const std::string& absolute, LastLink last, bool is_from_tree);

  int fd_;
  const char* path_;
  std::string elsewhere_;  // path_ points to it if the path leads through the tree to the kernel
  std::optional<VirtualPath> ours_;
};

// The system calls on such a path; they return like the system call, with errno.
int OpenVirtual(const VirtualPath& path, int flags);
int StatVirtual(const VirtualPath& path, struct stat* result);
int AccessVirtual(const VirtualPath& path, int mode);
ssize_t ReadlinkVirtual(const VirtualPath& path, char* buffer, size_t bytes);

// fstat() of a tracked descriptor that only stands for a node; false for all other descriptors.
bool StatTracked(int fd, struct stat* result);

}  // namespace uroce::verbs::virtual_kernel
