#include "verbs_provider/virtual_kernel/device/virtual_tree.h"

#include <functional>
#include <utility>

namespace uroce::verbs::virtual_kernel {
namespace {

// As in Linux (MAXSYMLINKS).
constexpr int kMostLinks = 40;

// "" for the root and what lies in it.
std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

}  // namespace

void VirtualTree::AddFile(const std::string& path, std::string content) {
  Add(path, {.type = TreeNode::Type::kFile, .content = std::move(content), .device = 0});
}

void VirtualTree::AddCounter(const std::string& path, uint32_t counter) {
  Add(path, {.type = TreeNode::Type::kFile, .content = "", .device = 0, .counter = counter});
}

void VirtualTree::AddCharDevice(const std::string& path, dev_t device) {
  Add(path, {.type = TreeNode::Type::kCharDevice, .content = "", .device = device});
}

void VirtualTree::AddSymlink(const std::string& path, std::string target) {
  Add(path, {.type = TreeNode::Type::kSymlink, .content = std::move(target), .device = 0});
}

void VirtualTree::AddDirectory(const std::string& path) { Add(path, TreeNode()); }

void VirtualTree::Add(const std::string& path, TreeNode node) {
  const std::string parent = ParentOf(path);
  if (!parent.empty() && nodes_.find(parent) == nodes_.end()) AddDirectory(parent);
  nodes_.insert_or_assign(path, std::move(node));
}

const TreeNode* VirtualTree::Find(const std::string& path) const {
  const auto found = nodes_.find(path);
  return found == nodes_.end() ? nullptr : &found->second;
}

std::vector<std::string> VirtualTree::List(const std::string& directory) const {
  const std::string prefix = directory + '/';
  std::vector<std::string> names;
  for (auto node = nodes_.lower_bound(prefix);
       node != nodes_.end() && node->first.starts_with(prefix); ++node) {
    const std::string name = node->first.substr(prefix.size());
    if (name.find('/') == std::string::npos) names.push_back(name);
  }
  return names;
}

void VirtualTree::Stat(const std::string& path, const TreeNode& node, struct stat* result) const {
  *result = {};
  result->st_ino = std::hash<std::string>()(path) | 1;
  result->st_nlink = 1;
  result->st_blksize = 4096;
  switch (node.type) {
    case TreeNode::Type::kDirectory:
      result->st_mode = S_IFDIR | 0755;
      result->st_nlink = 2;
      break;
    case TreeNode::Type::kFile:
      result->st_mode = S_IFREG | 0444;
      result->st_size = 4096;  // as sysfs shows for every attribute
      break;
    case TreeNode::Type::kCharDevice:
      result->st_mode = S_IFCHR | 0666;
      result->st_rdev = node.device;
      break;
    case TreeNode::Type::kSymlink:
      result->st_mode = S_IFLNK | 0777;
      break;
  }
}

VirtualTree::Place VirtualTree::Walk(std::string_view path, bool follows_last) const {
  Place place;
  std::string rest(path);
  int links = 0;
  for (size_t at = 0; at < rest.size();) {
    const size_t slash = rest.find('/', at);
    const std::string part = rest.substr(at, slash - at);
    at = slash == std::string::npos ? rest.size() : slash + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      place.left_tree |= Find(place.path) != nullptr;
      place.path = ParentOf(place.path);
      continue;
    }
    const std::string next = place.path + '/' + part;
    const TreeNode* const node = Find(next);
    const bool is_last = slash == std::string::npos;
    if (node == nullptr || node->type != TreeNode::Type::kSymlink || (is_last && !follows_last)) {
      place.path = next;
      continue;
    }
    place.left_tree = true;
    place.is_loop = ++links > kMostLinks;
    if (place.is_loop) return place;
    if (node->content.starts_with('/')) place.path.clear();
    rest = node->content + (is_last ? "" : rest.substr(slash));
    at = 0;
  }
  if (place.path.empty()) place.path = "/";
  return place;
}

}  // namespace uroce::verbs::virtual_kernel
