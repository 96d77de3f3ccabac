// Uses the device at each moment of a process's life: UCX, NCCL's plugins and lazy statics of Rust
// open it in a constructor and destroy everything in a destructor or a handler of exit.
#include <pthread.h>

#include <cstdlib>

#include "tests/system/cases/loading_library.h"

namespace {

using uroce::verbs::testing::UseDevice;

pthread_key_t key;

void* RunThread(void*) {
  pthread_setspecific(key, &key);
  UseDevice("thread");
  return nullptr;
}

}  // namespace

int main() {
  std::atexit([] { UseDevice("atexit"); });
  UseDevice("main");
  pthread_key_create(&key, [](void*) { UseDevice("key destructor"); });
  pthread_t thread;
  if (pthread_create(&thread, nullptr, RunThread, nullptr) != 0) return 1;
  return pthread_join(thread, nullptr);
}
