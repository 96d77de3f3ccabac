#pragma once

#include "transport/events.h"

namespace uroce::transport::simulation {

// Whoever has an object of the endpoint, and is told of its events: the `context` of the object.
class EventListener {
 public:
  virtual ~EventListener() = default;
  virtual void OnEvent(EventType type) = 0;

  void* context() { return this; }
  static EventListener* From(void* context) { return static_cast<EventListener*>(context); }
};

}  // namespace uroce::transport::simulation
