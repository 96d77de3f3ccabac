// dlopen() and dlmopen() of libibverbs. With RTLD_DEEPBIND a library finds libc's functions before
// ours, and in a namespace of its own it finds none of ours: it would see no device.

#include <dlfcn.h>
#include <string.h>

#include <cstdint>

#include "verbs_provider/virtual_kernel/base/errno_guard.h"
#include "verbs_provider/virtual_kernel/base/real_libc.h"

// dlopen() and dlmopen() look where the library that calls them has its run path and its namespace,
// so they must be called with the application's return address: by a jump. Each saves the
// arguments, lets the C++ function below see and change them, and jumps to the function that this
// returns.
asm(R"(
  .pushsection .text
  .balign 16
  .globl dlopen
  .type dlopen, @function
dlopen:
  .cfi_startproc
  subq $24, %rsp
  .cfi_adjust_cfa_offset 24
  movq %rdi, (%rsp)
  movl %esi, 8(%rsp)
  leaq 8(%rsp), %rsi
  call uroce_before_dlopen
  movq (%rsp), %rdi
  movl 8(%rsp), %esi
  addq $24, %rsp
  .cfi_adjust_cfa_offset -24
  jmp *%rax
  .cfi_endproc
  .size dlopen, . - dlopen

  .balign 16
  .globl dlmopen
  .type dlmopen, @function
dlmopen:
  .cfi_startproc
  subq $24, %rsp
  .cfi_adjust_cfa_offset 24
  movq %rdi, (%rsp)
  movq %rsi, 8(%rsp)
  movl %edx, 16(%rsp)
  movq %rsp, %rdi
  call uroce_before_dlmopen
  movq (%rsp), %rdi
  movq 8(%rsp), %rsi
  movl 16(%rsp), %edx
  addq $24, %rsp
  .cfi_adjust_cfa_offset -24
  jmp *%rax
  .cfi_endproc
  .size dlmopen, . - dlmopen
  .popsection
)");

namespace uroce::verbs::virtual_kernel {
namespace {

// Libraries that talk to the kernel about RDMA.
constexpr const char* kLibraries[] = {"libibverbs.so", "librdmacm.so"};

bool IsRdmaLibrary(const char* file) {
  if (file == nullptr) return false;
  const char* const slash = strrchr(file, '/');
  const char* const name = slash == nullptr ? file : slash + 1;
  for (const char* const library : kLibraries) {
    if (strncmp(name, library, strlen(library)) == 0) return true;
  }
  return false;
}

// Any other library may bring them in. What is loaded already is not bound anew, so they are loaded
// first, where they are installed.
void LoadRdmaLibraries() {
  const ErrnoGuard guard;
  for (const char* const library : {"libibverbs.so.1", "librdmacm.so.1"}) {
    real::dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  }
  dlerror();
}

}  // namespace

// Of dlmopen(), as the code above lays them out.
struct NamespaceArguments {
  Lmid_t name_space;
  const char* file;
  int flags;
};

extern "C" {

[[gnu::visibility("hidden"), gnu::used]] void* uroce_before_dlopen(const char* file, int* flags) {
  if ((*flags & RTLD_DEEPBIND) != 0 && (*flags & RTLD_NOLOAD) == 0) {
    if (IsRdmaLibrary(file)) {
      *flags &= ~RTLD_DEEPBIND;
    } else {
      LoadRdmaLibraries();
    }
  }
  return reinterpret_cast<void*>(real::dlopen.Resolve());
}

// The namespace of the program is the only one with our functions in it.
[[gnu::visibility("hidden"), gnu::used]] void* uroce_before_dlmopen(NamespaceArguments* arguments) {
  if (IsRdmaLibrary(arguments->file)) {
    arguments->name_space = LM_ID_BASE;
    arguments->flags &= ~RTLD_DEEPBIND;
  }
  return reinterpret_cast<void*>(real::dlmopen.Resolve());
}

}  // extern "C"
}  // namespace uroce::verbs::virtual_kernel
