#include "verbs_provider/base/fork_generation.h"

#include <pthread.h>

namespace uroce::verbs {

void CountForks() {
  pthread_atfork(nullptr, nullptr, [] { fork_generation.fetch_add(1, std::memory_order_relaxed); });
}

}  // namespace uroce::verbs
