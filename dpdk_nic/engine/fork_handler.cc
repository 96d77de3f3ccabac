#include "dpdk_nic/engine/fork_handler.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/base/thread_annotations.h"
#include "dpdk_nic/engine/engine.h"
#include "dpdk_nic/engine/engine_lock.h"
#include "transport/time.h"

namespace uroce::nic {
namespace {

struct Registry {
  Mutex mutex;
  std::vector<Engine*> engines UROCE_GUARDED_BY(mutex);
};

// Never destroyed: a process may fork in its exit handlers.
Registry& TheRegistry() {
  static Registry& registry = *new Registry;
  return registry;
}

// A pass takes microseconds, and some milliseconds if its thread has lost its processor.
constexpr transport::Duration kLongestWaitAtExit = transport::Milliseconds(100);

bool LockUntil(transport::Time give_up, EngineLock* lock) UROCE_TRY_ACQUIRE(true, *lock) {
  while (!lock->TryLock()) {
    if (Now() >= give_up) return false;
    Nap();
  }
  return true;
}

}  // namespace

void ForkHandler::Register() {
  [[maybe_unused]] static const int registered = pthread_atfork(Prepare, InParent, InChild);
  [[maybe_unused]] static const int registered_for_exit = std::atexit(FlushAtExit);
  [[maybe_unused]] static const int registered_for_quick_exit = at_quick_exit(FlushAtExit);
}

void ForkHandler::Add(Engine& engine) {
  Register();
  const MutexLock lock(TheRegistry().mutex);
  TheRegistry().engines.push_back(&engine);
}

void ForkHandler::RemoveAndClosePort(Engine& engine) {
  const MutexLock lock(TheRegistry().mutex);
  std::erase(TheRegistry().engines, &engine);
  engine.link_layer_.reset();  // it may refer to the port
  // A forked child leaks the port: its destructor may change memory that the parent uses, too.
  if (engine.in_forked_child()) (void)engine.port_.release();
  engine.port_.reset();
}

// Tries the locks for a moment only: a pass ends soon, but at exit() another thread, or
// this one, may hold one for ever.
void ForkHandler::FlushAtExit() {
  if (!TheRegistry().mutex.try_lock()) return;
  const transport::Time give_up = Now() + kLongestWaitAtExit;
  for (Engine* engine : TheRegistry().engines) {
    if (!LockUntil(give_up, &engine->lock_)) continue;
    if (!engine->in_forked_child()) engine->port_->Flush();
    engine->lock_.Unlock();
  }
  TheRegistry().mutex.unlock();
}

// A joined lock is not taken: it stands for the lock of an engine earlier in the list, which is.
void ForkHandler::Prepare() {
  TheRegistry().mutex.lock();
  for (Engine* engine : TheRegistry().engines) {
    if (!engine->lock_.has_joined()) engine->lock_.Lock();
    if (!engine->in_forked_child()) engine->port_->BeforeFork();
  }
}

void ForkHandler::InParent() {
  for (Engine* engine : TheRegistry().engines) {
    if (!engine->in_forked_child()) engine->port_->AfterForkInParent();
    if (!engine->lock_.has_joined()) engine->lock_.Unlock();
  }
  TheRegistry().mutex.unlock();
}

void ForkHandler::InChild() {
  for (Engine* engine : TheRegistry().engines) {
    engine->MarkForked();
    if (!engine->lock_.has_joined()) engine->lock_.Unlock();
  }
  TheRegistry().mutex.unlock();
}

}  // namespace uroce::nic
