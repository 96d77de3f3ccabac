// _exit: ends the process without its exit handlers. quick_exit has handlers of its own, and a raw
// exit_group() through syscall() is as sudden as SIGKILL.

#include <unistd.h>

#include "verbs_provider/virtual_kernel/base/real_libc.h"
#include "verbs_provider/virtual_kernel/device/device.h"
#include "verbs_provider/virtual_kernel/interpose/interpose.h"

namespace uroce::verbs::virtual_kernel {

extern "C" {

[[noreturn]] void InterposedExit(int status) UROCE_INTERPOSE(_exit);
void InterposedExit(int status) {
  BeforeEnd();
  real::_exit(status);
  __builtin_unreachable();
}
[[noreturn]] void InterposedExitOfC(int status) UROCE_INTERPOSE_ALIAS(_Exit, _exit);

}  // extern "C"
}  // namespace uroce::verbs::virtual_kernel
