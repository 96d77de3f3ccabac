#pragma once

#include "transport/events.h"

namespace uroce::transport::simulation {

// Gets the events of an endpoint's object: it is the `context` of that object.
class EventListener {
 public:
  virtual ~EventListener() = default;
  virtual void OnEvent(EventType type) = 0;

  void* context() { return this; }
  static EventListener* From(void* context) { return static_cast<EventListener*>(context); }
};

}  // namespace uroce::transport::simulation
