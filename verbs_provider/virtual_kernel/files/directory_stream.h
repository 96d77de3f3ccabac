#pragma once

#include <dirent.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "verbs_provider/virtual_kernel/files/files.h"

namespace uroce::verbs::virtual_kernel {

// The stream that opendir() returns for a directory of the tree. libc's DIR is opaque and needs a
// directory of the real kernel, so the stream is an object of ours whose address passes for a DIR*;
// Of() tells them apart. Holds all entries: in a shared directory the real ones, then ours.
class DirectoryStream {
 public:
  // Null with errno on failure. Takes over `fd`, a descriptor of the directory.
  static DIR* Open(const VirtualPath& path, int fd);

  // Null when `stream` is libc's; cheap while no stream of ours is open.
  static DirectoryStream* Of(DIR* stream);

  // The entry stays valid until the stream is closed. Null at the end.
  dirent* Read() { return next_ < entries_.size() ? &entries_[next_++] : nullptr; }
  long Tell() const { return static_cast<long>(next_); }
  // Beyond the end there is nothing to read.
  void Seek(long position);
  int fd() const { return fd_; }

  // Closes the descriptor and frees this.
  int Close();

 private:
  explicit DirectoryStream(int fd) : fd_(fd) {}
  void AddRealEntries(const VirtualPath& path);
  void AddEntry(const char* name, unsigned char type);

  const int fd_;
  std::vector<dirent> entries_;
  size_t next_ = 0;
};

}  // namespace uroce::verbs::virtual_kernel
