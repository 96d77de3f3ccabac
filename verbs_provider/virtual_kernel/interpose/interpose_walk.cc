// ftw() and nftw(): libc's own call opendir() and stat() inside libc.

#include <dirent.h>
#include <ftw.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "verbs_provider/virtual_kernel/base/real_libc.h"
#include "verbs_provider/virtual_kernel/files/files.h"
#include "verbs_provider/virtual_kernel/interpose/interpose.h"

namespace uroce::verbs::virtual_kernel {
namespace {

using Visitor = int (*)(const char*, const struct stat*, int, FTW*);
using PlainVisitor = int (*)(const char*, const struct stat*, int);

// Walks a tree of ours as nftw(3) describes it. FTW_CHDIR has no effect: nothing can have a
// directory of ours as its working directory.
class TreeWalk {
 public:
  TreeWalk(Visitor visitor, PlainVisitor plain, int flags)
      : visitor_(visitor), plain_(plain), flags_(flags) {}

  // The result is that of nftw(). FTW_SKIP_* come back only with FTW_ACTIONRETVAL.
  int Visit(const std::string& path, int level) {
    struct stat status = {};
    int type = TypeOf(path, status);
    if (type != FTW_D) return Call(path, status, type, level);
    // As libc: a directory is visited once, by whatever links.
    const bool follows_links = (flags_ & FTW_PHYS) == 0;
    if (follows_links && !visited_.insert({status.st_dev, status.st_ino}).second) return 0;
    if ((flags_ & FTW_DEPTH) == 0) {
      const int result = Call(path, status, FTW_D, level);
      if (HasActions() && result == FTW_SKIP_SUBTREE) return 0;
      if (result != 0) return result;
    }
    const int result = VisitEntries(path, level + 1);
    if (result != 0) return result;
    return (flags_ & FTW_DEPTH) == 0 ? 0 : Call(path, status, FTW_DP, level);
  }

 private:
  bool HasActions() const { return (flags_ & FTW_ACTIONRETVAL) != 0; }

  int TypeOf(const std::string& path, struct stat& status) const {
    const bool keeps_links = (flags_ & FTW_PHYS) != 0;
    if (!keeps_links && stat(path.c_str(), &status) != 0) {
      return lstat(path.c_str(), &status) == 0 ? FTW_SLN : FTW_NS;
    }
    if (keeps_links && lstat(path.c_str(), &status) != 0) return FTW_NS;
    if (S_ISDIR(status.st_mode)) return FTW_D;
    return S_ISLNK(status.st_mode) ? FTW_SL : FTW_F;
  }

  int Call(const std::string& path, const struct stat& status, int type, int level) const {
    if (plain_ != nullptr) return plain_(path.c_str(), &status, type == FTW_SLN ? FTW_NS : type);
    FTW place = {.base = static_cast<int>(path.find_last_of('/') + 1), .level = level};
    return visitor_(path.c_str(), &status, type, &place);
  }

  int VisitEntries(const std::string& path, int level) {
    DIR* const stream = opendir(path.c_str());
    if (stream == nullptr) return -1;
    int result = 0;
    while (const dirent* entry = result == 0 ? readdir(stream) : nullptr) {
      if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
      result = Visit(path + (path.ends_with('/') ? "" : "/") + entry->d_name, level);
    }
    closedir(stream);
    return HasActions() && result == FTW_SKIP_SIBLINGS ? 0 : result;
  }

  const Visitor visitor_;
  const PlainVisitor plain_;  // of ftw(); null with nftw()
  const int flags_;
  std::set<std::pair<dev_t, ino_t>> visited_;
};

}  // namespace

extern "C" {

int InterposedNftw(const char* path, Visitor visitor, int descriptors, int flags)
    UROCE_INTERPOSE(nftw);
int InterposedNftw(const char* path, Visitor visitor, int descriptors, int flags) {
  const Lookup found(path);
  if (!found.ours()) return real::nftw(found.kernel_path(), visitor, descriptors, flags);
  return TreeWalk(visitor, nullptr, flags).Visit(path, 0);
}
int InterposedNftw64(const char* path, Visitor visitor, int descriptors, int flags)
    UROCE_INTERPOSE_ALIAS(nftw64, nftw);

int InterposedFtw(const char* path, PlainVisitor visitor, int descriptors) UROCE_INTERPOSE(ftw);
int InterposedFtw(const char* path, PlainVisitor visitor, int descriptors) {
  const Lookup found(path);
  if (!found.ours()) return real::ftw(found.kernel_path(), visitor, descriptors);
  return TreeWalk(nullptr, visitor, 0).Visit(path, 0);
}
int InterposedFtw64(const char* path, PlainVisitor visitor, int descriptors)
    UROCE_INTERPOSE_ALIAS(ftw64, ftw);

}  // extern "C"
}  // namespace uroce::verbs::virtual_kernel
