// Another library that interposes libc, as profilers do: counts open() calls and passes them on.
// When the program ends, it writes the count to the file that COUNTING_PRELOAD_FILE names.

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

namespace {

int count = 0;

[[gnu::destructor]] void Report() {
  const char* path = getenv("COUNTING_PRELOAD_FILE");
  FILE* file = path == nullptr ? nullptr : fopen(path, "w");
  if (file == nullptr) return;
  fprintf(file, "%d\n", count);
  fclose(file);
}

}  // namespace

extern "C" int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  ++count;
  return reinterpret_cast<int (*)(const char*, int, ...)>(dlsym(RTLD_NEXT, "open"))(path, flags,
                                                                                    mode);
}
