#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace uroce::verbs::virtual_kernel {

struct TreeNode {
  enum class Type { kDirectory, kFile, kCharDevice, kSymlink };
  Type type = Type::kDirectory;
  std::string content;  // of a file; where a symbolic link leads to
  dev_t device = 0;     // of a character device
  // Of a file that has another content each time it is opened: the number of the counter in it.
  std::optional<uint32_t> counter = {};
};

// Files, directories, symbolic links and device nodes by absolute path, all read-only and in
// memory.
class VirtualTree {
 public:
  // Missing parent directories are made too.
  void AddFile(const std::string& path, std::string content);
  void AddCounter(const std::string& path, uint32_t counter);
  void AddCharDevice(const std::string& path, dev_t device);
  void AddSymlink(const std::string& path, std::string target);
  void AddDirectory(const std::string& path);

  // `path` without redundant components and symbolic links. Null if there is no such node.
  const TreeNode* Find(const std::string& path) const;

  // Where `path`, which is absolute, leads to. Components that the tree does not know are taken for
  // directories. A symbolic link at its end is followed if `follows_last`, or if a slash comes
  // behind it.
  struct Place {
    std::string path;        // without redundant components and symbolic links
    bool left_tree = false;  // by a symbolic link of the tree, or by ".." from one of its nodes
    bool is_loop = false;
  };
  Place Walk(std::string_view path, bool follows_last) const;

  // Names in a directory, sorted.
  std::vector<std::string> List(const std::string& directory) const;

  // stat() of a node.
  void Stat(const std::string& path, const TreeNode& node, struct stat* result) const;

 private:
  void Add(const std::string& path, TreeNode node);
  std::map<std::string, TreeNode> nodes_;
};

}  // namespace uroce::verbs::virtual_kernel
