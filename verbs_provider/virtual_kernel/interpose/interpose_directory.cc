// opendir and the calls on its result, also those that libc makes itself.

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "verbs_provider/virtual_kernel/base/real_libc.h"
#include "verbs_provider/virtual_kernel/files/directory_stream.h"
#include "verbs_provider/virtual_kernel/files/files.h"
#include "verbs_provider/virtual_kernel/interpose/interpose.h"

namespace uroce::verbs::virtual_kernel {

// So that readdir64 can be the same function.
static_assert(sizeof(struct dirent) == sizeof(struct dirent64));

namespace {

using DirentFilter = int (*)(const dirent*);
using DirentOrder = int (*)(const dirent**, const dirent**);

// Whether a pattern can match a path of the device.
bool MayMatchOurs(const char* pattern) {
  const std::string_view text = pattern;
  return text.starts_with("/sys/class/") || text.starts_with("/dev/infiniband");
}

// scandir() of our stream: libc's own would call libc's opendir(). -1 with errno.
int ScanDirectory(DirectoryStream& stream, dirent*** list, DirentFilter filter, DirentOrder order) {
  std::vector<const dirent*> wanted;
  while (const dirent* entry = stream.Read()) {
    if (filter == nullptr || filter(entry) != 0) wanted.push_back(entry);
  }
  if (order != nullptr) {
    std::sort(wanted.begin(), wanted.end(), [order](const dirent* left, const dirent* right) {
      return order(&left, &right) < 0;
    });
  }
  // The caller frees the list and each entry.
  *list = static_cast<dirent**>(calloc(wanted.size() + 1, sizeof(dirent*)));
  bool complete = *list != nullptr;
  for (size_t index = 0; complete && index < wanted.size(); ++index) {
    (*list)[index] = static_cast<dirent*>(malloc(sizeof(dirent)));
    complete = (*list)[index] != nullptr;
    if (complete) *(*list)[index] = *wanted[index];
  }
  if (complete) return static_cast<int>(wanted.size());
  for (dirent** entry = *list; entry != nullptr && *entry != nullptr; ++entry) free(*entry);
  free(*list);
  return -1;
}

}  // namespace

extern "C" {

DIR* InterposedOpendir(const char* path) UROCE_INTERPOSE(opendir);
DIR* InterposedOpendir(const char* path) {
  const auto found = Resolve(AT_FDCWD, path);
  if (!found) return real::opendir(path);
  const int fd = OpenVirtual(*found, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return fd < 0 ? nullptr : DirectoryStream::Open(*found, fd);
}

DIR* InterposedFdopendir(int fd) UROCE_INTERPOSE(fdopendir);
DIR* InterposedFdopendir(int fd) {
  const auto directory = FdTable::Instance().Find<DirectoryFile>(fd);
  if (directory == nullptr) return real::fdopendir(fd);
  const auto found = Resolve(AT_FDCWD, directory->path().c_str());
  return found ? DirectoryStream::Open(*found, fd) : real::fdopendir(fd);
}

dirent* InterposedReaddir(DIR* stream) UROCE_INTERPOSE(readdir);
dirent* InterposedReaddir(DIR* stream) {
  DirectoryStream* ours = DirectoryStream::Of(stream);
  return ours != nullptr ? ours->Read() : real::readdir(stream);
}
dirent* InterposedReaddir64(DIR* stream) UROCE_INTERPOSE_ALIAS(readdir64, readdir);

int InterposedClosedir(DIR* stream) UROCE_INTERPOSE(closedir);
int InterposedClosedir(DIR* stream) {
  DirectoryStream* ours = DirectoryStream::Of(stream);
  return ours != nullptr ? ours->Close() : real::closedir(stream);
}

int InterposedDirfd(DIR* stream) UROCE_INTERPOSE(dirfd);
int InterposedDirfd(DIR* stream) {
  const DirectoryStream* ours = DirectoryStream::Of(stream);
  return ours != nullptr ? ours->fd() : real::dirfd(stream);
}

void InterposedRewinddir(DIR* stream) UROCE_INTERPOSE(rewinddir);
void InterposedRewinddir(DIR* stream) {
  if (DirectoryStream* ours = DirectoryStream::Of(stream)) return ours->Seek(0);
  real::rewinddir(stream);
}

void InterposedSeekdir(DIR* stream, long position) UROCE_INTERPOSE(seekdir);
void InterposedSeekdir(DIR* stream, long position) {
  if (DirectoryStream* ours = DirectoryStream::Of(stream)) return ours->Seek(position);
  real::seekdir(stream, position);
}

long InterposedTelldir(DIR* stream) UROCE_INTERPOSE(telldir);
long InterposedTelldir(DIR* stream) {
  const DirectoryStream* ours = DirectoryStream::Of(stream);
  return ours != nullptr ? ours->Tell() : real::telldir(stream);
}

int InterposedScandir(const char* path, dirent*** list, DirentFilter filter, DirentOrder order)
    UROCE_INTERPOSE(scandir);
int InterposedScandir(const char* path, dirent*** list, DirentFilter filter, DirentOrder order) {
  if (!Resolve(AT_FDCWD, path)) return real::scandir(path, list, filter, order);
  DIR* const stream = InterposedOpendir(path);
  if (stream == nullptr) return -1;
  const int count = ScanDirectory(*DirectoryStream::Of(stream), list, filter, order);
  InterposedClosedir(stream);
  return count;
}
int InterposedScandir64(const char* path, dirent*** list, DirentFilter filter, DirentOrder order)
    UROCE_INTERPOSE_ALIAS(scandir64, scandir);

int InterposedGlob(const char* pattern, int flags, int (*on_error)(const char*, int), glob_t* found)
    UROCE_INTERPOSE(glob);
int InterposedGlob(const char* pattern, int flags, int (*on_error)(const char*, int),
                   glob_t* found) {
  if ((flags & GLOB_ALTDIRFUNC) != 0 || !MayMatchOurs(pattern)) {
    return real::glob(pattern, flags, on_error, found);
  }
  found->gl_opendir = [](const char* path) -> void* { return InterposedOpendir(path); };
  found->gl_readdir = [](void* stream) { return InterposedReaddir(static_cast<DIR*>(stream)); };
  found->gl_closedir = [](void* stream) { InterposedClosedir(static_cast<DIR*>(stream)); };
  found->gl_stat = [](const char* path, struct stat* result) { return stat(path, result); };
  found->gl_lstat = [](const char* path, struct stat* result) { return lstat(path, result); };
  return real::glob(pattern, flags | GLOB_ALTDIRFUNC, on_error, found);
}
int InterposedGlob64(const char* pattern, int flags, int (*on_error)(const char*, int),
                     glob_t* found) UROCE_INTERPOSE_ALIAS(glob64, glob);

}  // extern "C"
}  // namespace uroce::verbs::virtual_kernel
