#include "dpdk_nic/port/dpdk/eal/interrupt_registration.h"

#include <rte_interrupts.h>
#include <sched.h>

#include <cerrno>
#include <utility>

extern "C" int __real_rte_intr_callback_register(const rte_intr_handle* handle,
                                                 rte_intr_callback_fn callback, void* argument);

namespace uroce::nic {
namespace {

thread_local InterruptRegistration last_registration;

}  // namespace

InterruptRegistration TakeLastInterruptRegistration() {
  return std::exchange(last_registration, {});
}

void WithdrawInterrupt(const InterruptRegistration& registration) {
  rte_intr_handle* handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
  if (handle == nullptr) return;
  rte_intr_fd_set(handle, registration.fd);
  // -EAGAIN: the callback is running.
  while (rte_intr_callback_unregister(handle, registration.callback, registration.argument) ==
         -EAGAIN) {
    sched_yield();
  }
  rte_intr_instance_free(handle);
}

}  // namespace uroce::nic

extern "C" int __wrap_rte_intr_callback_register(const rte_intr_handle* handle,
                                                 rte_intr_callback_fn callback, void* argument) {
  uroce::nic::last_registration = {rte_intr_fd_get(handle), callback, argument};
  return __real_rte_intr_callback_register(handle, callback, argument);
}
