#pragma once

#include "dpdk_nic/base/thread_annotations.h"

namespace uroce::nic {

class Engine;

// Keeps fork() from copying an engine in the middle of a pass, and tells the child's copies that
// they are copies.
//
// fork() takes these locks, in this order, which is that of every thread that takes several:
//
//   the virtual kernel's device   held while the provider describes the device
//   rdma_cm of the provider       held for a command, and while events are taken
//   verbs::Device::Open           held while the device is opened
//   the list of engines           held while an engine's port is closed
//   the engines                   held for a pass
//   LinkThread::working_          held while a link is made
//   the fault guard
//   the table of descriptors      taken for events, under the engine's lock
//
// fork() calls the handlers that were registered last first, so they are registered in the reverse
// order: the virtual kernel's last two before the provider is loaded, the engine's and the devices'
// when it is loaded, that of the virtual kernel's device after that.
//
// When the process exits it sends what waits for company (FlushPlan): peers would wait for the last
// acknowledgement.
class ForkHandler {
 public:
  // Before the first engine is made. The first call registers.
  static void Register();
  static void Add(Engine& engine);
  // Closes the port, too: a child that is forked meanwhile has either no copy of its descriptors,
  // or an engine that lets go of them.
  static void RemoveAndClosePort(Engine& engine);

 private:
  static void FlushAtExit() UROCE_NO_THREAD_SAFETY_ANALYSIS;
  // Prepare leaves all engines locked, which the analysis cannot follow.
  static void Prepare() UROCE_NO_THREAD_SAFETY_ANALYSIS;
  static void InParent() UROCE_NO_THREAD_SAFETY_ANALYSIS;
  static void InChild() UROCE_NO_THREAD_SAFETY_ANALYSIS;
};

}  // namespace uroce::nic
