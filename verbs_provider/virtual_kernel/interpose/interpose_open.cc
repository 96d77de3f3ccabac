// open, fopen and the other calls that lead from a path to its content.

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "verbs_provider/virtual_kernel/base/real_libc.h"
#include "verbs_provider/virtual_kernel/files/files.h"
#include "verbs_provider/virtual_kernel/interpose/interpose.h"

namespace uroce::verbs::virtual_kernel {
namespace {

// open() has its third argument only with these flags.
mode_t ModeOf(int flags, va_list arguments) {
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return has_mode ? va_arg(arguments, mode_t) : 0;
}

int OpenAt(int directory_fd, const char* path, int flags, mode_t mode) {
  if (const auto found = Resolve(directory_fd, path)) return OpenVirtual(*found, flags);
  if (FdTable::KindOf(directory_fd) == FileKind::kDirectory && path != nullptr && path[0] != '/') {
    // Not one of our nodes; a shared directory may still have it, a virtual one does not.
    const auto directory = FdTable::Instance().Find<DirectoryFile>(directory_fd);
    if (directory != nullptr && !directory->real()) {
      errno = ENOENT;
      return -1;
    }
  }
  return real::openat(directory_fd, path, flags, mode);
}

}  // namespace

extern "C" {

int InterposedOpen(const char* path, int flags, ...) UROCE_INTERPOSE(open);
int InterposedOpen(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  if (const auto found = Resolve(AT_FDCWD, path)) return OpenVirtual(*found, flags);
  return real::open(path, flags, mode);
}
int InterposedOpen64(const char* path, int flags, ...) UROCE_INTERPOSE_ALIAS(open64, open);

int InterposedOpenat(int directory_fd, const char* path, int flags, ...) UROCE_INTERPOSE(openat);
int InterposedOpenat(int directory_fd, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return OpenAt(directory_fd, path, flags, mode);
}
int InterposedOpenat64(int directory_fd, const char* path, int flags, ...)
    UROCE_INTERPOSE_ALIAS(openat64, openat);

// Fortified programs call this when they pass no mode.
int InterposedOpen2(const char* path, int flags) UROCE_INTERPOSE(__open_2);
int InterposedOpen2(const char* path, int flags) { return InterposedOpen(path, flags); }
int InterposedOpen64Of2(const char* path, int flags) UROCE_INTERPOSE_ALIAS(__open64_2, __open_2);

int InterposedOpenat2(int directory_fd, const char* path, int flags) UROCE_INTERPOSE(__openat_2);
int InterposedOpenat2(int directory_fd, const char* path, int flags) {
  return OpenAt(directory_fd, path, flags, 0);
}
int InterposedOpenat64Of2(int directory_fd, const char* path, int flags)
    UROCE_INTERPOSE_ALIAS(__openat64_2, __openat_2);

FILE* InterposedFopen(const char* path, const char* mode) UROCE_INTERPOSE(fopen);
FILE* InterposedFopen(const char* path, const char* mode) {
  const auto found = Resolve(AT_FDCWD, path);
  if (!found) return real::fopen(path, mode);
  const bool writes = mode[0] != 'r' || strchr(mode, '+') != nullptr;
  const int close_on_exec = strchr(mode, 'e') != nullptr ? O_CLOEXEC : 0;
  const int fd = OpenVirtual(*found, (writes ? O_RDWR : O_RDONLY) | close_on_exec);
  if (fd < 0) return nullptr;
  FILE* stream = fdopen(fd, mode);
  if (stream == nullptr) close(fd);
  return stream;
}
FILE* InterposedFopen64(const char* path, const char* mode) UROCE_INTERPOSE_ALIAS(fopen64, fopen);

ssize_t InterposedReadlinkat(int directory_fd, const char* path, char* buffer, size_t bytes)
    UROCE_INTERPOSE(readlinkat);
ssize_t InterposedReadlinkat(int directory_fd, const char* path, char* buffer, size_t bytes) {
  const auto found = Resolve(directory_fd, path);
  if (!found) return real::readlinkat(directory_fd, path, buffer, bytes);
  errno = EINVAL;  // exists, but is no symbolic link
  return -1;
}

ssize_t InterposedReadlink(const char* path, char* buffer, size_t bytes) UROCE_INTERPOSE(readlink);
ssize_t InterposedReadlink(const char* path, char* buffer, size_t bytes) {
  const auto found = Resolve(AT_FDCWD, path);
  if (!found) return real::readlink(path, buffer, bytes);
  errno = EINVAL;
  return -1;
}

char* InterposedRealpath(const char* path, char* resolved) UROCE_INTERPOSE(realpath);
char* InterposedRealpath(const char* path, char* resolved) {
  const auto found = Resolve(AT_FDCWD, path);
  if (!found) return real::realpath(path, resolved);
  // No path of the tree comes near PATH_MAX, which is what `resolved` must have room for.
  return resolved == nullptr ? strdup(found->path.c_str()) : strcpy(resolved, found->path.c_str());
}

// The fortified versions; the last argument is the size of the buffer.
ssize_t InterposedReadlinkChk(const char* path, char* buffer, size_t bytes, size_t room)
    UROCE_INTERPOSE(__readlink_chk);
ssize_t InterposedReadlinkChk(const char* path, char* buffer, size_t bytes, size_t room) {
  if (room < bytes) abort();
  return InterposedReadlink(path, buffer, bytes);
}

ssize_t InterposedReadlinkatChk(int directory_fd, const char* path, char* buffer, size_t bytes,
                                size_t room) UROCE_INTERPOSE(__readlinkat_chk);
ssize_t InterposedReadlinkatChk(int directory_fd, const char* path, char* buffer, size_t bytes,
                                size_t room) {
  if (room < bytes) abort();
  return InterposedReadlinkat(directory_fd, path, buffer, bytes);
}

char* InterposedRealpathChk(const char* path, char* resolved, size_t room)
    UROCE_INTERPOSE(__realpath_chk);
char* InterposedRealpathChk(const char* path, char* resolved, size_t room) {
  if (room < PATH_MAX) abort();
  return InterposedRealpath(path, resolved);
}

}  // extern "C"
}  // namespace uroce::verbs::virtual_kernel
