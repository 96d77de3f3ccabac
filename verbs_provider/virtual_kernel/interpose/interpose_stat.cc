// stat and access in all their shapes, and extended attributes.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>

#include "verbs_provider/virtual_kernel/base/real_libc.h"
#include "verbs_provider/virtual_kernel/files/files.h"
#include "verbs_provider/virtual_kernel/interpose/interpose.h"

namespace uroce::verbs::virtual_kernel {

// So that stat64 and the like can be the same functions.
static_assert(sizeof(struct stat) == sizeof(struct stat64));

namespace {

// `path` with AT_EMPTY_PATH stands for the descriptor itself.
bool IsEmptyPath(const char* path, int flags) {
  return (flags & AT_EMPTY_PATH) != 0 && path != nullptr && path[0] == '\0';
}

Lookup::LastLink LastLinkOf(int flags) {
  return (flags & AT_SYMLINK_NOFOLLOW) != 0 ? Lookup::LastLink::kKeep : Lookup::LastLink::kFollow;
}

ssize_t NoAttribute() {
  errno = ENODATA;
  return -1;
}

void ConvertToStatx(const struct stat& from, struct statx* to) {
  *to = {};
  to->stx_mask = STATX_BASIC_STATS;
  to->stx_blksize = static_cast<uint32_t>(from.st_blksize);
  to->stx_nlink = static_cast<uint32_t>(from.st_nlink);
  to->stx_uid = from.st_uid;
  to->stx_gid = from.st_gid;
  to->stx_mode = static_cast<uint16_t>(from.st_mode);
  to->stx_ino = from.st_ino;
  to->stx_size = static_cast<uint64_t>(from.st_size);
  to->stx_rdev_major = major(from.st_rdev);
  to->stx_rdev_minor = minor(from.st_rdev);
}

}  // namespace

extern "C" {

// No aliases: before 2.33, glibc's headers define stat and its kin as inline functions.
int InterposedStat(const char* path, struct stat* result) UROCE_INTERPOSE(stat);
int InterposedStat(const char* path, struct stat* result) {
  const Lookup found(path);
  return found.ours() ? StatVirtual(*found.ours(), result)
                      : real::stat(found.kernel_path(), result);
}
int InterposedStat64(const char* path, struct stat* result) UROCE_INTERPOSE(stat64);
int InterposedStat64(const char* path, struct stat* result) { return InterposedStat(path, result); }

int InterposedLstat(const char* path, struct stat* result) UROCE_INTERPOSE(lstat);
int InterposedLstat(const char* path, struct stat* result) {
  const Lookup found(path, Lookup::LastLink::kKeep);
  return found.ours() ? StatVirtual(*found.ours(), result)
                      : real::lstat(found.kernel_path(), result);
}
int InterposedLstat64(const char* path, struct stat* result) UROCE_INTERPOSE(lstat64);
int InterposedLstat64(const char* path, struct stat* result) {
  return InterposedLstat(path, result);
}

int InterposedFstat(int fd, struct stat* result) UROCE_INTERPOSE(fstat);
int InterposedFstat(int fd, struct stat* result) {
  return StatTracked(fd, result) ? 0 : real::fstat(fd, result);
}
int InterposedFstat64(int fd, struct stat* result) UROCE_INTERPOSE(fstat64);
int InterposedFstat64(int fd, struct stat* result) { return InterposedFstat(fd, result); }

int InterposedFstatat(int directory_fd, const char* path, struct stat* result, int flags)
    UROCE_INTERPOSE(fstatat);
int InterposedFstatat(int directory_fd, const char* path, struct stat* result, int flags) {
  if (IsEmptyPath(path, flags)) {
    return StatTracked(directory_fd, result) ? 0 : real::fstatat(directory_fd, path, result, flags);
  }
  const Lookup found(directory_fd, path, LastLinkOf(flags));
  return found.ours() ? StatVirtual(*found.ours(), result)
                      : real::fstatat(found.kernel_fd(), found.kernel_path(), result, flags);
}
int InterposedFstatat64(int directory_fd, const char* path, struct stat* result, int flags)
    UROCE_INTERPOSE(fstatat64);
int InterposedFstatat64(int directory_fd, const char* path, struct stat* result, int flags) {
  return InterposedFstatat(directory_fd, path, result, flags);
}

int InterposedStatx(int directory_fd, const char* path, int flags, unsigned int mask,
                    struct statx* result) UROCE_INTERPOSE(statx);
int InterposedStatx(int directory_fd, const char* path, int flags, unsigned int mask,
                    struct statx* result) {
  struct stat plain;
  if (IsEmptyPath(path, flags)) {
    if (!StatTracked(directory_fd, &plain)) {
      return real::statx(directory_fd, path, flags, mask, result);
    }
  } else {
    const Lookup found(directory_fd, path, LastLinkOf(flags));
    if (!found.ours()) {
      return real::statx(found.kernel_fd(), found.kernel_path(), flags, mask, result);
    }
    StatVirtual(*found.ours(), &plain);
  }
  ConvertToStatx(plain, result);
  return 0;
}

// Programs that were built against glibc before 2.33 call these. `version` says which struct stat;
// on 64-bit platforms there is only the present one.
int InterposedXstat(int version, const char* path, struct stat* result) UROCE_INTERPOSE(__xstat);
int InterposedXstat(int /*version*/, const char* path, struct stat* result) {
  return InterposedStat(path, result);
}
int InterposedXstat64(int version, const char* path, struct stat* result)
    UROCE_INTERPOSE_ALIAS(__xstat64, __xstat);

int InterposedLxstat(int version, const char* path, struct stat* result) UROCE_INTERPOSE(__lxstat);
int InterposedLxstat(int /*version*/, const char* path, struct stat* result) {
  return InterposedLstat(path, result);
}
int InterposedLxstat64(int version, const char* path, struct stat* result)
    UROCE_INTERPOSE_ALIAS(__lxstat64, __lxstat);

int InterposedFxstat(int version, int fd, struct stat* result) UROCE_INTERPOSE(__fxstat);
int InterposedFxstat(int /*version*/, int fd, struct stat* result) {
  return InterposedFstat(fd, result);
}
int InterposedFxstat64(int version, int fd, struct stat* result)
    UROCE_INTERPOSE_ALIAS(__fxstat64, __fxstat);

int InterposedFxstatat(int version, int directory_fd, const char* path, struct stat* result,
                       int flags) UROCE_INTERPOSE(__fxstatat);
int InterposedFxstatat(int /*version*/, int directory_fd, const char* path, struct stat* result,
                       int flags) {
  return InterposedFstatat(directory_fd, path, result, flags);
}
int InterposedFxstatat64(int version, int directory_fd, const char* path, struct stat* result,
                         int flags) UROCE_INTERPOSE_ALIAS(__fxstatat64, __fxstatat);

int InterposedAccess(const char* path, int mode) UROCE_INTERPOSE(access);
int InterposedAccess(const char* path, int mode) {
  const Lookup found(path);
  return found.ours() ? AccessVirtual(*found.ours(), mode)
                      : real::access(found.kernel_path(), mode);
}

int InterposedFaccessat(int directory_fd, const char* path, int mode, int flags)
    UROCE_INTERPOSE(faccessat);
int InterposedFaccessat(int directory_fd, const char* path, int mode, int flags) {
  const Lookup found(directory_fd, path, LastLinkOf(flags));
  return found.ours() ? AccessVirtual(*found.ours(), mode)
                      : real::faccessat(found.kernel_fd(), found.kernel_path(), mode, flags);
}

// eaccess checks for the effective user and group; our permissions are the same for all.
int InterposedEaccess(const char* path, int mode) UROCE_INTERPOSE(eaccess);
int InterposedEaccess(const char* path, int mode) {
  const Lookup found(path);
  return found.ours() ? AccessVirtual(*found.ours(), mode)
                      : real::eaccess(found.kernel_path(), mode);
}
int InterposedEuidaccess(const char* path, int mode) UROCE_INTERPOSE_ALIAS(euidaccess, eaccess);

// `ls -l` looks for access control lists: there are no extended attributes, as in sysfs.
ssize_t InterposedGetxattr(const char* path, const char* name, void* value, size_t bytes)
    UROCE_INTERPOSE(getxattr);
ssize_t InterposedGetxattr(const char* path, const char* name, void* value, size_t bytes) {
  const Lookup found(path);
  return found.ours() ? NoAttribute() : real::getxattr(found.kernel_path(), name, value, bytes);
}

ssize_t InterposedLgetxattr(const char* path, const char* name, void* value, size_t bytes)
    UROCE_INTERPOSE(lgetxattr);
ssize_t InterposedLgetxattr(const char* path, const char* name, void* value, size_t bytes) {
  const Lookup found(path, Lookup::LastLink::kKeep);
  return found.ours() ? NoAttribute() : real::lgetxattr(found.kernel_path(), name, value, bytes);
}

ssize_t InterposedListxattr(const char* path, char* names, size_t bytes) UROCE_INTERPOSE(listxattr);
ssize_t InterposedListxattr(const char* path, char* names, size_t bytes) {
  const Lookup found(path);
  return found.ours() ? 0 : real::listxattr(found.kernel_path(), names, bytes);
}

ssize_t InterposedLlistxattr(const char* path, char* names, size_t bytes)
    UROCE_INTERPOSE(llistxattr);
ssize_t InterposedLlistxattr(const char* path, char* names, size_t bytes) {
  const Lookup found(path, Lookup::LastLink::kKeep);
  return found.ours() ? 0 : real::llistxattr(found.kernel_path(), names, bytes);
}

}  // extern "C"
}  // namespace uroce::verbs::virtual_kernel
