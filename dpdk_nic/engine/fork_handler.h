#pragma once

#include "dpdk_nic/base/thread_annotations.h"

namespace uroce::nic {

class Engine;

// Keeps fork() from copying an engine in the middle of a pass, and tells the child's copies that
// they are copies.
//
// fork() takes these locks in this order, as does every thread that takes several:
//
//   the virtual kernel's device   held while the provider describes the device
//   rdma_cm of the provider       held for a command, and while events are taken
//   verbs::Device::Open           held while the device is opened
//   the list of engines           held while an engine's port is closed
//   the engines                   held for a pass
//   LinkThread::working_          held while a link is made
//   the list of pinned memory     taken for a fault, under the engine's lock
//   the fault guard
//   the table of descriptors      taken for events, under the engine's lock
//
// fork() calls the handler that was registered last first, so they are registered in the reverse
// order: the last two, which are the virtual kernel's, before the provider is loaded, those of the
// engine and the devices when it is loaded, that of the virtual kernel's device after that.
//
// At exit() and quick_exit() it flushes frames that wait for further ones (FramePolicy): peers
// would wait for the last acknowledgement.
class ForkHandler {
 public:
  // To be called before the first engine is made. The first call registers the handlers.
  static void Register();
  static void Add(Engine& engine);
  // Also closes the port: a child that is forked meanwhile has either no copy of the port's
  // descriptors, or an engine that lets go of them.
  static void RemoveAndClosePort(Engine& engine);
  // For a process that ends without its exit handlers: waits for no lock longer than 100 ms, as it
  // may have interrupted a thread that has one.
  static void FlushAtExit();

 private:
  // Prepare leaves all engines locked, which the analysis cannot follow.
  static void Prepare() UROCE_NO_THREAD_SAFETY_ANALYSIS;
  static void InParent() UROCE_NO_THREAD_SAFETY_ANALYSIS;
  static void InChild() UROCE_NO_THREAD_SAFETY_ANALYSIS;
};

}  // namespace uroce::nic
