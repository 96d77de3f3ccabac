// open, fopen and the other calls that lead from a path to its content.

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <string>

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
  const bool keeps_link = (flags & O_NOFOLLOW) != 0;
  const Lookup found(directory_fd, path,
                     keeps_link ? Lookup::LastLink::kKeep : Lookup::LastLink::kFollow);
  if (found.ours()) return OpenVirtual(*found.ours(), flags);
  return real::openat(found.kernel_fd(), found.kernel_path(), flags, mode);
}

// Opens ours with the flags that fopen() has for `mode`.
int OpenForStream(const VirtualPath& path, const char* mode) {
  const bool writes = mode[0] != 'r' || strchr(mode, '+') != nullptr;
  const int close_on_exec = strchr(mode, 'e') != nullptr ? O_CLOEXEC : 0;
  return OpenVirtual(path, (writes ? O_RDWR : O_RDONLY) | close_on_exec);
}

}  // namespace

extern "C" {

int InterposedOpen(const char* path, int flags, ...) UROCE_INTERPOSE(open);
int InterposedOpen(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return OpenAt(AT_FDCWD, path, flags, mode);
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

// creat() of a file that exists; sysfs refuses to write.
int InterposedCreat(const char* path, mode_t mode) UROCE_INTERPOSE(creat);
int InterposedCreat(const char* path, mode_t mode) {
  return OpenAt(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
int InterposedCreat64(const char* path, mode_t mode) UROCE_INTERPOSE_ALIAS(creat64, creat);

FILE* InterposedFopen(const char* path, const char* mode) UROCE_INTERPOSE(fopen);
FILE* InterposedFopen(const char* path, const char* mode) {
  const Lookup found(path);
  if (!found.ours()) return real::fopen(found.kernel_path(), mode);
  const int fd = OpenForStream(*found.ours(), mode);
  if (fd < 0) return nullptr;
  FILE* stream = fdopen(fd, mode);
  if (stream == nullptr) close(fd);
  return stream;
}
FILE* InterposedFopen64(const char* path, const char* mode) UROCE_INTERPOSE_ALIAS(fopen64, fopen);

// libc's own opens the name of our descriptor, which makes it read the same file from the start.
FILE* InterposedFreopen(const char* path, const char* mode, FILE* stream) UROCE_INTERPOSE(freopen);
FILE* InterposedFreopen(const char* path, const char* mode, FILE* stream) {
  const Lookup found(path);
  if (!found.ours()) return real::freopen(found.kernel_path(), mode, stream);
  const int fd = OpenForStream(*found.ours(), mode);
  if (fd < 0) {
    fclose(stream);
    return nullptr;
  }
  char name[32];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  FILE* const reopened = real::freopen(name, mode, stream);
  close(fd);
  return reopened;
}
FILE* InterposedFreopen64(const char* path, const char* mode, FILE* stream)
    UROCE_INTERPOSE_ALIAS(freopen64, freopen);

ssize_t InterposedReadlinkat(int directory_fd, const char* path, char* buffer, size_t bytes)
    UROCE_INTERPOSE(readlinkat);
ssize_t InterposedReadlinkat(int directory_fd, const char* path, char* buffer, size_t bytes) {
  const Lookup found(directory_fd, path, Lookup::LastLink::kKeep);
  return found.ours() ? ReadlinkVirtual(*found.ours(), buffer, bytes)
                      : real::readlinkat(found.kernel_fd(), found.kernel_path(), buffer, bytes);
}

ssize_t InterposedReadlink(const char* path, char* buffer, size_t bytes) UROCE_INTERPOSE(readlink);
ssize_t InterposedReadlink(const char* path, char* buffer, size_t bytes) {
  const Lookup found(path, Lookup::LastLink::kKeep);
  return found.ours() ? ReadlinkVirtual(*found.ours(), buffer, bytes)
                      : real::readlink(found.kernel_path(), buffer, bytes);
}

char* InterposedRealpath(const char* path, char* resolved) UROCE_INTERPOSE(realpath);
char* InterposedRealpath(const char* path, char* resolved) {
  const Lookup found(path);
  if (!found.ours()) return real::realpath(found.kernel_path(), resolved);
  // No path of the tree comes near PATH_MAX, which is what `resolved` must have room for.
  const std::string& canonical = found.ours()->path;
  return resolved == nullptr ? strdup(canonical.c_str()) : strcpy(resolved, canonical.c_str());
}

char* InterposedCanonicalizeFileName(const char* path) UROCE_INTERPOSE(canonicalize_file_name);
char* InterposedCanonicalizeFileName(const char* path) { return InterposedRealpath(path, nullptr); }

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
