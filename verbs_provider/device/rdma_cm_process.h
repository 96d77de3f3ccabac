#pragma once

namespace uroce::verbs {

// Makes fork() wait for a running command of rdma_cm. Called when the library is loaded, after the
// devices' handlers are registered, because an id opens the device.
void RegisterConnectionManagerForkHandler();

// The engine calls this, under its lock, when peers did something or the device has failed.
void OnConnectionEvents();

}  // namespace uroce::verbs
