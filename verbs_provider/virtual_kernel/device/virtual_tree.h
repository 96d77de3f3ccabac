#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace uroce::verbs::virtual_kernel {

struct TreeNode {
  enum class Type { kDirectory, kFile, kCharDevice };
  Type type = Type::kDirectory;
  std::string content;  // of a file
  dev_t device = 0;     // of a character device
};

// Files, directories and device nodes by absolute path, all read-only and in memory.
class VirtualTree {
 public:
  // Missing parent directories are made too.
  void AddFile(const std::string& path, std::string content);
  void AddCharDevice(const std::string& path, dev_t device);
  void AddDirectory(const std::string& path);

  // `path` as NormalizePath() returns it. Null if there is no such node.
  const TreeNode* Find(const std::string& path) const;

  // Names in a directory, sorted.
  std::vector<std::string> List(const std::string& directory) const;

  // stat() of a node.
  void Stat(const std::string& path, const TreeNode& node, struct stat* result) const;

 private:
  void Add(const std::string& path, TreeNode node);
  std::map<std::string, TreeNode> nodes_;
};

// Without empty, "." and ".." components and without a slash at the end. Purely textual: right for
// our own paths, in which there are no symbolic links. `path` must be absolute.
std::string NormalizePath(std::string_view path);

}  // namespace uroce::verbs::virtual_kernel
