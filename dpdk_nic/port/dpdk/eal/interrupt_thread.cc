#include "dpdk_nic/port/dpdk/eal/interrupt_thread.h"

#include <rte_alarm.h>

#include <future>

namespace uroce::nic {
namespace {

struct Order {
  const std::function<void()>& task;
  std::promise<void> done;
};

void Execute(void* argument) {
  auto* order = static_cast<Order*>(argument);
  order->task();
  order->done.set_value();
}

}  // namespace

void RunOnInterruptThread(const std::function<void()>& task) {
  Order order{.task = task, .done = {}};
  std::future<void> done = order.done.get_future();
  if (rte_eal_alarm_set(1, Execute, &order) != 0) {
    task();  // no memory for the alarm: better here than not at all
    return;
  }
  done.wait();
}

}  // namespace uroce::nic
