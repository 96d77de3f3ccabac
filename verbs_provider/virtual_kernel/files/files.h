#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include <optional>
#include <string>

#include "verbs_provider/virtual_kernel/base/fd_table.h"
#include "verbs_provider/virtual_kernel/device/virtual_tree.h"

namespace uroce::verbs::virtual_kernel {

// A path that leads to a node of the device's tree.
struct VirtualPath {
  std::string path;  // absolute, normalized
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

// Finds the node that `path`, relative to `directory_fd` as in openat(), leads to; nullopt if it is
// not ours, which most calls learn from the first few characters. Keeps errno.
std::optional<VirtualPath> Resolve(int directory_fd, const char* path);

// The system calls on such a path; they return like the system call, with errno.
int OpenVirtual(const VirtualPath& path, int flags);
int StatVirtual(const VirtualPath& path, struct stat* result);
int AccessVirtual(const VirtualPath& path, int mode);

// fstat() of a tracked descriptor that only stands for a node; false for all other descriptors.
bool StatTracked(int fd, struct stat* result);

}  // namespace uroce::verbs::virtual_kernel
