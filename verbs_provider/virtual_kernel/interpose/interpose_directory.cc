// opendir and what is done with its result.

#include <dirent.h>
#include <fcntl.h>

#include "verbs_provider/virtual_kernel/base/real_libc.h"
#include "verbs_provider/virtual_kernel/files/directory_stream.h"
#include "verbs_provider/virtual_kernel/files/files.h"
#include "verbs_provider/virtual_kernel/interpose/interpose.h"

namespace uroce::verbs::virtual_kernel {

// So that readdir64 can be the same function.
static_assert(sizeof(struct dirent) == sizeof(struct dirent64));

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
  return DirectoryStream::Open(*Resolve(AT_FDCWD, directory->path().c_str()), fd);
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

}  // extern "C"
}  // namespace uroce::verbs::virtual_kernel
