#include "verbs_provider/virtual_kernel/files/directory_stream.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <unordered_set>

#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/base/thread_annotations.h"
#include "verbs_provider/virtual_kernel/base/real_libc.h"
#include "verbs_provider/virtual_kernel/device/device.h"

namespace uroce::verbs::virtual_kernel {
namespace {

// The streams that are open. Never destroyed, like everything the interposed calls use.
struct OpenStreams {
  nic::Mutex mutex;
  std::unordered_set<DirectoryStream*> streams UROCE_GUARDED_BY(mutex);
};

std::atomic<int> open_count = 0;

// fork() holds the mutex.
OpenStreams& Streams() {
  static auto* streams = [] {
    pthread_atfork([]() UROCE_ACQUIRE(Streams().mutex) { Streams().mutex.lock(); },
                   []() UROCE_RELEASE(Streams().mutex) { Streams().mutex.unlock(); },
                   []() UROCE_RELEASE(Streams().mutex) { Streams().mutex.unlock(); });
    return new OpenStreams;
  }();
  return *streams;
}

unsigned char EntryType(TreeNode::Type type) {
  switch (type) {
    case TreeNode::Type::kDirectory:
      return DT_DIR;
    case TreeNode::Type::kCharDevice:
      return DT_CHR;
    case TreeNode::Type::kFile:
      return DT_REG;
    case TreeNode::Type::kSymlink:
      return DT_LNK;
  }
  return DT_UNKNOWN;
}

}  // namespace

DIR* DirectoryStream::Open(const VirtualPath& path, int fd) {
  auto* stream = new DirectoryStream(fd);
  stream->AddEntry(".", DT_DIR);
  stream->AddEntry("..", DT_DIR);
  if (path.shared) stream->AddRealEntries(path);
  const VirtualTree& tree = CurrentDevice()->tree;
  for (const std::string& name : tree.List(path.path)) {
    stream->AddEntry(name.c_str(), EntryType(tree.Find(path.path + '/' + name)->type));
  }
  OpenStreams& open = Streams();
  const nic::MutexLock lock(open.mutex);
  open.streams.insert(stream);
  ++open_count;
  return reinterpret_cast<DIR*>(stream);
}

DirectoryStream* DirectoryStream::Of(DIR* stream) {
  if (open_count == 0) return nullptr;
  auto* candidate = reinterpret_cast<DirectoryStream*>(stream);
  OpenStreams& open = Streams();
  const nic::MutexLock lock(open.mutex);
  return open.streams.count(candidate) != 0 ? candidate : nullptr;
}

void DirectoryStream::Seek(long position) { next_ = static_cast<size_t>(std::max(position, 0L)); }

int DirectoryStream::Close() {
  {
    OpenStreams& open = Streams();
    const nic::MutexLock lock(open.mutex);
    open.streams.erase(this);
    --open_count;
  }
  const int fd = fd_;
  delete this;
  return close(fd);
}

void DirectoryStream::AddRealEntries(const VirtualPath& path) {
  DIR* real_stream = real::opendir(path.path.c_str());
  if (real_stream == nullptr) return;
  while (const dirent* entry = real::readdir(real_stream)) {
    // Skips ".", ".." and the names that the tree has too (abi_version): these are added elsewhere.
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (CurrentDevice()->tree.Find(path.path + '/' + name) != nullptr) continue;
    AddEntry(entry->d_name, entry->d_type);
  }
  real::closedir(real_stream);
}

void DirectoryStream::AddEntry(const char* name, unsigned char type) {
  dirent entry = {};
  entry.d_ino = std::hash<std::string>()(name) | 1;
  entry.d_off = static_cast<off_t>(entries_.size()) + 1;
  entry.d_reclen = sizeof(entry);
  entry.d_type = type;
  strncpy(entry.d_name, name, sizeof(entry.d_name) - 1);
  entries_.push_back(entry);
}

}  // namespace uroce::verbs::virtual_kernel
