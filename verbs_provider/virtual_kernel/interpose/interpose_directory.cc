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
#include "verbs_provider/virtual_kernel/device/device.h"
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
  const auto has = [text](const char* part) { return text.find(part) != std::string_view::npos; };
  return has("infiniband") || has(kRdmaCmName) || has(kDeviceName);
}

DIR* OpenStream(const VirtualPath& path) {
  const int fd = OpenVirtual(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return fd < 0 ? nullptr : DirectoryStream::Open(path, fd);
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
  const Lookup found(path);
  return found.ours() ? OpenStream(*found.ours()) : real::opendir(found.kernel_path());
}

DIR* InterposedFdopendir(int fd) UROCE_INTERPOSE(fdopendir);
DIR* InterposedFdopendir(int fd) {
  const auto directory = FdTable::Instance().Find<DirectoryFile>(fd);
  if (directory == nullptr) return real::fdopendir(fd);
  const Lookup found(directory->path().c_str());
  return found.ours() ? DirectoryStream::Open(*found.ours(), fd) : real::fdopendir(fd);
}

dirent* InterposedReaddir(DIR* stream) UROCE_INTERPOSE(readdir);
dirent* InterposedReaddir(DIR* stream) {
  DirectoryStream* ours = DirectoryStream::Of(stream);
  return ours != nullptr ? ours->Read() : real::readdir(stream);
}
dirent* InterposedReaddir64(DIR* stream) UROCE_INTERPOSE_ALIAS(readdir64, readdir);

int InterposedReaddirR(DIR* stream, dirent* room, dirent** entry) UROCE_INTERPOSE(readdir_r);
int InterposedReaddirR(DIR* stream, dirent* room, dirent** entry) {
  DirectoryStream* ours = DirectoryStream::Of(stream);
  if (ours == nullptr) return real::readdir_r(stream, room, entry);
  const dirent* const next = ours->Read();
  *entry = next == nullptr ? nullptr : room;
  if (next != nullptr) *room = *next;
  return 0;
}
int InterposedReaddirR64(DIR* stream, dirent* room, dirent** entry)
    UROCE_INTERPOSE_ALIAS(readdir64_r, readdir_r);

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

int InterposedScandirat(int directory_fd, const char* path, dirent*** list, DirentFilter filter,
                        DirentOrder order) UROCE_INTERPOSE(scandirat);
int InterposedScandirat(int directory_fd, const char* path, dirent*** list, DirentFilter filter,
                        DirentOrder order) {
  const Lookup found(directory_fd, path);
  if (!found.ours()) {
    return real::scandirat(found.kernel_fd(), found.kernel_path(), list, filter, order);
  }
  DIR* const stream = OpenStream(*found.ours());
  if (stream == nullptr) return -1;
  const int count = ScanDirectory(*DirectoryStream::Of(stream), list, filter, order);
  InterposedClosedir(stream);
  return count;
}
int InterposedScandirat64(int directory_fd, const char* path, dirent*** list, DirentFilter filter,
                          DirentOrder order) UROCE_INTERPOSE_ALIAS(scandirat64, scandirat);

int InterposedScandir(const char* path, dirent*** list, DirentFilter filter, DirentOrder order)
    UROCE_INTERPOSE(scandir);
int InterposedScandir(const char* path, dirent*** list, DirentFilter filter, DirentOrder order) {
  return InterposedScandirat(AT_FDCWD, path, list, filter, order);
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
