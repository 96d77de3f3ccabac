#pragma once

namespace uroce::verbs {

// Has fork() wait for a command of rdma_cm. Called when the library is loaded, after the devices'
// handlers: an id opens the device.
void RegisterConnectionManagerForkHandler();

// Told by the engine, under its lock, that peers did something or that the device has failed.
void OnConnectionEvents();

}  // namespace uroce::verbs
